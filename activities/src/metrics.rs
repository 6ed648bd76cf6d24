//! Counters of this process for Prometheus, in the words of the ledger and the log.

use std::sync::LazyLock;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tidings_model::attempt::AttemptClass;

static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

struct Metrics {
    attempts: Family<Attempt, Counter>,
    digests_failed: Counter,
    messages_failed: Counter,
    relay_open: Family<Relay, Gauge>,
    registry: Registry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    relay: String,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Relay {
    relay: String,
}

impl Metrics {
    fn new() -> Self {
        let mut registry = Registry::with_prefix("tidings");
        let (attempts, relay_open) = (Family::default(), Family::default());
        let (digests_failed, messages_failed) = (Counter::default(), Counter::default());
        registry.register("attempts", "Attempts to deliver a message that ended", attempts.clone());
        let help = "Digests that could not be delivered: alert=digest_failed";
        registry.register("digests_failed", help, digests_failed.clone());
        let help = "Single messages that could not be delivered: alert=message_failed";
        registry.register("messages_failed", help, messages_failed.clone());
        registry.register("relay_open", "Whether the relay is left alone", relay_open.clone());
        Self { attempts, digests_failed, messages_failed, relay_open, registry }
    }
}

/// All of it, in OpenMetrics' text format 1.0.
#[must_use]
pub fn text() -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &METRICS.registry);
    text
}

/// An attempt ended.
pub(crate) fn attempt(relay: &str, class: AttemptClass) {
    METRICS.attempts.get_or_create(&Attempt { relay: relay.to_owned(), class: class.name() }).inc();
}

/// A digest could not be delivered.
pub(crate) fn digest_failed() {
    METRICS.digests_failed.inc();
}

/// A single message could not be delivered.
pub(crate) fn message_failed() {
    METRICS.messages_failed.inc();
}

/// A relay is left alone, or is not.
pub(crate) fn relay(name: &str, open: bool) {
    METRICS.relay_open.get_or_create(&Relay { relay: name.to_owned() }).set(open.into());
}
