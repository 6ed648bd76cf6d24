//! Renders the message for a page: from the template's sample, from pasted JSON, or from the open window of a
//! key.
//!
//! A page cannot change `prefers-color-scheme`, so the copy in the frame has the chosen scheme in its media
//! queries.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tidings_mail::render::{RenderedEmail, TemplateError, TemplateRenderer, TemplateTrial};
use tidings_model::{Key, settings::UnknownRecipients};
use tidings_operations::{digest::preview_window, preview::PreviewOverrides};
use tidings_services::StepServices;
use tokio::{
    sync::{Mutex, Semaphore},
    task::spawn_blocking,
};

use super::{
    fault::WorkshopFault,
    templates::{FolderState, LoadedTemplates},
    wanted::{ColourScheme, PastedJson, TemplateQuery, non_empty},
};
use crate::{Config, client, commands::digest::preview::preview_notes, storage};

pub(super) struct WorkshopState {
    pub config: Config,
    pub kept: PastedJson,
    pub spam: Semaphore,
    pub inbox: Option<String>,
    latest: Mutex<Option<Arc<LoadedTemplates>>>,
}

impl WorkshopState {
    pub fn new(config: Config, inbox: Option<String>) -> Self {
        Self { config, kept: PastedJson::default(), spam: Semaphore::new(1), inbox, latest: Mutex::default() }
    }

    pub fn folder(&self) -> Option<&Path> {
        self.config.templates.as_deref()
    }

    /// Returns the templates for this state of the files. They are only read again if the state changed.
    ///
    /// # Errors
    /// A file cannot be read, or has a fault.
    pub async fn templates(&self, files: &FolderState) -> Result<Arc<LoadedTemplates>, WorkshopFault> {
        let mut latest = self.latest.lock().await;
        if let Some(templates) = latest.as_ref().filter(|templates| templates.are_of(files)) {
            return Ok(Arc::clone(templates));
        }
        let templates = Arc::new(LoadedTemplates::read_files(files.clone(), self.folder()).await?);
        *latest = Some(Arc::clone(&templates));
        Ok(templates)
    }
}

pub(super) struct WorkshopMessage {
    pub mail: RenderedEmail,
    pub notes: Vec<String>,
}

/// # Errors
/// The template or its data has a fault, no window is open, or Temporal, a worker or the store does not
/// respond.
pub(super) async fn render_message(
    bench: &WorkshopState,
    renderer: &Arc<TemplateRenderer>,
    wanted: &TemplateQuery,
) -> Result<WorkshopMessage, WorkshopFault> {
    if let Some(key) = non_empty(&wanted.key) {
        return render_window(bench, renderer.clone(), wanted, key).await;
    }
    let data = own_data(bench, wanted)?;
    let (renderer, wanted, folder) = (renderer.clone(), wanted.clone(), bench.folder().map(PathBuf::from));
    let rendered = spawn_blocking(move || {
        let trial =
            TemplateTrial { data: data.as_deref(), locale: non_empty(&wanted.lang), zone: non_empty(&wanted.zone) };
        renderer.try_out(&wanted.name, &trial).map_err(|error| WorkshopFault::of_templates(&error, folder.as_deref()))
    });
    let mail = rendered.await.map_err(|error| WorkshopFault::new("Tidings", error, "Please report that."))??;
    Ok(WorkshopMessage { mail, notes: Vec::new() })
}

fn own_data(bench: &WorkshopState, wanted: &TemplateQuery) -> Result<Option<Arc<str>>, WorkshopFault> {
    let Some(id) = non_empty(&wanted.data) else { return Ok(None) };
    let gone = || {
        let problem = "it is no longer kept: tidings dev keeps the latest 50 until it ends";
        WorkshopFault::new("your JSON", problem, "Paste it again below.")
    };
    bench.kept.find_json(id).map(Some).ok_or_else(gone)
}

async fn render_window(
    bench: &WorkshopState,
    renderer: Arc<TemplateRenderer>,
    wanted: &TemplateQuery,
    key: &str,
) -> Result<WorkshopMessage, WorkshopFault> {
    let wrong = |error| WorkshopFault::new(key, error, "Write TENANT/TYPE/USER, for example acme/activity/ann.");
    let parsed: Key = key.parse().map_err(wrong)?;
    let failed =
        |error: anyhow::Error| WorkshopFault::new(key, format!("{error:#}"), "Load the page again when that is done.");
    let deps = deps(bench, renderer.clone()).await.map_err(failed)?;
    let commands = client::connect_commands(&bench.config).await.map_err(failed)?;
    let (locale, zone) = (non_empty(&wanted.lang), non_empty(&wanted.zone));
    let instead = PreviewOverrides { template: Some(&wanted.name), locale, zone };
    let shown = preview_window(&commands, &deps, &parsed, &instead).await.map_err(|error| failed(error.into()))?;
    let nothing =
        |problem: &str| WorkshopFault::new(key, problem, "Emit an event for this key, for example with tidings emit.");
    let Some((due, preview)) = shown else { return Err(nothing("no window is open")) };
    let mut notes = preview_notes(&preview, due.more);
    let Some(mail) = preview.mail else { return Err(nothing(&notes.join("; "))) };
    if let Some(other) = deps.settings.digest(&parsed).map(|digest| &digest.template).filter(|own| **own != wanted.name)
    {
        notes.push(format!("its messages use the template {other}"));
    }
    match &mail.fallback {
        None => Ok(WorkshopMessage { mail, notes }),
        Some(problem) => Err(fallback_fault(&renderer, &wanted.name, problem, bench)),
    }
}

