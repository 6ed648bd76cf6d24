//! Changes of a breaker in the store, by compare-and-set.

use jiff::Timestamp;
use tidings_model::{
    Alert, RelaysToday,
    breaker::{Breaker, VersionedBreaker, parts},
    records::AuditEntry,
};
use tidings_store::Store;

/// Compare-and-set retries. A lost update is harmless, because the next attempt reports the same.
pub(super) const CAS_RETRIES: u32 = 20;

/// Reads, decides and writes, and repeats if another worker wrote first. Returns `None` if `next` changes nothing, or if the
/// retries run out.
pub(super) async fn change(
    store: &dyn Store,
    today: &RelaysToday,
    name: &str,
    entry: Option<&AuditEntry>,
    now: Timestamp,
    next: impl Fn(&Breaker) -> Option<Breaker>,
) -> Result<Option<Breaker>, tidings_store::Error> {
    for _ in 0..CAS_RETRIES {
        let VersionedBreaker { revision, breaker } =
            today.breakers(store.breakers().await?).remove(name).unwrap_or_default();
        let Some(next) = next(&breaker) else { return Ok(None) };
        let kept = VersionedBreaker { revision: revision + 1, breaker: next };
        if store.put_breaker(name, &kept, entry, now).await? {
            report(name, &breaker, &kept.breaker);
            return Ok(Some(kept.breaker));
        }
    }
    Ok(None)
}

/// Logs the changes that operators watch.
pub(super) fn report(name: &str, before: &Breaker, after: &Breaker) {
    let (relay, tenant) = parts(name);
    match (&before.open, &after.open) {
        (_, Some(open)) if open.probe.is_none() && before.open.as_ref().is_none_or(|was| was.times < open.times) => {
            let (cause, why, until) = (open.cause.name(), &open.why, open.until);
            tracing::error!(alert = %Alert::RelayOpen, relay, tenant, cause, why, %until, times = open.times, "a relay is left alone");
        }
        (Some(open), None) => {
            tracing::warn!(alert = %Alert::RelayClosed, relay, tenant, cause = open.cause.name(), "a relay works again");
        }
        _ => {}
    }
}
