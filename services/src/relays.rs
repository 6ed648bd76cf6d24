//! Chooses a relay for each message and maintains the breakers: one per relay, plus one per tenant with its
//! own table.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tidings_mail::smtp::{
    AttemptOutcome, ConnectionSlot, PoolLimits, ReadyTransaction, SendLane, SmtpMailer, SmtpTimeouts, WithdrawReason,
};
use tidings_model::{
    Provider, RelaysToday,
    attempt::AttemptClass,
    breaker::{
        self, BreakerCause, BreakerDecision, CircuitBreaker, DomainRun, RelayObservation, VersionedBreaker, hash_tag,
    },
    records::AuditEntry,
    settings::{RelaySettings, Settings},
};
use tidings_store::Store;
use tokio::time::Instant;
use tracing::{Instrument, debug_span};
use uuid::Uuid;

use crate::metrics;

mod breakers;
mod view;

pub use breakers::BreakerCommand;
pub use breakers::count_reports;
use breakers::{CAS_RETRIES, report};
pub use view::{ExplainedRefusal, RelayView};

/// Maximum age of cached breakers.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum wait for a connection if another relay would accept the message.
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
/// Successes to write together.
const SUCCESS_BATCH: u32 = 50;

/// All workers share the breakers in the store.
#[derive(Default)]
pub struct RelaySet {
    by_name: BTreeMap<String, RelayEntry>,
    today: RelaysToday,
    seen: Mutex<BreakerCache>,
    /// Messages with a committed attempt in this process that has no recorded end yet.
    awaited: Mutex<BTreeSet<Uuid>>,
}

pub struct AwaitedReply<'a> {
    relays: &'a RelaySet,
    message: Uuid,
}

impl Drop for AwaitedReply<'_> {
    fn drop(&mut self) {
        self.relays.lock_awaited().remove(&self.message);
    }
}

struct RelayEntry {
    mailer: SmtpMailer,
    provider: Provider,
    pool: Option<String>,
    reply_time: Duration,
}

#[derive(Default)]
struct BreakerCache {
    read_at: Option<Instant>,
    breakers: BTreeMap<String, VersionedBreaker>,
    successes: BTreeMap<String, u32>,
    domains: BTreeMap<String, DomainRun>,
}

pub enum RelayChoice<'a> {
    By(RelayRoute<'a>),
    Wait { until: Timestamp, why: String },
}

pub struct RelayRoute<'a> {
    name: &'a str,
    relay: &'a RelayEntry,
    tenant: Option<String>,
    message: Uuid,
    sender: Option<String>,
    has_alternative: bool,
}

impl RelayRoute<'_> {
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    #[must_use]
    pub fn message(&self) -> Uuid {
        self.message
    }

    /// See [`SmtpMailer::check`].
    ///
    /// # Errors
    /// The phase in which the check failed, and the reason.
    pub async fn check(&self) -> Result<bool, AttemptOutcome> {
        self.relay.mailer.check().instrument(debug_span!("smtp", relay = self.name, message = %self.message)).await
    }

    #[must_use]
    pub fn of_tenant(self, tenant: Option<&str>) -> Self {
        Self { tenant: tenant.map(str::to_owned), ..self }
    }

    #[must_use]
    pub fn for_sender(self, sender: String) -> Self {
        Self { sender: Some(sender), ..self }
    }

    /// Returns `true` if the relay drops a second copy of a message.
    #[must_use]
    pub fn deduplicates(&self) -> bool {
        self.remembers().is_some()
    }

    /// See [`Provider::deduplication_window`](tidings_model::Provider::deduplication_window).
    #[must_use]
    pub fn remembers(&self) -> Option<SignedDuration> {
        self.relay.provider.deduplication_window()
    }

    #[must_use]
    pub const fn has_alternative(&self) -> bool {
        self.has_alternative
    }

    /// Waits for one of the relay's connection slots. `None` once the relays are closed.
    pub fn slot(&self, lane: SendLane, to: &str) -> impl Future<Output = Option<ConnectionSlot>> + use<> {
        let patience = self.has_alternative.then_some(CONNECT_PATIENCE);
        let slot = self.relay.mailer.acquire_slot(lane, to);
        async move { Some(slot.await?.with_patience(patience)) }
    }

    /// Calls [`ConnectionSlot::offer`] with the provider's headers before the stored bytes.
    ///
    /// # Errors
    /// The attempt's outcome.
    pub async fn offer(
        &self,
        slot: ConnectionSlot,
        from: &str,
        to: &str,
        bytes: &[u8],
    ) -> Result<ReadyTransaction, AttemptOutcome> {
        let headers = self.relay.provider.headers(self.message, self.relay.pool.as_deref());
        let span = debug_span!("smtp", relay = self.name, message = %self.message);
        if headers.is_empty() {
            return slot.offer(from, to, bytes).instrument(span).await;
        }
        slot.offer(from, to, &[headers.as_bytes(), bytes].concat()).instrument(span).await
    }
}

