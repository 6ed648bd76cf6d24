//! `/u/{token}`: one-click unsubscribe by POST (RFC 8058). GET shows a form and changes nothing, because
//! email scanners fetch every link.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Bytes,
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use futures::stream;
use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::words::Phrases;
use tidings_model::{UnsubscribeLink, foreign_text::clean_edges};
use tidings_services::unsubscribe::{of_today, unsubscribe};
use tokio::time::timeout;

use crate::{
    GatewayState,
    page::{self, PageFrame},
    problem::Problem,
    request_body::{self, BodyLimit},
};

/// Body limit in bytes. Gmail sends 26.
const BODY: BodyLimit = BodyLimit::with_bytes(4 * 1024);
/// Time limit for looking up the masked address.
const LOOK_UP: Duration = Duration::from_secs(1);

pub(crate) fn route(state: GatewayState) -> MethodRouter {
    get(show).post(post_unsubscribe).layer(from_fn_with_state(BODY, request_body::buffer_body)).with_state(state)
}

async fn show(Extracted(state): Extracted<GatewayState>, token: Result<Path<String>, PathRejection>) -> Response {
    let Some(link) = read_link(&state, token) else { return StatusCode::NOT_FOUND.into_response() };
    let today = match timeout(LOOK_UP, of_today(&*state.store, link.clone())).await {
        Ok(Ok(today)) => today,
        // The form works without the database, because POST will look up the link again.
        Ok(Err(_)) | Err(_) => Some(link),
    };
    match today {
        Some(link) => load_page(&state, &link).await.question(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// This is idempotent.
async fn post_unsubscribe(
    Extracted(state): Extracted<GatewayState>,
    token: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(link) = read_link(&state, token) else { return StatusCode::NOT_FOUND.into_response() };
    if !is_one_click(&headers, body).await {
        return Problem::NotOneClick.into_response();
    }
    let message = link.message();
    let done = async {
        let link = of_today(&*state.store, link).await?;
        if let Some(link) = &link {
            unsubscribe(&*state.store, link, Timestamp::now()).await?;
        }
        Ok::<_, tidings_store::StoreError>(link)
    };
    let link = match done.await {
        Ok(Some(link)) => link,
        Ok(None) => return StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::error!(%message, %error, "cannot unsubscribe recipient");
            return Problem::Unavailable.into_response();
        }
    };
    tracing::info!(%message, "recipient unsubscribed");
    if let UnsubscribeLink::Unsubscribe { key, .. } = &link {
        if let Err(unknown) = state.settings.check_digest(key) {
            tracing::warn!(
                %key,
                %unknown,
                "recipient unsubscribed from an unknown digest type: if it was renamed, add the old name to `was`"
            );
        }
        state.wake_windows([key]).await;
    }
    load_page(&state, &link).await.done()
}

/// Replaces former names of tenant and digest type.
fn read_link(state: &GatewayState, token: Result<Path<String>, PathRejection>) -> Option<UnsubscribeLink> {
    let names = &state.settings.names;
    Some(match state.verify_link(token, UnsubscribeLink::from_token)? {
        UnsubscribeLink::Unsubscribe { key, message, generation } => {
            UnsubscribeLink::Unsubscribe { key: names.key_today(&key), message, generation }
        }
        UnsubscribeLink::Suppress { tenant, address, message } => {
            UnsubscribeLink::Suppress { tenant: names.tenant(&tenant).to_owned(), address, message }
        }
    })
}

struct UnsubscribePage<'a> {
    frame: PageFrame,
    phrases: Phrases<'a>,
    /// `None` for single bulk messages.
    digest: Option<String>,
    /// The digest type or tenant is no longer configured, so emails may continue under another name.
    is_former: bool,
    address: String,
}

#[derive(Serialize)]
struct UnsubscribeForm {
    title: String,
    heading: String,
    text: String,
}

impl UnsubscribePage<'_> {
    fn question(&self) -> Response {
        let title = self.phrases.message_text("unsubscribe");
        let heading = self.phrases.message_text("unsubscribe_question");
        let text = self.text("unsubscribe_digest", "unsubscribe_bulk");
        page::render_page(StatusCode::OK, "unsubscribe.html", &self.frame, &UnsubscribeForm { title, heading, text })
    }

    fn done(&self) -> Response {
        let mut text = self.text("unsubscribed_digest", "unsubscribed_bulk");
        if self.is_former {
            text = format!("{text} {}", self.phrases.message_text("former_name"));
        }
        page::text_page(StatusCode::OK, &self.frame, self.phrases.message_text("unsubscribed"), text)
    }

    fn text(&self, of_digest: &str, of_bulk: &str) -> String {
        let address = ("address", self.address.as_str().into());
        match &self.digest {
            Some(digest) => self.phrases.message_with(of_digest, [address, ("digest", digest.as_str().into())]),
            None => self.phrases.message_with(of_bulk, [address]),
        }
    }
}

