//! HTML pages for recipients (rule 46). They should work without JavaScript, in light and dark mode, at any width, and
//! in both text directions.

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
    settings::{BrandColour, StreamName, TenantStream},
};
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

use crate::{GatewayState, problem::Problem};

/// Own stylesheet and own form only. We add the logo's origin to this.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Browsers may cache the stylesheet for an hour.
const STYLE_AGE: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// The request's own limit is a few seconds longer than this.
const CHOICES: Duration = Duration::from_secs(11);
/// `Retry-After` of a page that could not be rendered.
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

#[derive(Debug, Serialize)]
pub(crate) struct PageFrame {
    lang: String,
    /// `ltr` or `rtl`.
    dir: &'static str,
    pub sender: String,
    logo_url: Option<String>,
    /// Six hex digits.
    colour: Option<String>,
}

#[derive(Serialize)]
struct PageText {
    title: String,
    text: String,
}

#[derive(Serialize)]
struct FramedPage<'a, V> {
    #[serde(flatten)]
    frame: &'a PageFrame,
    #[serde(flatten)]
    view: &'a V,
}

impl PageFrame {
    pub fn new(state: &GatewayState, tenant: &str, phrases: Phrases<'_>) -> Self {
        let TenantStream { brand, stream } = state.settings.for_tenant(tenant, StreamName::Bulk);
        Self {
            lang: phrases.tag().to_owned(),
            dir: phrases.direction(),
            sender: brand.name.clone().unwrap_or_else(|| stream.sender.name.clone()),
            logo_url: brand.logo_url.clone(),
            colour: brand.colour.map(|colour| colour.to_string().replace('#', "")),
        }
    }

    /// Allows images only from the logo's origin.
    fn policy(&self) -> HeaderValue {
        let origin =
            self.logo_url.as_deref().and_then(|url| Some(Url::parse(url).ok()?.origin().ascii_serialization()));
        let policy = origin.map(|origin| format!("{POLICY}; img-src {origin}"));
        policy.and_then(|policy| HeaderValue::from_str(&policy).ok()).unwrap_or(HeaderValue::from_static(POLICY))
    }
}

pub(crate) fn render_page(status: StatusCode, template: &str, frame: &PageFrame, view: &impl Serialize) -> Response {
    let rendered = TEMPLATES.as_ref().map_err(ToString::to_string).and_then(|templates| {
        let context = Context::from_serialize(&FramedPage { frame, view }).map_err(|error| error.to_string())?;
        templates.render(template, &context).map_err(|error| error.to_string())
    });
    match rendered {
        Ok(html) => (status, [(header::CONTENT_SECURITY_POLICY, frame.policy())], Html(html)).into_response(),
        Err(error) => {
            tracing::error!(error, template, "cannot render page; please report this");
            Problem::Failed.into_response()
        }
    }
}

pub(crate) fn text_page(status: StatusCode, frame: &PageFrame, title: String, text: String) -> Response {
    render_page(status, "text.html", frame, &PageText { title, text })
}

/// On timeout, the page asks to come back later.
pub(crate) async fn choices_within_time<E: fmt::Display>(
    state: &GatewayState,
    tenant: &str,
    message: Uuid,
    page: impl Future<Output = Result<Response, E>>,
) -> Response {
    match timeout(CHOICES, page).await {
        Ok(Ok(response)) => return response,
        Ok(Err(error)) => tracing::error!(%message, %error, "cannot store preferences"),
        Err(_) => tracing::error!(%message, "cannot store preferences: timed out"),
    }
    unavailable_page(state, tenant)
}

pub(crate) fn unavailable_page(state: &GatewayState, tenant: &str) -> Response {
    let phrases = state.phrases(tenant, "");
    let frame = PageFrame::new(state, tenant, phrases);
    let (title, said) = (phrases.message_text("unavailable"), phrases.message_text("unavailable_text"));
    let mut response = text_page(StatusCode::SERVICE_UNAVAILABLE, &frame, title, said);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_SECONDS);
    response
}

/// Shows people a page for a dead link; programs get an empty 404. This page is the same for every invalid
/// link, so it does not reveal whose it was or why it fails.
pub(crate) async fn explain_not_found(
    Extracted(state): Extracted<GatewayState>,
    request: Request,
    next: Next,
) -> Response {
    let is_person = takes_html(request.headers());
    let response = next.run(request).await;
    let is_bare = response.status() == StatusCode::NOT_FOUND && !response.headers().contains_key(header::CONTENT_TYPE);
    if !(is_person && is_bare) {
        return response;
    }
    let phrases = state.phrases("", "");
    let frame =
        PageFrame { sender: String::new(), logo_url: None, colour: None, ..PageFrame::new(&state, "", phrases) };
    text_page(StatusCode::NOT_FOUND, &frame, phrases.message_text("not_found"), phrases.message_text("not_found_text"))
}

fn takes_html(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|kinds| kinds.to_ascii_lowercase().contains("text/html"))
}

/// Stylesheet of all pages, with the tenant's button colour if the query has one.
pub(crate) async fn style(RawQuery(query): RawQuery) -> Response {
    let colour = query.and_then(|colour| format!("#{colour}").parse::<BrandColour>().ok());
    let of_tenant = colour.map(|colour| format!(":root {{ --button: {colour}; --on-button: #ffffff; }}\n"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8")),
        (header::CACHE_CONTROL, STYLE_AGE),
    ];
    (headers, format!("{}{}", include_str!("pages/page.css"), of_tenant.unwrap_or_default())).into_response()
}

/// Masks an email address, because the message may have been forwarded.
pub(crate) fn mask_address(address: &str) -> String {
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    format!("{}…@{domain}", first_grapheme(local))
}
