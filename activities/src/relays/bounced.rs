//! What a relay's breaker learns of a message that the relay took and that bounced later.

use jiff::Timestamp;

use super::{Kept, TRIES, report};
use crate::store::{self, Store};

/// Counts the bounce. What the store cannot take is lost: the rate is of many.
pub(crate) async fn bounced(store: &dyn Store, relay: &str, now: Timestamp) {
    if let Err(error) = count(store, relay, now).await {
        tracing::warn!(relay, %error, "a bounce of a relay cannot be counted");
    }
}

async fn count(store: &dyn Store, relay: &str, now: Timestamp) -> Result<(), store::Error> {
    for _ in 0..TRIES {
        let Kept { revision, breaker } = store.breakers().await?.remove(relay).unwrap_or_default();
        let Some(next) = breaker.bounced_later(now) else { return Ok(()) };
        let kept = Kept { revision: revision + 1, breaker: next };
        if store.put_breaker(relay, &kept, None, now).await? {
            report(relay, &breaker, &kept.breaker);
            return Ok(());
        }
    }
    Ok(())
}
