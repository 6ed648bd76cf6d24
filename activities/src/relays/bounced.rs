//! What a relay's breaker learns of a message that the relay took and that bounced later.

use jiff::Timestamp;
use tidings_store::Store;

use super::change;

/// Counts the bounce. What the store cannot take is lost: the rate is of many.
pub(crate) async fn bounced(store: &dyn Store, relay: &str, now: Timestamp) {
    if let Err(error) = change(store, relay, None, now, |breaker| breaker.bounced_later(now)).await {
        tracing::warn!(relay, %error, "a bounce of a relay cannot be counted");
    }
}
