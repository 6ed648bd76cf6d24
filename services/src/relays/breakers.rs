//! Breakers in the store: the operator's commands, changes by compare-and-set, and reports of providers that count against a relay.

use jiff::Timestamp;
use tidings_model::{
    Alert, RelaysToday,
    breaker::{self, Breaker, VersionedBreaker, parts},
    delivery_events::Against,
    records::AuditEntry,
    settings::Settings,
};
use tidings_store::Store;

/// A command that opens or closes a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerCommand {
    /// Sends nothing by the relay until an operator closes the breaker.
    Open,
    /// Uses the relay at once and resets the counts.
    Close,
}

impl BreakerCommand {
    /// The word in the audit trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "relay_open",
            Self::Close => "relay_close",
        }
    }

    /// Carries out the command for the breaker `name`, with an audit entry. Workers notice within a second, and waiting messages within five minutes.
    ///
    /// # Errors
    /// The store cannot answer, or workers change the relay so often that it cannot be changed.
    pub async fn carry_out(
        self,
        store: &dyn Store,
        name: &str,
        by: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<Breaker, tidings_store::Error> {
        let action = self.name().to_owned();
        let entry = AuditEntry { at: now, actor: by.to_owned().into(), action, why: why.to_owned() };
        let next = |breaker: &Breaker| match self {
            Self::Open => Some(breaker.opened(why, now)),
            Self::Close => Some(Breaker::closed()),
        };
        // Whatever the breaker was before, under whatever name.
        let changed = change(store, &RelaysToday::default(), name, Some(&entry), now, next).await?;
        changed.ok_or_else(|| tidings_store::Error::Broken(format!("breaker {name} is changed too often; try again")))
    }
}

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

/// Counts `reports` against the mail of a tenant: in the tenant's own breaker if it has a table, else in the relay's. Reports that
/// the store cannot take are lost, which hardly changes the rates.
pub async fn reported(
    store: &dyn Store,
    settings: &Settings,
    Against { relay, tenant, evidence }: &Against,
    reports: usize,
    now: Timestamp,
) {
    let name = breaker::name(settings.relay_today(relay), settings.with_table(tenant));
    let counted = |breaker: &Breaker| {
        (0..reports).fold(None, |counted: Option<Breaker>, _| {
            counted.as_ref().unwrap_or(breaker).reported(*evidence, now).or(counted)
        })
    };
    if let Err(error) = change(store, &RelaysToday::of(settings), &name, None, now, counted).await {
        tracing::warn!(relay, tenant, reports, %error, "reports about a tenant's mail cannot be counted");
    }
}