fn fallback_fault(renderer: &TemplateRenderer, name: &str, problem: &str, bench: &WorkshopState) -> WorkshopFault {
    let error = if renderer.names().iter().any(|known| known == name) {
        let (place, problem) = problem.split_once(": ").unwrap_or((name, problem));
        TemplateError::Template { place: place.to_owned(), problem: problem.to_owned() }
    } else {
        TemplateError::Unknown { name: name.to_owned(), names: renderer.names() }
    };
    WorkshopFault::of_templates(&error, bench.folder())
}

async fn deps(bench: &WorkshopState, renderer: Arc<TemplateRenderer>) -> anyhow::Result<StepServices> {
    let config = &bench.config;
    let settings = config.settings(UnknownRecipients::Invent)?;
    let store = storage::open(&config.database_url).await?;
    Ok(StepServices::for_previews(store, config.team_directory()?, renderer, settings))
}

const FEATURE: &str = "prefers-color-scheme";
const ALWAYS: &str = "(min-width:0)";
const NEVER: &str = "(max-width:0)";

pub(super) fn in_scheme(html: &str, scheme: ColourScheme) -> String {
    let mut made = String::with_capacity(html.len() + 100);
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        made.push_str(text);
        let end = if starts_with(tag, "<style") {
            // Take the whole style sheet. Values are escaped, so none can contain a tag.
            find_ascii(tag, "</style").unwrap_or(tag.len())
        } else {
            tag.find('>').map_or(tag.len(), |end| end + 1)
        };
        made.push_str(&fix_media_queries(&tag[..end], scheme));
        rest = &tag[end..];
    }
    made.push_str(rest);
    let fixed = match scheme {
        ColourScheme::Light => "<style>:root{color-scheme:light!important}</style>",
        ColourScheme::Dark => "<style>:root{color-scheme:dark!important}</style>",
    };
    let at = find_ascii(&made, "</head>").unwrap_or(made.len());
    made.insert_str(at, fixed);
    made
}

fn fix_media_queries(css: &str, scheme: ColourScheme) -> String {
    let mut made = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(at) = find_ascii(rest, FEATURE) {
        let after = at + FEATURE.len();
        let open = rest[..at].trim_end().strip_suffix('(').map(str::len);
        let value = rest[after..].trim_start().strip_prefix(':').and_then(|value| value.split_once(')'));
        if let (Some(open), Some((value, behind))) = (open, value) {
            let holds = match scheme {
                ColourScheme::Light => value.trim().eq_ignore_ascii_case("light"),
                ColourScheme::Dark => value.trim().eq_ignore_ascii_case("dark"),
            };
            made.push_str(&rest[..open]);
            made.push_str(if holds { ALWAYS } else { NEVER });
            rest = behind;
        } else {
            made.push_str(&rest[..after]);
            rest = &rest[after..];
        }
    }
    made + rest
}

fn find_ascii(text: &str, wanted: &str) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    text.windows(wanted.len()).position(|part| part.eq_ignore_ascii_case(wanted))
}

fn starts_with(text: &str, wanted: &str) -> bool {
    text.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_queries_answer_the_scheme_and_text_stays() {
        let html = "<html><head><STYLE>@media ( Prefers-Color-Scheme : dark ) and (max-width: 9px) { a { b: c } }\n\
                    @media not (prefers-color-scheme:light) { i > b { c: d } }</STYLE></head>\
                    <source media=\"(prefers-color-scheme: dark)\"><p>(prefers-color-scheme: dark) é</p>";
        let dark = in_scheme(html, ColourScheme::Dark);
        assert_eq!(
            dark,
            "<html><head><STYLE>@media (min-width:0) and (max-width: 9px) { a { b: c } }\n\
             @media not (max-width:0) { i > b { c: d } }</STYLE><style>:root{color-scheme:dark!important}</style></head>\
             <source media=\"(min-width:0)\"><p>(prefers-color-scheme: dark) é</p>"
        );
        let light = in_scheme(html, ColourScheme::Light);
        assert!(light.contains("@media (max-width:0) and") && light.contains("@media not (min-width:0)"), "{light}");
        assert!(light.contains("color-scheme:light!important"), "{light}");
    }

    #[test]
    fn html_that_breaks_off_keeps_its_bytes() {
        for html in ["", "<", "<style>(prefers-color-scheme", "<p title='(prefers-color-scheme: dark'", "é</style>"] {
            let made = in_scheme(html, ColourScheme::Light);
            assert!(made.starts_with(html), "{made}");
        }
    }
}
