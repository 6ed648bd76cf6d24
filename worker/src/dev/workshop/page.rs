//! The workshop's two pages: the list of templates, and a single template.

use std::{path::Path, sync::LazyLock};

use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse as _, Response},
};
use serde::Serialize;
use tera::{Context, Tera};
use tidings_mail::render::{RenderedEmail, TemplateRenderer};
use tidings_model::zone_names;

use super::{
    fault::{TemplateFindings, WorkshopFault},
    making::{WorkshopMessage, WorkshopState},
    spam::SpamScore,
    templates::FolderState,
    wanted::{MessageTab, SpamCheck, TemplateQuery},
};

pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                                 frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

static PAGES: LazyLock<Result<Tera, tera::Error>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    tera.add_raw_templates([
        ("frame.html", include_str!("frame.html")),
        ("fault.html", include_str!("fault.html")),
        ("found.html", include_str!("found.html")),
        ("list.html", include_str!("list.html")),
        ("template.html", include_str!("template.html")),
    ])?;
    Ok(tera)
});

#[derive(Serialize)]
struct WorkshopPage<'a, V> {
    seen: &'a str,
    inbox: Option<&'a str>,
    #[serde(flatten)]
    view: V,
}

#[derive(Serialize)]
struct TemplateListView<'a> {
    folder: Option<String>,
    fault: Option<&'a WorkshopFault>,
    templates: Vec<TemplateListItem>,
    found: Option<&'a TemplateFindings>,
}

#[derive(Serialize)]
struct TemplateListItem {
    name: String,
    url: String,
    path: String,
    is_own: bool,
    languages: Vec<LanguageLink>,
}

#[derive(Serialize)]
struct LanguageLink {
    tag: String,
    url: String,
}

#[derive(Serialize)]
struct TemplatePageView<'a> {
    wanted: &'a TemplateQuery,
    path: Option<String>,
    languages: Vec<SelectOption>,
    zones: Vec<SelectOption>,
    fault: Option<&'a WorkshopFault>,
    shown: Option<MessageParts<'a>>,
    notes: &'a [String],
    tabs: Vec<PageTab>,
    frame_url: String,
    own_url: String,
    sample_url: String,
    spam_url: String,
    spam: Option<SpamScore>,
    found: Option<&'a TemplateFindings>,
    json: &'a str,
}

#[derive(Serialize)]
struct SelectOption {
    value: String,
    is_chosen: bool,
}

#[derive(Serialize)]
struct PageTab {
    text: &'static str,
    url: String,
    is_current: bool,
}

#[derive(Serialize)]
struct MessageParts<'a> {
    subject: &'a str,
    text: &'a str,
    html: &'a str,
    bytes: usize,
    kilobytes: String,
}

pub(super) fn list_page(
    bench: &WorkshopState,
    files: &FolderState,
    renderer: Result<&TemplateRenderer, &WorkshopFault>,
    found: Option<&TemplateFindings>,
) -> Response {
    let listed = |renderer: &TemplateRenderer| {
        let languages = renderer.languages();
        let listed = |(name, path)| TemplateListItem::new(name, path, bench.folder(), &languages);
        renderer.template_origins().into_iter().map(listed).collect()
    };
    let view = TemplateListView {
        folder: bench.folder().map(|folder| folder.display().to_string()),
        fault: renderer.err(),
        templates: renderer.map(listed).unwrap_or_default(),
        found,
    };
    render_page(bench, files, "list.html", view)
}

impl TemplateListItem {
    fn new(name: String, path: std::path::PathBuf, folder: Option<&Path>, languages: &[String]) -> Self {
        let wanted = TemplateQuery { name: name.clone(), ..TemplateQuery::default() };
        let in_language = |tag: &String| {
            let url = template_url(&TemplateQuery { lang: tag.clone(), ..wanted.clone() });
            LanguageLink { tag: tag.clone(), url }
        };
        Self {
            url: template_url(&wanted),
            is_own: folder.is_some_and(|folder| path.starts_with(folder)),
            path: path.display().to_string(),
            languages: languages.iter().map(in_language).collect(),
            name,
        }
    }
}

