//! `/u/{token}`: unsubscribes by POST with one click (RFC 8058). GET shows a page with a form that POSTs, and changes nothing:
//! programs that scan messages fetch every link.

use std::time::Duration;

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State as Extracted, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
    routing::get,
};
use jiff::Timestamp;
use tidings_activities::{choices, unsubscribe::unsubscribe};
use tidings_model::{Key, Link};
use tokio::time::timeout;

use crate::{
    State, one_click,
    page::{self, About},
    problem::Problem,
    request_body::{self, BodyLimit},
};

/// Bytes of a body. Gmail's has 26.
const BODY: BodyLimit = BodyLimit::of(4 * 1024);
/// Time limit for the address that a page shows in part.
const LOOK_UP: Duration = Duration::from_secs(1);
/// Time limit for telling the open window.
const TELL: Duration = Duration::from_secs(2);

/// The route with its limits.
pub(crate) fn routes(state: State) -> Router {
    Router::new()
        .route("/u/{token}", get(show).post(click))
        .layer(from_fn_with_state(BODY, request_body::read))
        .with_state(state)
}

/// Shows the form.
async fn show(Extracted(state): Extracted<State>, token: Result<Path<String>, PathRejection>) -> Response {
    match link(&state, token) {
        Some(link) => page::unsubscribe(&about(&state, &link).await),
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
    let Some(link) = link(&state, token) else { return StatusCode::NOT_FOUND.into_response() };
    if !one_click::is_one_click(&headers, body).await {
        return Problem::NotOneClick.into_response();
    }
    if let Err(error) = unsubscribe(&*state.store, &link, Timestamp::now()).await {
        tracing::error!(message = %link.message(), %error, "a recipient cannot unsubscribe now");
        return Problem::Unavailable.into_response();
    }
    tracing::info!(message = %link.message(), "a recipient unsubscribed");
    if let Link::Unsubscribe { key, .. } = &link {
        tell(&state, key).await;
    }
    page::unsubscribed(&about(&state, &link).await)
}

/// Reads the token. Nothing tells why a token is wrong.
fn link(state: &State, token: Result<Path<String>, PathRejection>) -> Option<Link> {
    Link::read(state.settings.link_keys.as_ref()?, &token.ok()?.0)
}

/// Tells the key's open window. The window looks at consent again when it is due, so that a failure delays only what the status
/// shows.
async fn tell(state: &State, key: &Key) {
    let told = async {
        match state.temporal() {
            Some(client) => choices::tell(&client, key).await.map_err(|error| error.to_string()),
            None => Err("Temporal has not answered yet".to_owned()),
        }
    };
    if let Err(why) = timeout(TELL, told).await.unwrap_or_else(|_| Err("Temporal does not answer".to_owned())) {
        tracing::warn!(%key, why, "the open window learns of the withdrawn consent at its deadline");
    }
}

/// Returns what a page says about the link. The page works without the database.
async fn about(state: &State, link: &Link) -> About {
    let sender = state.settings.streams.bulk.sender.name.clone();
    match link {
        Link::Unsubscribe { key, .. } => {
            let facts = timeout(LOOK_UP, state.store.facts(key)).await;
            let recipient = facts.ok().and_then(Result::ok).and_then(|facts| facts.recipient);
            let address = recipient.map(|recipient| page::masked(&recipient.address));
            About { sender, digest_type: Some(key.digest_type.clone()), address }
        }
        Link::Suppress { address, .. } => About { sender, digest_type: None, address: Some(page::masked(address)) },
    }
}

#[cfg(test)]
mod tests;
