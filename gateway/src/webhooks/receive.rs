//! The route `/webhooks/{relay}`. We return 200 with an empty body once the events are durable (rule 39).

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, post},
};
use jiff::Timestamp;
use tidings_model::{
    AlertName,
    delivery_events::{OneTimeToken, WebhookRequest},
};
use tidings_services::delivery_events::{self, WebhookResult};

use super::{
    ParsedBody, VerifyError,
    hook::{RelayWebhook, VerifiedRequest, WebhookError},
    ses::{CertificateCache, SnsUrl},
};
use crate::{
    metrics,
    problem::Problem,
    request_body::{self, BodyLimit},
};

/// Body limit in bytes. SendGrid sends at most 768 KB.
const BODY_BYTES: usize = 2 * 1024 * 1024;

pub struct WebhookContext {
    pub state: crate::GatewayState,
    pub hooks: BTreeMap<String, RelayWebhook>,
    pub certificates: CertificateCache,
}

impl WebhookContext {
    /// Finds the webhook. The provider may still use a former name of the relay.
    fn find_webhook(&self, relay: &str) -> Option<(&String, &RelayWebhook)> {
        self.hooks.get_key_value(self.state.settings.relay_today(relay))
    }
}

pub(crate) fn route(webhooks: Arc<WebhookContext>) -> MethodRouter {
    for relay in webhooks.hooks.keys() {
        metrics::prepare_webhook(relay);
    }
    post(receive)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(BodyLimit::with_bytes(BODY_BYTES), request_body::buffer_body))
        .route_layer(from_fn_with_state(webhooks.clone(), require_webhook))
        .with_state(webhooks)
}

/// Middleware: rejects an unknown relay before reading the body. This should look the same as a wrong secret.
async fn require_webhook(
    State(webhooks): State<Arc<WebhookContext>>,
    Path(relay): Path<String>,
    request: Request,
    next: Next,
) -> Response {
    if webhooks.find_webhook(&relay).is_some() { next.run(request).await } else { unauthorized() }
}

async fn receive(
    State(webhooks): State<Arc<WebhookContext>>,
    Path(relay): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let now = Timestamp::now();
    let certificates = &webhooks.certificates;
    let Some((relay, hook)) = webhooks.find_webhook(&relay) else { return unauthorized() };
    let outcome = match hook.verify_request(&headers, &body, certificates, now).await {
        Ok(VerifiedRequest::Events(parsed, token)) => record_events(&webhooks, relay, parsed, token, now).await,
        Ok(VerifiedRequest::Subscription(address)) => confirm_subscription(relay, certificates, &address).await,
        Ok(VerifiedRequest::Unsubscription) => {
            tracing::error!(alert = %AlertName::WebhookEnded, relay, "SNS subscription ended: subscribe again");
            Ok(())
        }
        Err(denied) => Err(denied),
    };
    match outcome {
        Ok(()) => StatusCode::OK.into_response(),
        Err(WebhookError::Refused(refused)) => {
            tracing::warn!(relay, %refused, "webhook rejected");
            metrics::webhook_refused(relay);
            unauthorized()
        }
        Err(WebhookError::Later) => Problem::Unavailable.into_response(),
    }
}

/// Records the events in one transaction and counts the results.
async fn record_events(
    webhooks: &WebhookContext,
    relay: &str,
    parsed: ParsedBody,
    token: Option<OneTimeToken>,
    now: Timestamp,
) -> Result<(), WebhookError> {
    let ParsedBody { mut events, nameless, unusable, unreadable } = parsed;
    for event in &mut events {
        event.relay = Some(relay.to_owned());
    }
    if unreadable > 0 {
        let reason = unusable.first().map(|letter| letter.reason.as_str()).unwrap_or_default();
        tracing::warn!(relay, parts = unreadable, reason, "webhook has unusable parts");
    }
    let request = WebhookRequest { relay: relay.to_owned(), events, token, unusable };
    let state = &webhooks.state;
    let received = delivery_events::record_webhook(&*state.store, &state.settings, request, now).await;
    let received = received.map_err(|error| {
        tracing::error!(relay, %error, "cannot record webhook");
        WebhookError::Later
    })?;
    let WebhookResult { new, again, unknown, foreign, withdrawn } = received.ok_or(VerifyError::Token)?;
    let unknown = unknown + nameless;
    tracing::info!(relay, new, again, unknown, foreign, unusable = unreadable, "webhook recorded");
    let counts = [("new", new), ("again", again), ("unknown", unknown), ("foreign", foreign), ("unusable", unreadable)];
    metrics::webhook_events(relay, counts);
    // The response should not wait for this.
    let state = state.clone();
    tokio::spawn(async move { state.wake_windows(&withdrawn).await });
    Ok(())
}

async fn confirm_subscription(
    relay: &str,
    certificates: &CertificateCache,
    address: &SnsUrl,
) -> Result<(), WebhookError> {
    match certificates.fetch_url(address).await {
        Ok(_) => {
            tracing::info!(relay, host = address.host, "confirmed SNS subscription");
            Ok(())
        }
        Err(error) => {
            tracing::error!(relay, host = address.host, %error, "cannot confirm SNS subscription");
            Err(WebhookError::Later)
        }
    }
}

/// Not 403, because Postmark then stops retrying, and operators should have time to fix a wrong secret.
fn unauthorized() -> Response {
    let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"webhooks\""))];
    (StatusCode::UNAUTHORIZED, challenge).into_response()
}