impl RelaySet {
    /// Prepares each relay without connecting.
    ///
    /// # Errors
    /// See [`SmtpMailer::new`].
    pub fn new(
        settings: &BTreeMap<String, RelaySettings>,
        timeouts: SmtpTimeouts,
    ) -> Result<Self, tidings_mail::MailError> {
        let relays = settings.iter().map(|(name, settings)| {
            let RelaySettings { per_connection: messages, connections, .. } = *settings;
            let limits = PoolLimits { messages, connections, ..PoolLimits::default() };
            let RelaySettings { provider, pool, reply_timeout, .. } = settings.clone();
            let timeouts = SmtpTimeouts { dot: reply_timeout.unwrap_or(timeouts.dot), ..timeouts };
            let mailer = SmtpMailer::new(settings.relay.clone(), limits, timeouts)?;
            Ok((name.clone(), RelayEntry { mailer, provider, pool, reply_time: timeouts.reply_time() }))
        });
        let today = RelaysToday::from_names(settings.keys());
        let by_name = relays.collect::<Result<_, _>>()?;
        Ok(Self { by_name, today, seen: Mutex::default(), awaited: Mutex::default() })
    }

    #[must_use]
    pub fn for_settings(self, settings: &Settings) -> Self {
        Self { today: RelaysToday::from_settings(settings), ..self }
    }

