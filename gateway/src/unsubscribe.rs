//! `/u/{token}`: unsubscribes by POST with one click (RFC 8058). GET shows a page with a form that POSTs, and changes nothing:
//! programs that scan messages fetch every link.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use jiff::Timestamp;
use serde::Serialize;
use tidings_activities::unsubscribe::unsubscribe;
use tidings_mail::words::Phrases;
use tidings_model::Link;
use tokio::time::timeout;

use crate::{
    State, one_click,
    page::{self, Frame},
    problem::Problem,
    request_body::{self, BodyLimit},
    tell,
};

/// Bytes of a body. Gmail's has 26.
const BODY: BodyLimit = BodyLimit::of(4 * 1024);
/// Time limit for the address that a page shows in part.
const LOOK_UP: Duration = Duration::from_secs(1);

/// The route with its limits.
pub(crate) fn route(state: State) -> MethodRouter {
    get(show).post(click).layer(from_fn_with_state(BODY, request_body::read)).with_state(state)
}

/// Shows the form.
async fn show(Extracted(state): Extracted<State>, token: Result<Path<String>, PathRejection>) -> Response {
    match state.link(token, Link::read) {
        Some(link) => about(&state, &link).await.question(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Unsubscribes. The answer is the same the second time.
async fn click(
    Extracted(state): Extracted<State>,
    token: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(link) = state.link(token, Link::read) else { return StatusCode::NOT_FOUND.into_response() };
    if !one_click::is_one_click(&headers, body).await {
        return Problem::NotOneClick.into_response();
    }
    if let Err(error) = unsubscribe(&*state.store, &link, Timestamp::now()).await {
        tracing::error!(message = %link.message(), %error, "a recipient cannot unsubscribe now");
        return Problem::Unavailable.into_response();
    }
    tracing::info!(message = %link.message(), "a recipient unsubscribed");
    if let Link::Unsubscribe { key, .. } = &link {
        tell::open_windows(&state, std::slice::from_ref(key)).await;
    }
    about(&state, &link).await.done()
}

/// The subject of a page.
struct About<'a> {
    frame: Frame,
    phrases: Phrases<'a>,
    /// The name of the digest type; `None`: single bulk messages.
    digest: Option<String>,
    /// The recipient's address in part, or `unknown`.
    address: String,
}

/// The page with the form.
#[derive(Serialize)]
struct Question {
    title: String,
    heading: String,
    text: String,
}

impl About<'_> {
    fn question(&self) -> Response {
        let title = self.phrases.say("unsubscribe");
        let heading = self.phrases.say("unsubscribe_question");
        let text = self.text("unsubscribe_digest", "unsubscribe_bulk");
        page::page(StatusCode::OK, "unsubscribe.html", &self.frame, &Question { title, heading, text })
    }

    fn done(&self) -> Response {
        let text = self.text("unsubscribed_digest", "unsubscribed_bulk");
        page::text(StatusCode::OK, &self.frame, self.phrases.say("unsubscribed"), text)
    }

    fn text(&self, of_digest: &str, of_bulk: &str) -> String {
        let address = ("address", self.address.as_str().into());
        match &self.digest {
            Some(digest) => self.phrases.with(of_digest, [address, ("digest", digest.as_str().into())]),
            None => self.phrases.with(of_bulk, [address]),
        }
    }
}

/// Returns what a page says about the link. The page works without the database.
async fn about<'a>(state: &'a State, link: &Link) -> About<'a> {
    let unknown = || "unknown".to_owned();
    let (digest, address, locale) = match link {
        Link::Unsubscribe { key, .. } => {
            let facts = timeout(LOOK_UP, state.store.facts(key)).await;
            let recipient = facts.ok().and_then(Result::ok).and_then(|facts| facts.recipient);
            let address = recipient.as_ref().map_or_else(unknown, |recipient| page::masked(&recipient.address));
            (Some(key), address, recipient.map(|recipient| recipient.locale).unwrap_or_default())
        }
        Link::Suppress { address, .. } => (None, page::masked(address), String::new()),
    };
    let phrases = state.phrases(link.tenant(), &locale);
    let digest = digest.map(|key| {
        let title = state.settings.digest(key).and_then(|digest| digest.title.as_deref());
        phrases.digest_name(&key.digest_type, title)
    });
    About { frame: Frame::new(state, link.tenant(), phrases), phrases, digest, address }
}

#[cfg(test)]
mod tests;
