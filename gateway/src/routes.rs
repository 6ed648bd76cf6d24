//! Routes of the public listener and their shared layers.

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

/// Time limit from headers to response. SNS waits 15 s.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(14);
/// Concurrent requests: in total, and per client.
const REQUESTS: [usize; 2] = [256, 64];

/// One client may use a quarter of the memory for bodies.
pub fn router(state: State, webhooks: Webhooks, Admission { trusted, body_bytes }: Admission) -> Router {
    let concurrency = Concurrency::new(REQUESTS, [body_bytes, body_bytes / 4], trusted);
    let webhooks = Arc::new(webhooks);
    let with = |routes: Router, route: Route| {
        let (path, handler) = (route.path(), handler(route, &state, &webhooks));
        match path.strip_suffix("{token}") {
            // Some programs append a slash to a link. This page then looks for its stylesheet one level
            // deeper.
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

/// For an API path this explains the wrong port, because such a path appears in no email. The response should
/// be the same whether or not this gateway serves the API.
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

pub(crate) fn shared(routes: Router) -> Router {
    routes.layer(CatchPanicLayer::custom(panicked)).layer(map_response(harden)).layer(from_fn(metrics::observe))
}

/// No concurrency limit: a busy gateway should not be restarted.
pub(crate) fn health(state: State) -> Router {
    Router::new()
        .route("/livez", get(async || StatusCode::OK))
        .route("/readyz", get(async |Extracted(health): Extracted<Health>| health.ready().await))
        .with_state(Health::new(state))
}

/// Adds limits on concurrency and time, also for unknown paths.
pub(crate) fn limited(routes: Router, concurrency: Concurrency, time: Duration) -> Router {
    routes
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, time))
        .layer(from_fn_with_state(concurrency, concurrency::bound))
}

/// Adds security headers to every response.
async fn harden(response: Response) -> Response {
    // A timeout response has no body.
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

/// The panic's message may quote the request, so we drop it.
fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a request ended in a panic: please report that");
    Problem::Failed.into_response()
}

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod walk;

/// The router is built from [`Route::ALL`], and a test calls each route with foreign credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Webhook,
    Unsubscribe,
    Preferences,
    /// Page to return from an adapted cadence.
    AsBefore,
    View,
    Open,
    Click,
    Style,
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