/// This works without the database.
async fn load_page<'a>(state: &'a GatewayState, link: &UnsubscribeLink) -> UnsubscribePage<'a> {
    let unknown = || "unknown".to_owned();
    let (digest, address, locale) = match link {
        UnsubscribeLink::Unsubscribe { key, .. } => {
            let facts = timeout(LOOK_UP, state.store.facts(key)).await;
            let recipient = facts.ok().and_then(Result::ok).and_then(|facts| facts.recipient);
            let address = recipient.as_ref().map_or_else(unknown, |recipient| page::mask_address(&recipient.address));
            (Some(key), address, recipient.map(|recipient| recipient.locale).unwrap_or_default())
        }
        UnsubscribeLink::Suppress { address, .. } => (None, page::mask_address(address), String::new()),
    };
    let phrases = state.phrases(link.tenant(), &locale);
    let is_former = digest.is_some_and(|key| state.settings.check_digest(key).is_err())
        || timeout(LOOK_UP, is_gone(state, link.tenant())).await.unwrap_or_default();
    let digest = digest.map(|key| {
        let title = state.settings.digest(key).and_then(|digest| digest.title.as_deref());
        phrases.digest_name(&key.digest_type, title)
    });
    UnsubscribePage { frame: PageFrame::new(state, link.tenant(), phrases), phrases, digest, is_former, address }
}

/// Guesses that a tenant was renamed or removed: it has neither a table nor a valid token, although other
/// tenants have tables. The page is correct either way, because we send nothing under this name.
async fn is_gone(state: &GatewayState, tenant: &str) -> bool {
    if state.settings.tenants.is_empty() || state.settings.with_table(tenant).is_some() {
        return false;
    }
    let tokens = state.store.tokens(Some(tenant)).await;
    tokens.is_ok_and(|tokens| tokens.iter().all(|token| token.revoked_at.is_some()))
}

#[cfg(test)]
mod tests;

const FIELD: &str = "List-Unsubscribe";
const VALUE: &str = "One-Click";
/// Most fields parsed; a valid request has one.
const FIELDS: usize = 10;

/// `List-Unsubscribe=One-Click` (RFC 8058), in either form encoding. Some clients change the case or append a
/// newline.
pub(crate) async fn is_one_click(headers: &HeaderMap, body: Bytes) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match multer::parse_boundary(kind) {
        Ok(boundary) => is_multipart(body, boundary).await,
        // Without a boundary, assume the URL encoding.
        Err(_) => url::form_urlencoded::parse(&body)
            .take(FIELDS)
            .any(|(name, value)| equals_word(&name, FIELD) && equals_word(&value, VALUE)),
    }
}

async fn is_multipart(body: Bytes, boundary: String) -> bool {
    let body = stream::iter([Ok::<_, Infallible>(body)]);
    let mut parts = multer::Multipart::new(body, boundary);
    for _ in 0..FIELDS {
        let Ok(Some(part)) = parts.next_field().await else { return false };
        let named = part.name().is_some_and(|name| equals_word(name, FIELD));
        match part.text().await {
            Ok(value) if named && equals_word(&value, VALUE) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

fn equals_word(text: &str, word: &str) -> bool {
    clean_edges(text).eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod one_click_tests {
    use axum::http::HeaderValue;

    use super::*;

    async fn one_click(kind: &str, body: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
        }
        is_one_click(&headers, Bytes::from(body.to_owned())).await
    }

    #[tokio::test]
    async fn both_encodings_are_read() {
        let form = "application/x-www-form-urlencoded";
        for (kind, body) in [
            (form, "List-Unsubscribe=One-Click"),
            (form, "a=b&List-Unsubscribe=One%2DClick"),
            ("application/x-www-form-urlencoded; charset=UTF-8", "List-Unsubscribe=One-Click"),
            ("", "List-Unsubscribe=One-Click"),
            (form, "List-Unsubscribe=One-Click\r\n"),
            (form, "\u{feff}List-Unsubscribe=One-Click&x=1"),
            (form, "list-unsubscribe=one-click"),
            ("Application/X-WWW-Form-URLEncoded", "List-Unsubscribe=One-Click"),
            ("text/plain; charset=utf-8", "List-Unsubscribe=One-Click\n"),
            (
                "Multipart/Form-Data; charset=utf-8; Boundary=b",
                "--b\r\ncontent-disposition: form-data; name=List-Unsubscribe\r\n\r\nOne-Click\r\n--b--",
            ),
            (
                "multipart/form-data; boundary=---FormBoundary8zL7",
                "-----FormBoundary8zL7\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n\
                 -----FormBoundary8zL7--\r\n",
            ),
            (
                "multipart/form-data; boundary=\"b\"",
                "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n\
                 --b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\nContent-Type: text/plain\r\n\r\n\
                 One-Click\r\n--b--\r\n",
            ),
        ] {
            assert!(one_click(kind, body).await, "{kind}: {body}");
        }
    }

    #[tokio::test]
    async fn any_other_body_is_refused() {
        let form = "application/x-www-form-urlencoded";
        for (kind, body) in [
            (form, ""),
            (form, "List-Unsubscribe=Yes"),
            (form, "One-Click=List-Unsubscribe"),
            ("application/json", "{\"List-Unsubscribe\":\"One-Click\"}"),
            ("multipart/form-data; boundary=b", "List-Unsubscribe=One-Click"),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nOne-Click\r\n--b--",
            ),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne",
            ),
        ] {
            assert!(!one_click(kind, body).await, "{kind}: {body}");
        }
    }
}
