//! Reports messages that a relay took and that bounced later to the breaker of the relay.

use jiff::Timestamp;
use tidings_model::breaker::Breaker;
use tidings_store::Store;

use super::change::change;

/// Counts `bounces`. Bounces that the store cannot take are lost, which hardly changes the rate.
pub(crate) async fn bounced(store: &dyn Store, relay: &str, bounces: usize, now: Timestamp) {
    let counted = |breaker: &Breaker| {
        (0..bounces).fold(None, |counted: Option<Breaker>, _| {
            counted.as_ref().unwrap_or(breaker).bounced_later(now).or(counted)
        })
    };
    if let Err(error) = change(store, relay, None, now, counted).await {
        tracing::warn!(relay, bounces, %error, "bounces of a relay cannot be counted");
    }
}
