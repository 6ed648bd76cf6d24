//! The workshop's two pages: the list of templates, and a single template.

use std::{path::Path, sync::LazyLock};

use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse as _, Response},
};
use serde::Serialize;
use tera::{Context, Tera};
use tidings_mail::render::{Rendered, Renderer};
use tidings_model::zone_names;

use super::{
    fault::{Fault, Found},
    making::{Bench, Made},
    spam::Score,
    templates::Files,
    wanted::{Part, Spam, Wanted},
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
struct Page<'a, V> {
    seen: &'a str,
    inbox: Option<&'a str>,
    #[serde(flatten)]
    view: V,
}

#[derive(Serialize)]
struct List<'a> {
    folder: Option<String>,
    fault: Option<&'a Fault>,
    templates: Vec<Listed>,
    found: Option<&'a Found>,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    url: String,
    path: String,
    is_own: bool,
    languages: Vec<Language>,
}

#[derive(Serialize)]
struct Language {
    tag: String,
    url: String,
}

#[derive(Serialize)]
struct OfTemplate<'a> {
    wanted: &'a Wanted,
    path: Option<String>,
    languages: Vec<Choice>,
    zones: Vec<Choice>,
    fault: Option<&'a Fault>,
    shown: Option<Shown<'a>>,
    notes: &'a [String],
    tabs: Vec<Tab>,
    frame_url: String,
    own_url: String,
    sample_url: String,
    spam_url: String,
    spam: Option<Score>,
    found: Option<&'a Found>,
    json: &'a str,
}

#[derive(Serialize)]
struct Choice {
    value: String,
    is_chosen: bool,
}

#[derive(Serialize)]
struct Tab {
    text: &'static str,
    url: String,
    is_current: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    subject: &'a str,
    text: &'a str,
    html: &'a str,
    bytes: usize,
    kilobytes: String,
}

pub(super) fn list(
    bench: &Bench,
    files: &Files,
    renderer: Result<&Renderer, &Fault>,
    found: Option<&Found>,
) -> Response {
    let listed = |renderer: &Renderer| {
        let languages = renderer.languages();
        let listed = |(name, path)| Listed::new(name, path, bench.folder(), &languages);
        renderer.origins().into_iter().map(listed).collect()
    };
    let view = List {
        folder: bench.folder().map(|folder| folder.display().to_string()),
        fault: renderer.err(),
        templates: renderer.map(listed).unwrap_or_default(),
        found,
    };
    page(bench, files, "list.html", view)
}

impl Listed {
    fn new(name: String, path: std::path::PathBuf, folder: Option<&Path>, languages: &[String]) -> Self {
        let wanted = Wanted { name: name.clone(), ..Wanted::default() };
        let in_language = |tag: &String| {
            let url = address(&Wanted { lang: tag.clone(), ..wanted.clone() });
            Language { tag: tag.clone(), url }
        };
        Self {
            url: address(&wanted),
            is_own: folder.is_some_and(|folder| path.starts_with(folder)),
            path: path.display().to_string(),
            languages: languages.iter().map(in_language).collect(),
            name,
        }
    }
}

pub(super) struct Parts<'a> {
    pub renderer: Option<&'a Renderer>,
    pub made: Result<&'a Made, &'a Fault>,
    pub found: Option<&'a Found>,
    pub spam: Option<Score>,
    pub json: &'a str,
}

pub(super) fn template(bench: &Bench, files: &Files, wanted: &Wanted, parts: Parts<'_>) -> Response {
    let Parts { renderer, made, found, spam, json } = parts;
    let own = renderer.and_then(|renderer| {
        let path = renderer.origins().into_iter().find(|(name, _)| *name == wanted.name)?.1;
        bench.folder().is_some_and(|folder| path.starts_with(folder)).then(|| path.display().to_string())
    });
    let languages = renderer.map(Renderer::languages).unwrap_or_default();
    let tab = |part, text| {
        let url = address(&Wanted { part, spam: Spam::Off, ..wanted.clone() });
        Tab { text, url, is_current: part == wanted.part }
    };
    let view = OfTemplate {
        wanted,
        path: own,
        languages: choices(languages, &wanted.lang),
        zones: choices(zone_names(), &wanted.zone),
        fault: made.err(),
        shown: made.ok().map(|made| Shown::new(&made.mail)),
        notes: made.ok().map(|made| made.notes.as_slice()).unwrap_or_default(),
        tabs: vec![tab(Part::Html, "HTML"), tab(Part::Text, "Plain text"), tab(Part::Source, "Source")],
        frame_url: format!("/message?{}", Wanted { spam: Spam::Off, ..wanted.clone() }.query()),
        own_url: address(wanted),
        sample_url: address(&Wanted { data: String::new(), key: String::new(), spam: Spam::Off, ..wanted.clone() }),
        spam_url: address(&Wanted { spam: Spam::On, ..wanted.clone() }),
        spam,
        found,
        json,
    };
    page(bench, files, "template.html", view)
}

pub(super) fn address(wanted: &Wanted) -> String {
    format!("/template?{}", wanted.query())
}

fn choices(values: impl IntoIterator<Item = String>, chosen: &str) -> Vec<Choice> {
    let mut choices: Vec<_> = values.into_iter().map(|value| Choice { is_chosen: value == chosen, value }).collect();
    if !chosen.is_empty() && !choices.iter().any(|choice| choice.is_chosen) {
        choices.push(Choice { value: chosen.to_owned(), is_chosen: true });
    }
    choices
}

impl<'a> Shown<'a> {
    fn new(mail: &'a Rendered) -> Self {
        let Rendered { subject, text, html, .. } = mail;
        let bytes = html.len();
        let kilobytes = format!("{}.{}", bytes / 1000, bytes % 1000 / 100);
        Self { subject, text, html, bytes, kilobytes }
    }
}

fn page(bench: &Bench, files: &Files, name: &str, view: impl Serialize) -> Response {
    let page = Page { seen: files.as_str(), inbox: bench.inbox.as_deref(), view };
    let rendered = PAGES.as_ref().map_err(ToString::to_string).and_then(|pages| {
        let context = Context::from_serialize(&page).map_err(|error| error.to_string())?;
        pages.render(name, &context).map_err(|error| error.to_string())
    });
    match rendered {
        Ok(html) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)).into_response(),
        Err(error) => {
            tracing::error!(error, name, "a page of the workshop cannot be made: please report that");
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
