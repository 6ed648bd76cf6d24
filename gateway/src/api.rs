//! The API for services and operators. It has its own listener, and every request needs a token (rules 38 and
//! 40).
//!
//! [`Endpoint`] lists the routes. `gate` checks the token, then the module of the route handles the request.

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::Uri,
    middleware::{Next, from_fn, from_fn_with_state},
    response::Response,
    routing::get,
};
use tidings_model::{
    changed_names::{NamePlace, current_name},
    nearest_name,
};

use crate::{
    concurrency::{AdmissionLimits, BODY_COST, RequestQuotas},
    problem::{self, Problem, ProblemDetails},
    request_body::{self, BodyLimit},
    routes::{REQUEST_TIME, health, with_limits, with_shared_layers},
};

mod body;
mod caller;
mod endpoint;
mod events;
mod gate;
mod idempotency_key;
mod if_match;
mod jobs;
mod ledger;
mod messages;
mod oidc;
pub mod openapi;
mod operate;
mod params;
mod pauses;
mod preferences;
mod rate_limit;
mod recipients;
pub(crate) mod refusal;
mod request_id;
mod state;
mod suppressions;
#[cfg(test)]
mod tests;
mod watch;

pub use endpoint::{Endpoint, RateClass};
use gate::TokenGate;
pub use oidc::{IssuerTrust, OidcIssuer, TokenType};
use refusal::ApiRefusal;
pub use state::{ApiState, RenderContext};

/// Concurrent requests. We allow one client all of them, because services often share an address.
const REQUESTS: usize = 512;

/// Minimum memory for request bodies in bytes: enough for the longest body.
pub const LEAST_BODY_BYTES: usize = messages::BODY_BYTES * BODY_COST;

/// Also accepts access tokens of `issuer`. One client may use half the memory for bodies.
pub fn router(
    api: ApiState,
    issuer: Option<Arc<OidcIssuer>>,
    AdmissionLimits { trusted, body_bytes }: AdmissionLimits,
) -> Router {
    let gate = TokenGate::new(&api.state, issuer, trusted.clone());
    let health = health(api.state.clone());
    let mut routes = Router::new();
    for endpoint in Endpoint::ALL {
        let limit =
            BodyLimit { decodes: endpoint.accepts_compression(), ..BodyLimit::with_bytes(endpoint.body_bytes()) };
        let body = from_fn_with_state(limit, request_body::buffer_body);
        let gate = from_fn_with_state((gate.clone(), endpoint), gate::check_token);
        let handler = endpoint.handler().layer(body).layer(from_fn_with_state(endpoint, show_example));
        routes = routes.route(endpoint.path(), handler.layer(gate));
    }
    // `BodyLimit` already bounds the body, so axum's own limit is off.
    let routes = routes.layer(DefaultBodyLimit::disable());
    let routes =
        routes.route("/openapi.json", get(openapi::serve)).route("/problems/{name}", get(problem::problem_page));
    let routes = routes.method_not_allowed_fallback(async || Problem::WrongMethod).fallback(no_route).with_state(api);
    let concurrency = RequestQuotas::new([REQUESTS; 2], [body_bytes, body_bytes / 2], trusted);
    let limited = with_limits(routes, concurrency, REQUEST_TIME);
    with_shared_layers(limited.merge(health)).layer(from_fn(request_id::assign_id))
}

/// Characters of a path compared with the routes.
const PATH_CHARS: usize = 128;

async fn no_route(uri: Uri) -> ApiRefusal {
    let says = if uri.path().starts_with("/webhooks/") {
        "belongs to the public listener, gateway.public_url; this is the API".to_owned()
    } else {
        let meant = match current_name(NamePlace::Route, uri.path()) {
            Some(path) => format!("it is called {path} now; "),
            None => nearest_path(uri.path()).map(|path| format!("did you mean {path}? ")).unwrap_or_default(),
        };
        format!("is not an API path; {meant}GET /openapi.json has all paths")
    };
    ApiRefusal::with_fault(Problem::NotFound, "path", says)
}

/// Returns the path of the closest route. A path parameter matches any value.
fn nearest_path(path: &str) -> Option<&'static str> {
    let path: String = path.chars().take(PATH_CHARS).collect();
    let parts: Vec<_> = path.split('/').collect();
    let filled = |path: &'static str| {
        let template = path.split('/').collect::<Vec<_>>();
        let has_as_many = template.len() == parts.len();
        let part = |(part, given): (&str, &str)| if part.starts_with('{') { given.to_owned() } else { part.to_owned() };
        let filled = template.into_iter().zip(parts.iter().copied()).map(part).collect::<Vec<_>>().join("/");
        has_as_many.then_some((filled, path))
    };
    let paths: Vec<_> = Endpoint::ALL.into_iter().filter_map(|endpoint| filled(endpoint.documented_path())).collect();
    let found = nearest_name(&path, paths.iter().map(|(filled, _)| filled.as_str()))?;
    paths.iter().find(|(filled, _)| filled == found).map(|(_, path)| *path)
}

/// Middleware: if the body was unusable, adds a valid example to the problem.
async fn show_example(State(endpoint): State<Endpoint>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let details = response.extensions_mut().get_mut::<ProblemDetails>();
    if let Some(details) = details.filter(|details| details.is_about_the_body()) {
        details.example = openapi::example_body(endpoint);
    }
    response
}