pub(super) struct TemplatePageParts<'a> {
    pub renderer: Option<&'a TemplateRenderer>,
    pub made: Result<&'a WorkshopMessage, &'a WorkshopFault>,
    pub found: Option<&'a TemplateFindings>,
    pub spam: Option<SpamScore>,
    pub json: &'a str,
}

pub(super) fn template_page(
    bench: &WorkshopState,
    files: &FolderState,
    wanted: &TemplateQuery,
    parts: TemplatePageParts<'_>,
) -> Response {
    let TemplatePageParts { renderer, made, found, spam, json } = parts;
    let own = renderer.and_then(|renderer| {
        let path = renderer.template_origins().into_iter().find(|(name, _)| *name == wanted.name)?.1;
        bench.folder().is_some_and(|folder| path.starts_with(folder)).then(|| path.display().to_string())
    });
    let languages = renderer.map(TemplateRenderer::languages).unwrap_or_default();
    let tab = |part, text| {
        let url = template_url(&TemplateQuery { part, spam: SpamCheck::Off, ..wanted.clone() });
        PageTab { text, url, is_current: part == wanted.part }
    };
    let view = TemplatePageView {
        wanted,
        path: own,
        languages: choices(languages, &wanted.lang),
        zones: choices(zone_names(), &wanted.zone),
        fault: made.err(),
        shown: made.ok().map(|made| MessageParts::new(&made.mail)),
        notes: made.ok().map(|made| made.notes.as_slice()).unwrap_or_default(),
        tabs: vec![
            tab(MessageTab::Html, "HTML"),
            tab(MessageTab::Text, "Plain text"),
            tab(MessageTab::Source, "Source"),
        ],
        frame_url: format!("/message?{}", TemplateQuery { spam: SpamCheck::Off, ..wanted.clone() }.query()),
        own_url: template_url(wanted),
        sample_url: template_url(&TemplateQuery {
            data: String::new(),
            key: String::new(),
            spam: SpamCheck::Off,
            ..wanted.clone()
        }),
        spam_url: template_url(&TemplateQuery { spam: SpamCheck::On, ..wanted.clone() }),
        spam,
        found,
        json,
    };
    render_page(bench, files, "template.html", view)
}

pub(super) fn template_url(wanted: &TemplateQuery) -> String {
    format!("/template?{}", wanted.query())
}

fn choices(values: impl IntoIterator<Item = String>, chosen: &str) -> Vec<SelectOption> {
    let mut choices: Vec<_> =
        values.into_iter().map(|value| SelectOption { is_chosen: value == chosen, value }).collect();
    if !chosen.is_empty() && !choices.iter().any(|choice| choice.is_chosen) {
        choices.push(SelectOption { value: chosen.to_owned(), is_chosen: true });
    }
    choices
}

impl<'a> MessageParts<'a> {
    fn new(mail: &'a RenderedEmail) -> Self {
        let RenderedEmail { subject, text, html, .. } = mail;
        let bytes = html.len();
        let kilobytes = format!("{}.{}", bytes / 1000, bytes % 1000 / 100);
        Self { subject, text, html, bytes, kilobytes }
    }
}

fn render_page(bench: &WorkshopState, files: &FolderState, name: &str, view: impl Serialize) -> Response {
    let page = WorkshopPage { seen: files.as_str(), inbox: bench.inbox.as_deref(), view };
    let rendered = PAGES.as_ref().map_err(ToString::to_string).and_then(|pages| {
        let context = Context::from_serialize(&page).map_err(|error| error.to_string())?;
        pages.render(name, &context).map_err(|error| error.to_string())
    });
    match rendered {
        Ok(html) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)).into_response(),
        Err(error) => {
            tracing::error!(error, name, "cannot render a page of the workshop: please report that");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_on_offer_stays_chosen() {
        let offered = |chosen| {
            let choices = choices(["de".to_owned(), "en".to_owned()], chosen).into_iter();
            choices.map(|choice| (choice.value, choice.is_chosen)).collect::<Vec<_>>()
        };
        let [de, en] = ["de", "en"].map(str::to_owned);
        assert_eq!(offered(""), [(de.clone(), false), (en.clone(), false)]);
        assert_eq!(offered("de-AT"), [(de, false), (en, false), ("de-AT".to_owned(), true)]);
    }
}
