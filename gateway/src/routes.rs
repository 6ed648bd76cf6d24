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
    GatewayState, as_before,
    concurrency::{self, AdmissionLimits, RequestQuotas},
    health::HealthCheck,
    metrics, page, preferences,
    problem::{self, Problem},
    tracking, unsubscribe, view,
    webhooks::{self, WebhookContext},
};

/// Time limit from headers to response. SNS waits 15 s.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(14);
/// Concurrent requests: in total, and per client.
const REQUESTS: [usize; 2] = [256, 64];

/// One client may use a quarter of the memory for bodies.
pub fn router(
    state: GatewayState,
    webhooks: WebhookContext,
    AdmissionLimits { trusted, body_bytes }: AdmissionLimits,
) -> Router {
    let concurrency = RequestQuotas::new(REQUESTS, [body_bytes, body_bytes / 4], trusted);
    let webhooks = Arc::new(webhooks);
    let with = |routes: Router, route: PublicRoute| {
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
    let routes = PublicRoute::ALL.into_iter().fold(Router::new(), with).fallback(no_route);
    let routes = with_limits(routes, concurrency, REQUEST_TIME);
    let routes = routes.layer(from_fn_with_state(state.clone(), page::explain_not_found));
    with_shared_layers(routes.merge(health(state)))
}

/// For an API path this explains the wrong port, because such a path appears in no email. The response should
/// be the same whether or not this gateway serves the API.
async fn no_route(uri: Uri) -> Response {
    let path = uri.path();
    if path != "/openapi.json" && path != "/v1" && !path.starts_with("/v1/") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let problem = "is an API path, but this is the public listener; the API has its own address, gateway.api_listen";
    Problem::NotFound.with_errors(&[json!({"field": "path", "problem": problem})])
}

fn handler(route: PublicRoute, state: &GatewayState, webhooks: &Arc<WebhookContext>) -> MethodRouter {
    match route {
        PublicRoute::Webhook => webhooks::route(Arc::clone(webhooks)),
        PublicRoute::Unsubscribe => unsubscribe::route(state.clone()),
        PublicRoute::Preferences => preferences::route(state.clone()),
        PublicRoute::AsBefore => as_before::route(state.clone()),
        PublicRoute::View => view::route(state.clone()),
        PublicRoute::Open => tracking::picture(state.clone()),
        PublicRoute::Click => tracking::click_route(state.clone()),
        PublicRoute::Style => get(page::style),
        PublicRoute::Problem => get(problem::problem_page),
    }
}

pub(crate) fn with_shared_layers(routes: Router) -> Router {
    routes
        .layer(CatchPanicLayer::custom(panic_response))
        .layer(map_response(harden_response))
        .layer(from_fn(metrics::observe_request))
}

/// No concurrency limit: a busy gateway should not be restarted.
pub(crate) fn health(state: GatewayState) -> Router {
    Router::new()
        .route("/livez", get(async || StatusCode::OK))
        .route("/readyz", get(async |Extracted(health): Extracted<HealthCheck>| health.check_readiness().await))
        .with_state(HealthCheck::new(state))
}

/// Adds limits on concurrency and time, also for unknown paths.
pub(crate) fn with_limits(routes: Router, concurrency: RequestQuotas, time: Duration) -> Router {
    routes
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, time))
        .layer(from_fn_with_state(concurrency, concurrency::limit_requests))
}

async fn harden_response(response: Response) -> Response {
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
fn panic_response(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("request handler panicked; please report this");
    Problem::Failed.into_response()
}

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod walk;

/// The router is built from [`PublicRoute::ALL`], and a test calls each route with foreign credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublicRoute {
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

impl PublicRoute {
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