    /// Until the guard is dropped, this process has a committed attempt for the message.
    pub fn await_reply(&self, message: Uuid) -> AwaitedReply<'_> {
        self.lock_awaited().insert(message);
        AwaitedReply { relays: self, message }
    }

    /// Returns `true` while a committed attempt in this process has no recorded end. After a freeze its
    /// timeout may have passed, but the reply is still being read.
    pub fn awaits_reply(&self, message: Uuid) -> bool {
        self.lock_awaited().contains(&message)
    }

    /// Maximum time for a reply after a commit, over all relays, because the attempt may have used a relay no
    /// longer configured.
    #[must_use]
    pub fn reply_time(&self) -> Duration {
        self.by_name.values().map(|relay| relay.reply_time).max().unwrap_or_default()
    }

    #[must_use]
    pub fn is_relay_of(&self, route: &RelayRoute<'_>, name: &str) -> bool {
        self.today.name_of(name) == route.name
    }

    /// Returns a route by this relay even if its breaker is open. `None` if the relay is not configured.
    #[must_use]
    pub fn route(&self, name: &str, message: Uuid) -> Option<RelayRoute<'_>> {
        self.by_name.get_key_value(self.today.name_of(name)).map(|(name, relay)| RelayRoute {
            name,
            relay,
            tenant: None,
            message,
            sender: None,
            has_alternative: false,
        })
    }

    /// Chooses the first of `names` which accepts `message` now. `tenant`: set if its bounces and complaints
    /// are counted separately.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn choose_relay(
        &self,
        store: &dyn Store,
        names: &[String],
        tenant: Option<&str>,
        message: Uuid,
        now: Timestamp,
    ) -> Result<RelayChoice<'_>, tidings_store::StoreError> {
        self.refresh(store).await?;
        let (mut until, mut why) = (Timestamp::MAX, Vec::new());
        let mut named = names.iter().filter_map(|name| self.by_name.get_key_value(name));
        while let Some((name, relay)) = named.next() {
            let asked = self.breakers_for(name, tenant);
            let wait = wait_until(&asked, message, now);
            if wait.is_none() {
                if self.try_open(store, &asked, message, now).await? {
                    let tenant_name = tenant.map(str::to_owned);
                    let has_alternative = named.any(|(name, _)| is_closed(&self.breakers_for(name, tenant)));
                    return Ok(RelayChoice::By(RelayRoute {
                        name,
                        relay,
                        tenant: tenant_name,
                        message,
                        sender: None,
                        has_alternative,
                    }));
                }
                // Another message became the probe first, so read the breakers again.
                self.forget();
            }
            until = until.min(wait.unwrap_or(now));
            let open = asked.into_iter().filter_map(|(name, kept)| Some((name, kept.breaker.open?)));
            why.extend(open.map(|(name, open)| format!("{name}: {}: {}", open.cause.name(), open.why)));
        }
        let none = || format!("none of the relays {} is configured", names.join(", "));
        Ok(RelayChoice::Wait { until, why: if why.is_empty() { none() } else { why.join("; ") } })
    }

    /// Reports an outcome to the breakers of relay and tenant. `ended` is `true` if it ended the message.
    /// Dropped if the store fails; the next attempt will report the same.
    pub async fn report_result(
        &self,
        store: &dyn Store,
        route: &RelayRoute<'_>,
        delivery: &AttemptOutcome,
        (to, ended): (&str, bool),
        now: Timestamp,
    ) {
        let sign = RelayObservation::from_attempt(
            delivery.phase,
            delivery.class,
            delivery.reply.is_some(),
            delivery.refusal(),
        );
        let sign = match sign {
            RelayObservation::Well(_) => {
                self.count_acceptance(store, route.name, to, now).await;
                sign
            }
            _ if delivery.class.is_refusal() => self.count_refusal(route.name, to, ended),
            _ => sign,
        };
        let Some(tenant) = &route.tenant else {
            return self.report_sign(store, route.name, route, sign, &delivery.detail, now).await;
        };
        self.report_sign(store, route.name, route, sign.of_relay(), &delivery.detail, now).await;
        let name = breaker::breaker_name(route.name, Some(tenant));
        self.report_sign(store, &name, route, sign.of_mail(), &delivery.detail, now).await;
    }

    /// Returns `true` if this refusal counts against the message rather than the relay. See
    /// [`CircuitBreaker::charges_message`].
    #[must_use]
    pub fn charges(&self, relay: &str, message: Uuid, class: AttemptClass) -> bool {
        self.cached_breaker(relay).breaker.charges_message(message, class)
    }

    fn count_refusal(&self, relay: &str, to: &str, ended: bool) -> RelayObservation {
        let refusals = self.cached_breaker(relay).breaker.refusals;
        let (recipient, domain) = (hash_tag(to), domain_tag(to));
        let mut seen = self.lock_cache();
        let run = seen.domains.entry(relay.to_owned()).or_default();
        run.count_message(domain);
        RelayObservation::Refused { recipient, domain, is_alone: run.is_alone(&refusals), ended }
    }

    /// We record only once that a relay serves several domains.
    async fn count_acceptance(&self, store: &dyn Store, relay: &str, to: &str, now: Timestamp) {
        let is_other = self.lock_cache().domains.entry(relay.to_owned()).or_default().count_message(domain_tag(to));
        if !is_other || self.cached_breaker(relay).breaker.refusals.is_mixed {
            return;
        }
        if let Err(error) =
            breakers::update_stored(store, &self.today, relay, None, now, CircuitBreaker::with_mixed_domains).await
        {
            tracing::warn!(relay, %error, "cannot record that relay has several domains");
        }
    }

    pub async fn give_up(&self, store: &dyn Store, route: &RelayRoute<'_>, now: Timestamp) {
        self.report_result(store, route, &WithdrawReason::Cancelled.into(), ("", false), now).await;
    }

    /// Returns when one of `names` may accept `message`, after an attempt failed because of its relay.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn again_at(
        &self,
        store: &dyn Store,
        names: &[String],
        tenant: Option<&str>,
        message: Uuid,
        now: Timestamp,
    ) -> Result<Timestamp, tidings_store::StoreError> {
        self.refresh(store).await?;
        let known = names.iter().filter(|name| self.by_name.contains_key(*name));
        let answers = known.map(|name| wait_until(&self.breakers_for(name, tenant), message, now).unwrap_or(now));
        Ok(answers.min().unwrap_or(now))
    }

    pub async fn close(&self) {
        join_all(self.by_name.values().map(|relay| relay.mailer.close())).await;
    }

    /// Skips a relay breaker opened by other tenants' email if this tenant is counted separately.
    fn breakers_for(&self, relay: &str, tenant: Option<&str>) -> Vec<(String, VersionedBreaker)> {
        let of_relay = Some((relay.to_owned(), self.cached_breaker(relay)));
        let is_of_others = |kept: &VersionedBreaker| {
            tenant.is_some() && kept.breaker.open.as_ref().is_some_and(|open| open.cause.is_about_mail())
        };
        let of_tenant = tenant.map(|tenant| breaker::breaker_name(relay, Some(tenant)));
        let of_tenant = of_tenant.map(|name| (name.clone(), self.cached_breaker(&name)));
        of_relay.filter(|(_, kept)| !is_of_others(kept)).into_iter().chain(of_tenant).collect()
    }

    async fn try_open(
        &self,
        store: &dyn Store,
        asked: &[(String, VersionedBreaker)],
        message: Uuid,
        now: Timestamp,
    ) -> Result<bool, tidings_store::StoreError> {
        for (name, kept) in asked {
            if let BreakerDecision::Try(next) = kept.breaker.admit_message(message, now)
                && !self.put(store, name, kept.revision, *next, None, now).await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn report_sign(
        &self,
        store: &dyn Store,
        name: &str,
        route: &RelayRoute<'_>,
        sign: RelayObservation,
        why: &str,
        now: Timestamp,
    ) {
        let seen = self.cached_breaker(name).breaker;
        let unremarkable = seen.open.is_none() && seen.failures == 0 && seen.refusals.in_a_row.is_empty();
        let waits = match sign {
            RelayObservation::Well(count) => self.add_successes(name, count) < SUCCESS_BATCH,
            RelayObservation::Nothing => true,
            RelayObservation::Works
            | RelayObservation::Bounced
            | RelayObservation::Refused { .. }
            | RelayObservation::Answered
            | RelayObservation::Fault(_) => false,
        };
        if waits && unremarkable {
            return;
        }
        if let Err(error) = self.record_sign(store, name, route, sign, why, now).await {
            tracing::warn!(breaker = name, %error, "cannot update circuit breaker");
        }
    }

    async fn record_sign(
        &self,
        store: &dyn Store,
        name: &str,
        route: &RelayRoute<'_>,
        sign: RelayObservation,
        why: &str,
        now: Timestamp,
    ) -> Result<(), tidings_store::StoreError> {
        let sign = match sign {
            // Take the count before writing, so no other task writes it again.
            RelayObservation::Well(_) => RelayObservation::Well(self.take_successes(name)),
            other => other,
        };
        let told = self.update_breaker(store, name, route, sign, why, now).await;
        if let (RelayObservation::Well(count), Ok(false) | Err(_)) = (sign, &told) {
            self.add_successes(name, count);
        }
        told.map(|_| ())
    }

    /// Updates by compare-and-set. Returns `false` if nothing changes, or the retries run out.
    async fn update_breaker(
        &self,
        store: &dyn Store,
        name: &str,
        route: &RelayRoute<'_>,
        sign: RelayObservation,
        why: &str,
        now: Timestamp,
    ) -> Result<bool, tidings_store::StoreError> {
        for _ in 0..CAS_RETRIES {
            let kept = self.today.breakers(store.breakers().await?).remove(name).unwrap_or_default();
            let Some(next) = kept.breaker.after_attempt(route.message, sign, why, now) else {
                self.remember(name, kept);
                return Ok(false);
            };
            let next = match (sign, &route.sender) {
                (RelayObservation::Fault(BreakerCause::Policy | BreakerCause::Configuration), Some(sender)) => {
                    next.for_sender(sender)
                }
                _ => next,
            };
            if self.put(store, name, kept.revision, next.clone(), None, now).await? {
                report(name, &kept.breaker, &next);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn add_successes(&self, name: &str, count: u32) -> u32 {
        let mut seen = self.lock_cache();
        let successes = seen.successes.entry(name.to_owned()).or_default();
        *successes = successes.saturating_add(count);
        *successes
    }

    fn take_successes(&self, name: &str) -> u32 {
        self.lock_cache().successes.remove(name).unwrap_or_default()
    }

    async fn put(
        &self,
        store: &dyn Store,
        name: &str,
        revision: u64,
        breaker: CircuitBreaker,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<bool, tidings_store::StoreError> {
        let kept = VersionedBreaker { revision: revision + 1, breaker };
        let put = store.put_breaker(name, &kept, entry, now).await?;
        if put {
            self.remember(name, kept);
        }
        Ok(put)
    }

    async fn refresh(&self, store: &dyn Store) -> Result<(), tidings_store::StoreError> {
        if self.lock_cache().read_at.is_some_and(|read_at| read_at.elapsed() < FRESH) {
            return Ok(());
        }
        let breakers = self.today.breakers(store.breakers().await?);
        metrics::fleet().set_breakers(self.by_name.keys(), &breakers);
        let mut seen = self.lock_cache();
        (seen.read_at, seen.breakers) = (Some(Instant::now()), breakers);
        Ok(())
    }

    fn cached_breaker(&self, name: &str) -> VersionedBreaker {
        self.lock_cache().breakers.get(name).cloned().unwrap_or_default()
    }

    fn remember(&self, name: &str, kept: VersionedBreaker) {
        if let (relay, None) = breaker::split_name(name) {
            metrics::fleet().set_relay(relay, kept.breaker.open.is_some());
        }
        let mut seen = self.lock_cache();
        let known = seen.breakers.entry(name.to_owned()).or_default();
        if known.revision < kept.revision {
            *known = kept;
        }
    }

    fn forget(&self) {
        self.lock_cache().read_at = None;
    }

    fn lock_awaited(&self) -> MutexGuard<'_, BTreeSet<Uuid>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_cache(&self) -> MutexGuard<'_, BreakerCache> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn domain_tag(address: &str) -> u32 {
    hash_tag(address.rsplit_once('@').map_or("", |(_, domain)| domain))
}

fn is_closed(asked: &[(String, VersionedBreaker)]) -> bool {
    asked.iter().all(|(_, kept)| kept.breaker.open.is_none())
}

/// Returns when to try these breakers again. `None` if each one is closed or lets the message probe.
fn wait_until(asked: &[(String, VersionedBreaker)], message: Uuid, now: Timestamp) -> Option<Timestamp> {
    let waits = asked.iter().filter_map(|(_, kept)| match kept.breaker.admit_message(message, now) {
        BreakerDecision::Go | BreakerDecision::Try(_) => None,
        BreakerDecision::Wait { until } => Some(until),
    });
    waits.max()
}

#[cfg(test)]
mod tests;
