//! Every route of the public listener, and what all of them have in common.

use std::{any::Any, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State as Extracted,
    http::{HeaderName, HeaderValue, StatusCode, Uri, header},
    middleware::{from_fn, from_fn_with_state, map_response},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use serde_json::json;
use tower_http::{catch_panic::CatchPanicLayer, timeout::TimeoutLayer};

use crate::{
    State, as_before,
    concurrency::{self, Admission, Concurrency},
    health::Health,
    metrics, page, preferences,
    problem::{self, Problem},
    tracking, unsubscribe, view,
    webhooks::{self, Webhooks},
};

/// Time limit of a request, from its headers to its answer. SNS waits 15 s.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(14);
/// Requests in progress: over all clients, and of one client.
const REQUESTS: [usize; 2] = [256, 64];

/// The routes, with their limits. One client has a quarter of the memory for bodies.
pub fn router(state: State, webhooks: Webhooks, Admission { trusted, body_bytes }: Admission) -> Router {
    let concurrency = Concurrency::new(REQUESTS, [body_bytes, body_bytes / 4], trusted);
    let webhooks = Arc::new(webhooks);
    let with = |routes: Router, route: Route| {
        let (path, handler) = (route.path(), handler(route, &state, &webhooks));
        match path.strip_suffix("{token}") {
            // A program may take a slash behind a link for a part of it. The pages there look for their stylesheet one level below.
            Some(folder) => routes
                .route(&format!("{path}/"), handler.clone())
                .route(&format!("{folder}page.css"), get(page::style))
                .route(path, handler),
            None => routes.route(path, handler),
        }
    };
    let routes = Route::ALL.into_iter().fold(Router::new(), with).fallback(no_route);
    let routes = limited(routes, concurrency, REQUEST_TIME);
    let routes = routes.layer(from_fn_with_state(state.clone(), page::explain_not_found));
    shared(routes.merge(health(state)))
}

/// Answers a request to no route. Addresses of the api, whose text is in no email, get words: whoever asks has the wrong port. All of
/// them get the same, whether this gateway has an api or not.
async fn no_route(uri: Uri) -> Response {
    let path = uri.path();
    if path != "/openapi.json" && path != "/v1" && !path.starts_with("/v1/") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let problem =
        "is of the api, and this is the public listener; the api has an address of its own, gateway.api_listen";
    Problem::NotFound.with_errors(&[json!({"field": "path", "problem": problem})])
}

fn handler(route: Route, state: &State, webhooks: &Arc<Webhooks>) -> MethodRouter {
    match route {
        Route::Webhook => webhooks::route(Arc::clone(webhooks)),
        Route::Unsubscribe => unsubscribe::route(state.clone()),
        Route::Preferences => preferences::route(state.clone()),
        Route::AsBefore => as_before::route(state.clone()),
        Route::View => view::route(state.clone()),
        Route::Open => tracking::picture(state.clone()),
        Route::Click => tracking::link(state.clone()),
        Route::Style => get(page::style),
        Route::Problem => get(problem::page),
    }
}

/// The layers of all routes.
pub(crate) fn shared(routes: Router) -> Router {
    routes.layer(CatchPanicLayer::custom(panicked)).layer(map_response(harden)).layer(from_fn(metrics::observe))
}

/// Health checks have no limit in common with other requests, so that a busy gateway is not restarted.
pub(crate) fn health(state: State) -> Router {
    Router::new()
        .route("/livez", get(async || StatusCode::OK))
        .route("/readyz", get(async |Extracted(health): Extracted<Health>| health.ready().await))
        .with_state(Health::new(state))
}

/// Bounds the number and the time of the requests of these routes, and of those to none.
pub(crate) fn limited(routes: Router, concurrency: Concurrency, time: Duration) -> Router {
    routes
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, time))
        .layer(from_fn_with_state(concurrency, concurrency::bound))
}

/// Headers that every answer has.
async fn harden(response: Response) -> Response {
    // The answer of a time limit has no body.
    let mut response = match response.status() {
        StatusCode::SERVICE_UNAVAILABLE if !response.headers().contains_key(header::CONTENT_TYPE) => {
            Problem::Failed.into_response()
        }
        _ => response,
    };
    let fixed: [(HeaderName, &str); 5] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Answers a request whose handler panicked. The panic's text may quote the request.
fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a request ended in a panic: please report that");
    Problem::Failed.into_response()
}

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod walk;

/// A route. The router is made from [`Route::ALL`], and a test walks all of them with the credentials of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Reports of a relay.
    Webhook,
    /// One click unsubscribes.
    Unsubscribe,
    /// The page of a recipient's choices.
    Preferences,
    /// The page that pins a digest type's cadence.
    AsBefore,
    /// A message in the browser.
    View,
    /// The picture that counts openings.
    Open,
    /// A link that counts clicks.
    Click,
    /// The stylesheet of all pages.
    Style,
    /// What a problem means.
    Problem,
}

impl Route {
    pub const ALL: [Self; 9] = [
        Self::Webhook,
        Self::Unsubscribe,
        Self::Preferences,
        Self::AsBefore,
        Self::View,
        Self::Open,
        Self::Click,
        Self::Style,
        Self::Problem,
    ];

    /// The path, with its parameter in braces.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Webhook => "/webhooks/{relay}",
            Self::Unsubscribe => "/u/{token}",
            Self::Preferences => "/p/{token}",
            Self::AsBefore => "/b/{token}",
            Self::View => "/v/{token}",
            Self::Open => "/o/{token}",
            Self::Click => "/c/{token}",
            Self::Style => "/page.css",
            Self::Problem => "/problems/{name}",
        }
    }
}
