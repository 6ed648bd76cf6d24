//! Reports a message that a relay took and that bounced later to the breaker of the relay.

use jiff::Timestamp;
use tidings_store::Store;

use super::change::change;

/// Counts the bounce. A bounce that the store cannot take is lost, which hardly changes the rate.
pub(crate) async fn bounced(store: &dyn Store, relay: &str, now: Timestamp) {
    if let Err(error) = change(store, relay, None, now, |breaker| breaker.bounced_later(now)).await {
        tracing::warn!(relay, %error, "a bounce of a relay cannot be counted");
    }
}
