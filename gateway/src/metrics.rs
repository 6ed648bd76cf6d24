//! Prometheus metrics and one log line per request. Both should contain the route template, never a path, a
//! token or an address.

use std::sync::{LazyLock, atomic::AtomicU64};

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    middleware::Next,
    response::Response,
};
use jiff::Timestamp;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};
use tidings_model::{ZoneData, inbox::InboxDepth};
use tidings_services::{
    metric_labels,
    metrics::{labels::ZoneDataLabels, table},
    metrics_table,
};
use tokio::time::Instant;

/// Label for requests without a route and for unusual methods.
const OTHER: &str = "other";
/// Upper bounds of duration buckets, in seconds.
const DURATIONS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

static METRICS: LazyLock<GatewayMetrics> = LazyLock::new(|| {
    let metrics = GatewayMetrics::default();
    let ZoneData { release, source, .. } = tidings_model::zone_data();
    metrics.zone_data.get_or_create(&ZoneDataLabels { release: release.clone(), source: source.name() }).set(1);
    metrics
});

metric_labels! {
    struct RequestLabels { route: String, method: &'static str, status: u16 }
    struct OfRoute { route: String }
    struct OfWebhook { relay: String }
    struct WebhookEvents { relay: String, outcome: &'static str }
    struct TrackingLabels { outcome: &'static str }
}

type DurationHistograms = Family<OfRoute, Histogram, fn() -> Histogram>;
type DepthGauge = Gauge<u64, AtomicU64>;

metrics_table! {
    struct GatewayMetrics {
        http_requests: Family<RequestLabels, Counter>, "Requests that the gateway answered";
        http_request_duration: DurationHistograms = DurationHistograms::new_with_constructor(|| Histogram::new(DURATIONS)),
            "Time from a request's headers to the headers of its answer", Seconds;
        webhook_events: Family<WebhookEvents, Counter>, "Events of authentic webhooks: new, again, unknown or unusable";
        webhooks_refused: Family<OfWebhook, Counter>, "Webhooks that were not authentic";
        tracked: Family<TrackingLabels, Counter>, "Openings and clicks: new, again, unknown or dropped";
        zone_data: Family<ZoneDataLabels, Gauge>, "1 for the release of the zone data that this process uses, and its source";
        inbox_events: DepthGauge, "Accepted events that Temporal does not have yet";
        inbox_bytes: DepthGauge, "Bytes of these events";
        inbox_oldest: DepthGauge, "Age of the oldest of these events, 0 if there is none", Seconds;
    }
}

/// Exports all metrics in OpenMetrics text format 1.0.
#[must_use]
pub fn export_text() -> String {
    table::encode_text(|registry| METRICS.register(registry))
}

/// Starts the counters at zero, so alerts will see the first event.
pub(crate) fn prepare_webhook(relay: &str) {
    webhook_events(relay, [("new", 0), ("again", 0), ("unknown", 0), ("foreign", 0), ("unusable", 0)]);
    drop(METRICS.webhooks_refused.get_or_create(&OfWebhook { relay: relay.to_owned() }));
}

pub(crate) fn webhook_events(relay: &str, counts: [(&'static str, usize); 5]) {
    for (outcome, count) in counts {
        let events = WebhookEvents { relay: relay.to_owned(), outcome };
        METRICS.webhook_events.get_or_create(&events).inc_by(count as u64);
    }
}

pub(crate) fn count_tracked(outcome: &'static str, count: usize) {
    METRICS.tracked.get_or_create(&TrackingLabels { outcome }).inc_by(count as u64);
}

pub(crate) fn webhook_refused(relay: &str) {
    METRICS.webhooks_refused.get_or_create(&OfWebhook { relay: relay.to_owned() }).inc();
}

pub(crate) fn set_inbox_depth(depth: InboxDepth, now: Timestamp) {
    METRICS.inbox_events.set(depth.events);
    METRICS.inbox_bytes.set(depth.bytes);
    METRICS.inbox_oldest.set(depth.oldest_seconds(now));
}

/// Middleware: counts, times and logs each request.
pub(crate) async fn observe_request(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route =
        request.extensions().get::<MatchedPath>().map_or(OTHER, |path| path.as_str().trim_end_matches('/')).to_owned();
    let method = name(request.method());
    let response = next.run(request).await;
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    if response.status().is_server_error() {
        tracing::warn!(route, method, status, ?took, "request");
    } else {
        tracing::debug!(route, method, status, ?took, "request");
    }
    METRICS.http_request_duration.get_or_create(&OfRoute { route: route.clone() }).observe(took.as_secs_f64());
    METRICS.http_requests.get_or_create(&RequestLabels { route, method, status }).inc();
    response
}

/// Clients can invent methods, so we group unusual ones.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}
