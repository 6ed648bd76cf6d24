//! Changes stored breakers: operators' commands, compare-and-set updates, and provider reports against a relay.

use jiff::Timestamp;
use tidings_model::{
    AlertName, RelaysToday,
    breaker::{self, CircuitBreaker, VersionedBreaker, split_name},
    delivery_events::TenantEvidence,
    records::AuditEntry,
    settings::Settings,
};
use tidings_store::Store;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerCommand {
    Open,
    /// Uses the relay again at once, and resets its counts.
    Close,
}

impl BreakerCommand {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "relay_open",
            Self::Close => "relay_close",
        }
    }

    /// Applies the command to breaker `name` and writes an audit entry. Workers notice within a second, and
    /// waiting messages within five minutes.
    ///
    /// # Errors
    /// If the store fails, or workers keep changing the breaker concurrently.
    pub async fn carry_out(
        self,
        store: &dyn Store,
        name: &str,
        by: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<CircuitBreaker, tidings_store::StoreError> {
        let action = self.name().to_owned();
        let entry = AuditEntry { at: now, actor: by.to_owned().into(), action, why: why.to_owned() };
        let next = |breaker: &CircuitBreaker| match self {
            Self::Open => Some(breaker.open_by_operator(why, now)),
            Self::Close => Some(CircuitBreaker::closed()),
        };
        // Ignore former names: this replaces the breaker in any case.
        let changed = update_stored(store, &RelaysToday::default(), name, Some(&entry), now, next).await?;
        changed
            .ok_or_else(|| tidings_store::StoreError::Broken(format!("breaker {name} is changed too often; try again")))
    }
}

/// Compare-and-set retries. Losing an update is harmless, since the next attempt will report the same.
pub(super) const CAS_RETRIES: u32 = 20;

/// Updates by compare-and-set. Returns `None` if `next` changes nothing, or the retries run out.
pub(super) async fn update_stored(
    store: &dyn Store,
    today: &RelaysToday,
    name: &str,
    entry: Option<&AuditEntry>,
    now: Timestamp,
    next: impl Fn(&CircuitBreaker) -> Option<CircuitBreaker>,
) -> Result<Option<CircuitBreaker>, tidings_store::StoreError> {
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

pub(super) fn report(name: &str, before: &CircuitBreaker, after: &CircuitBreaker) {
    let (relay, tenant) = split_name(name);
    match (&before.open, &after.open) {
        (_, Some(open)) if open.probe.is_none() && before.open.as_ref().is_none_or(|was| was.times < open.times) => {
            let (cause, why, until) = (open.cause.name(), &open.why, open.until);
            tracing::error!(alert = %AlertName::RelayOpen, relay, tenant, cause, why, %until, times = open.times, "circuit breaker opened for relay");
        }
        (Some(open), None) => {
            tracing::warn!(alert = %AlertName::RelayClosed, relay, tenant, cause = open.cause.name(), "circuit breaker closed for relay");
        }
        _ => {}
    }
}

/// Counts provider reports in the tenant's own breaker if it has a table, otherwise in the relay's. Drops them
/// if the store fails; this hardly changes the rates.
pub async fn count_reports(
    store: &dyn Store,
    settings: &Settings,
    TenantEvidence { relay, tenant, evidence }: &TenantEvidence,
    reports: usize,
    now: Timestamp,
) {
    let name = breaker::breaker_name(settings.relay_today(relay), settings.with_table(tenant));
    let counted = |breaker: &CircuitBreaker| {
        (0..reports).fold(None, |counted: Option<CircuitBreaker>, _| {
            counted.as_ref().unwrap_or(breaker).after_report(*evidence, now).or(counted)
        })
    };
    if let Err(error) = update_stored(store, &RelaysToday::from_settings(settings), &name, None, now, counted).await {
        tracing::warn!(relay, tenant, reports, %error, "cannot count delivery reports of tenant");
    }
}
