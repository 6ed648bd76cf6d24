//! The pages of recipients. They work without script, in light and dark, at any width, and in either direction.

use std::{fmt, sync::LazyLock, time::Duration};

use axum::{
    extract::{RawQuery, Request, State as Extracted},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{Html, IntoResponse as _, Response},
};
use serde::Serialize;
use tera::{Context, Tera};
use tidings_mail::words::Phrases;
use tidings_model::{
    foreign_text::first_grapheme,
    settings::{Colour, InForce, StreamName},
};
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

use crate::{State, problem::Problem};

/// The policy of a page: its own stylesheet and its own form. The origin of a logo comes on top.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Browsers may keep the stylesheet for an hour.
const STYLE_AGE: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// Time limit of a page about choices. The request has a few seconds more.
const CHOICES: Duration = Duration::from_secs(11);
/// Seconds after which a page that cannot be made may be asked for again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("60");

static TEMPLATES: LazyLock<Result<Tera, tera::Error>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    tera.add_raw_templates([
        ("frame.html", include_str!("pages/frame.html")),
        ("unsubscribe.html", include_str!("pages/unsubscribe.html")),
        ("as_before.html", include_str!("pages/as_before.html")),
        ("text.html", include_str!("pages/text.html")),
        ("preferences.html", include_str!("pages/preferences.html")),
    ])?;
    Ok(tera)
});

/// The parts that all pages of a tenant's recipients have.
#[derive(Debug, Serialize)]
pub(crate) struct Frame {
    /// The tag of the language.
    lang: String,
    /// `ltr` or `rtl`.
    dir: &'static str,
    /// The name of the sender; may be empty.
    pub sender: String,
    logo_url: Option<String>,
    /// Six digits.
    colour: Option<String>,
}

/// A heading and a text.
#[derive(Serialize)]
struct Text {
    title: String,
    text: String,
}

#[derive(Serialize)]
struct Page<'a, V> {
    #[serde(flatten)]
    frame: &'a Frame,
    #[serde(flatten)]
    view: &'a V,
}

impl Frame {
    /// The frame of a tenant's pages in this language.
    pub fn new(state: &State, tenant: &str, phrases: Phrases<'_>) -> Self {
        let InForce { brand, stream } = state.settings.for_tenant(tenant, StreamName::Bulk);
        Self {
            lang: phrases.tag().to_owned(),
            dir: phrases.direction(),
            sender: brand.name.clone().unwrap_or_else(|| stream.sender.name.clone()),
            logo_url: brand.logo_url.clone(),
            colour: brand.colour.map(|colour| colour.to_string().replace('#', "")),
        }
    }

    /// The policy of a page with this frame: pictures come from the origin of the logo and from no other.
    fn policy(&self) -> HeaderValue {
        let origin =
            self.logo_url.as_deref().and_then(|url| Some(Url::parse(url).ok()?.origin().ascii_serialization()));
        let policy = origin.map(|origin| format!("{POLICY}; img-src {origin}"));
        policy.and_then(|policy| HeaderValue::from_str(&policy).ok()).unwrap_or(HeaderValue::from_static(POLICY))
    }
}

/// Makes a page of a template.
pub(crate) fn page(status: StatusCode, template: &str, frame: &Frame, view: &impl Serialize) -> Response {
    let rendered = TEMPLATES.as_ref().map_err(ToString::to_string).and_then(|templates| {
        let context = Context::from_serialize(&Page { frame, view }).map_err(|error| error.to_string())?;
        templates.render(template, &context).map_err(|error| error.to_string())
    });
    match rendered {
        Ok(html) => (status, [(header::CONTENT_SECURITY_POLICY, frame.policy())], Html(html)).into_response(),
        Err(error) => {
            tracing::error!(error, template, "a page cannot be made: please report that");
            Problem::Failed.into_response()
        }
    }
}

/// Makes a page of a heading and a text.
pub(crate) fn text(status: StatusCode, frame: &Frame, title: String, text: String) -> Response {
    page(status, "text.html", frame, &Text { title, text })
}

/// Waits for a page about a recipient's choices, or makes the one that asks to come again.
pub(crate) async fn choices_within_time<E: fmt::Display>(
    state: &State,
    tenant: &str,
    message: Uuid,
    page: impl Future<Output = Result<Response, E>>,
) -> Response {
    match timeout(CHOICES, page).await {
        Ok(Ok(response)) => return response,
        Ok(Err(error)) => tracing::error!(%message, %error, "a recipient cannot choose now"),
        Err(_) => tracing::error!(%message, "a recipient cannot choose now: no answer in time"),
    }
    unavailable(state, tenant)
}

/// The page while the database does not answer.
pub(crate) fn unavailable(state: &State, tenant: &str) -> Response {
    let phrases = state.phrases(tenant, "");
    let frame = Frame::new(state, tenant, phrases);
    let (title, said) = (phrases.say("unavailable"), phrases.say("unavailable_text"));
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, &frame, title, said);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_SECONDS);
    response
}

/// Answers a person who followed a dead link with a page, and a program with nothing. The page is the same for every link that is not ours: it
/// says neither whose it might be nor why it is wrong.
pub(crate) async fn explain_not_found(Extracted(state): Extracted<State>, request: Request, next: Next) -> Response {
    let is_person = takes_html(request.headers());
    let response = next.run(request).await;
    let is_bare = response.status() == StatusCode::NOT_FOUND && !response.headers().contains_key(header::CONTENT_TYPE);
    if !(is_person && is_bare) {
        return response;
    }
    let phrases = state.phrases("", "");
    let frame = Frame { sender: String::new(), logo_url: None, colour: None, ..Frame::new(&state, "", phrases) };
    text(StatusCode::NOT_FOUND, &frame, phrases.say("not_found"), phrases.say("not_found_text"))
}

fn takes_html(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|kinds| kinds.to_ascii_lowercase().contains("text/html"))
}

/// The stylesheet of all pages, with the colour of a tenant's buttons if the query names one.
pub(crate) async fn style(RawQuery(query): RawQuery) -> Response {
    let colour = query.and_then(|colour| format!("#{colour}").parse::<Colour>().ok());
    let of_tenant = colour.map(|colour| format!(":root {{ --button: {colour}; --on-button: #ffffff; }}\n"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8")),
        (header::CACHE_CONTROL, STYLE_AGE),
    ];
    (headers, format!("{}{}", include_str!("pages/page.css"), of_tenant.unwrap_or_default())).into_response()
}

/// Shows an address in part: whoever a message was forwarded to learns no address.
pub(crate) fn masked(address: &str) -> String {
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    format!("{}…@{domain}", first_grapheme(local))
}
