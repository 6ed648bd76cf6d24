//! The relays in use: the choice of a relay for a message, the headers for its provider, and the breakers: that of the relay, and for
//! the mail of a tenant with a table one more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tidings_mail::smtp::{AttemptOutcome, Lane, Limits, Mailer, Ready, Slot, Timeouts, Withdrawal};
use tidings_model::{
    Provider, RelaysToday,
    attempt::AttemptClass,
    breaker::{self, Answer, Breaker, Cause, DomainRun, Sign, VersionedBreaker, tag},
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
pub use breakers::reported;
use breakers::{CAS_RETRIES, report};
pub use view::{ExplainedRefusal, RelayView};

/// Age up to which a worker trusts the breakers that it has read.
const FRESH: Duration = Duration::from_secs(1);
/// The longest wait for a connection where another relay would take the message.
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
/// Successes that are written together, so that not every message costs a write.
const SUCCESS_BATCH: u32 = 50;

/// The relays of the configuration. Their breakers are in the store, shared by all workers.
#[derive(Default)]
pub struct Relays {
    by_name: BTreeMap<String, Relay>,
    today: RelaysToday,
    seen: Mutex<BreakerCache>,
    /// Messages past the dot, with an attempt of this process whose end is not recorded.
    awaited: Mutex<BTreeSet<Uuid>>,
}

/// While it lives, this process has an attempt of the message that is past the dot.
pub struct AwaitedReply<'a> {
    relays: &'a Relays,
    message: Uuid,
}

impl Drop for AwaitedReply<'_> {
    fn drop(&mut self) {
        self.relays.awaited().remove(&self.message);
    }
}

struct Relay {
    mailer: Mailer,
    provider: Provider,
    pool: Option<String>,
    reply_time: Duration,
}

#[derive(Default)]
struct BreakerCache {
    read_at: Option<Instant>,
    breakers: BTreeMap<String, VersionedBreaker>,
    /// Successes that are not written yet, by breaker.
    successes: BTreeMap<String, u32>,
    /// The domains of the latest messages, by relay.
    domains: BTreeMap<String, DomainRun>,
}

/// The relay that takes a message, if one does.
pub enum Choice<'a> {
    /// This relay.
    By(Route<'a>),
    /// No relay now.
    Wait {
        /// The time to ask again.
        until: Timestamp,
        /// The reason for each open breaker.
        why: String,
    },
}

/// A relay chosen for a message. The caller reports the outcome of the attempt to [`Relays::report_result`].
pub struct Route<'a> {
    name: &'a str,
    relay: &'a Relay,
    /// The tenant, if its bounces and complaints count apart.
    tenant: Option<String>,
    message: Uuid,
    /// The sender of its stream, where that is known.
    sender: Option<String>,
    /// Another relay would take the message, too.
    has_alternative: bool,
}

impl Route<'_> {
    /// The relay's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> Uuid {
        self.message
    }

    /// [`Mailer::check`].
    ///
    /// # Errors
    /// The phase in which the check ended, and the reason.
    pub async fn check(&self) -> Result<bool, AttemptOutcome> {
        self.relay.mailer.check().instrument(debug_span!("smtp", relay = self.name, message = %self.message)).await
    }

    /// The same route for a message of a tenant, if its bounces and complaints count apart.
    #[must_use]
    pub fn of_tenant(self, tenant: Option<&str>) -> Self {
        Self { tenant: tenant.map(str::to_owned), ..self }
    }

    /// The same route for a message of this sender. A breaker that it opens remembers the sender.
    #[must_use]
    pub fn for_sender(self, sender: String) -> Self {
        Self { sender: Some(sender), ..self }
    }

    /// Returns whether the relay drops a second copy of a message.
    #[must_use]
    pub fn deduplicates(&self) -> bool {
        self.remembers().is_some()
    }

    /// See [`Provider::remembers`](tidings_model::Provider::remembers).
    #[must_use]
    pub fn remembers(&self) -> Option<SignedDuration> {
        self.relay.provider.remembers()
    }

    /// Another relay would take the message, too.
    #[must_use]
    pub const fn has_alternative(&self) -> bool {
        self.has_alternative
    }

    /// Waits for a slot among the relay's connections, for a message to this address. `None` once the relays are closed.
    pub fn slot(&self, lane: Lane, to: &str) -> impl Future<Output = Option<Slot>> + use<> {
        let patience = self.has_alternative.then_some(CONNECT_PATIENCE);
        let slot = self.relay.mailer.slot(lane, to);
        async move { Some(slot.await?.with_patience(patience)) }
    }

    /// Calls [`Slot::offer`] with the provider's headers in front of the stored bytes.
    ///
    /// # Errors
    /// The outcome of the attempt.
    pub async fn offer(&self, slot: Slot, from: &str, to: &str, bytes: &[u8]) -> Result<Ready, AttemptOutcome> {
        let headers = self.relay.provider.headers(self.message, self.relay.pool.as_deref());
        let span = debug_span!("smtp", relay = self.name, message = %self.message);
        if headers.is_empty() {
            return slot.offer(from, to, bytes).instrument(span).await;
        }
        slot.offer(from, to, &[headers.as_bytes(), bytes].concat()).instrument(span).await
    }
}

impl Relays {
    /// Prepares for each relay and opens no connection.
    ///
    /// # Errors
    /// See [`Mailer::new`].
    pub fn new(settings: &BTreeMap<String, RelaySettings>, timeouts: Timeouts) -> Result<Self, tidings_mail::Error> {
        let relays = settings.iter().map(|(name, settings)| {
            let RelaySettings { per_connection: messages, connections, .. } = *settings;
            let limits = Limits { messages, connections, ..Limits::default() };
            let RelaySettings { provider, pool, reply_timeout, .. } = settings.clone();
            let timeouts = Timeouts { dot: reply_timeout.unwrap_or(timeouts.dot), ..timeouts };
            let mailer = Mailer::new(settings.relay.clone(), limits, timeouts)?;
            Ok((name.clone(), Relay { mailer, provider, pool, reply_time: timeouts.reply_time() }))
        });
        let today = RelaysToday::named(settings.keys());
        let by_name = relays.collect::<Result<_, _>>()?;
        Ok(Self { by_name, today, seen: Mutex::default(), awaited: Mutex::default() })
    }

    /// The same relays with the names that they had, and with who sends by them, so that breakers of former names and senders are known.
    #[must_use]
    pub fn for_settings(self, settings: &Settings) -> Self {
        Self { today: RelaysToday::of(settings), ..self }
    }

    /// Says that an attempt of this process is past the dot, until the answer is dropped.
    pub fn await_reply(&self, message: Uuid) -> AwaitedReply<'_> {
        self.awaited().insert(message);
        AwaitedReply { relays: self, message }
    }

    /// Reports if an attempt of this process is past the dot, and its end is not recorded. The time for the reply may be over where the
    /// process was frozen; then it is read now.
    pub fn awaits_reply(&self, message: Uuid) -> bool {
        self.awaited().contains(&message)
    }

    /// The longest time from the record that an attempt is past the dot to the relay's reply. An attempt may be by a relay that an earlier
    /// file named, so it is the longest of all relays.
    #[must_use]
    pub fn reply_time(&self) -> Duration {
        self.by_name.values().map(|relay| relay.reply_time).max().unwrap_or_default()
    }

    /// Reports if this is the relay of a route, under the name that it has or had.
    #[must_use]
    pub fn has(&self, route: &Route<'_>, name: &str) -> bool {
        self.today.name_of(name) == route.name
    }

    /// Returns the route by this relay, even if its breaker is open. `None` if the relay is not configured.
    #[must_use]
    pub fn route(&self, name: &str, message: Uuid) -> Option<Route<'_>> {
        self.by_name.get_key_value(self.today.name_of(name)).map(|(name, relay)| Route {
            name,
            relay,
            tenant: None,
            message,
            sender: None,
            has_alternative: false,
        })
    }

    /// The first of `names` that takes `message` now. `tenant` is that of the message, if its bounces and complaints count apart.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn choose(
        &self,
        store: &dyn Store,
        names: &[String],
        tenant: Option<&str>,
        message: Uuid,
        now: Timestamp,
    ) -> Result<Choice<'_>, tidings_store::Error> {
        self.refresh(store).await?;
        let (mut until, mut why) = (Timestamp::MAX, Vec::new());
        let mut named = names.iter().filter_map(|name| self.by_name.get_key_value(name));
        while let Some((name, relay)) = named.next() {
            let asked = self.asked(name, tenant);
            let wait = wait(&asked, message, now);
            if wait.is_none() {
                if self.try_open(store, &asked, message, now).await? {
                    let tenant_name = tenant.map(str::to_owned);
                    let has_alternative = named.any(|(name, _)| is_closed(&self.asked(name, tenant)));
                    return Ok(Choice::By(Route {
                        name,
                        relay,
                        tenant: tenant_name,
                        message,
                        sender: None,
                        has_alternative,
                    }));
                }
                // Another message was faster: ask again at once.
                self.forget();
            }
            until = until.min(wait.unwrap_or(now));
            let open = asked.into_iter().filter_map(|(name, kept)| Some((name, kept.breaker.open?)));
            why.extend(open.map(|(name, open)| format!("{name}: {}: {}", open.cause.name(), open.why)));
        }
        let none = || format!("none of the relays {} is configured", names.join(", "));
        Ok(Choice::Wait { until, why: if why.is_empty() { none() } else { why.join("; ") } })
    }

    /// Reports the outcome of an attempt to the breaker of its relay, and to that of its tenant. `to` is the recipient's address, and
    /// `ended` says if the message ended with the attempt. A report that the store cannot take is lost, because the next attempt reports
    /// the same.
    pub async fn report_result(
        &self,
        store: &dyn Store,
        route: &Route<'_>,
        delivery: &AttemptOutcome,
        (to, ended): (&str, bool),
        now: Timestamp,
    ) {
        let sign = Sign::of(delivery.phase, delivery.class, delivery.reply.is_some(), delivery.refusal());
        let sign = match sign {
            Sign::Well(_) => {
                self.mixes(store, route.name, to, now).await;
                sign
            }
            _ if delivery.class.is_refusal() => self.refused(route.name, to, ended),
            _ => sign,
        };
        let Some(tenant) = &route.tenant else {
            return self.report_sign(store, route.name, route, sign, &delivery.detail, now).await;
        };
        self.report_sign(store, route.name, route, sign.of_relay(), &delivery.detail, now).await;
        let name = breaker::name(route.name, Some(tenant));
        self.report_sign(store, &name, route, sign.of_mail(), &delivery.detail, now).await;
    }

    /// Reports if the message pays for a refusal of this class by the relay. See [`Breaker::charges`].
    #[must_use]
    pub fn charges(&self, relay: &str, message: Uuid, class: AttemptClass) -> bool {
        self.seen(relay).breaker.charges(message, class)
    }

    /// Counts a refused recipient.
    fn refused(&self, relay: &str, to: &str, ended: bool) -> Sign {
        let refusals = self.seen(relay).breaker.refusals;
        let (recipient, domain) = (tag(to), domain(to));
        let mut seen = self.lock();
        let run = seen.domains.entry(relay.to_owned()).or_default();
        run.count(domain);
        Sign::Refused { recipient, domain, is_alone: run.is_alone(&refusals), ended }
    }

    /// Counts an accepted recipient. That a relay has messages to several domains is written once.
    async fn mixes(&self, store: &dyn Store, relay: &str, to: &str, now: Timestamp) {
        let is_other = self.lock().domains.entry(relay.to_owned()).or_default().count(domain(to));
        if !is_other || self.seen(relay).breaker.refusals.is_mixed {
            return;
        }
        if let Err(error) = breakers::change(store, &self.today, relay, None, now, Breaker::mixed).await {
            tracing::warn!(relay, %error, "that a relay has several domains cannot be recorded");
        }
    }

    /// Lets another message probe the relay, because this message did not.
    pub async fn give_up(&self, store: &dyn Store, route: &Route<'_>, now: Timestamp) {
        self.report_result(store, route, &Withdrawal::Cancelled.into(), ("", false), now).await;
    }

    /// Returns the time at which one of `names` may take `message`, after an attempt that failed because of the relay.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn again_at(
        &self,
        store: &dyn Store,
        names: &[String],
        tenant: Option<&str>,
        message: Uuid,
        now: Timestamp,
    ) -> Result<Timestamp, tidings_store::Error> {
        self.refresh(store).await?;
        let known = names.iter().filter(|name| self.by_name.contains_key(*name));
        let answers = known.map(|name| wait(&self.asked(name, tenant), message, now).unwrap_or(now));
        Ok(answers.min().unwrap_or(now))
    }

    /// Closes the connections to each relay.
    pub async fn close(&self) {
        join_all(self.by_name.values().map(|relay| relay.mailer.close())).await;
    }

    /// The breakers that a message asks for a relay. What is about the mail of others does not concern a tenant with counts of its own.
    fn asked(&self, relay: &str, tenant: Option<&str>) -> Vec<(String, VersionedBreaker)> {
        let of_relay = Some((relay.to_owned(), self.seen(relay)));
        let is_of_others = |kept: &VersionedBreaker| {
            tenant.is_some() && kept.breaker.open.as_ref().is_some_and(|open| open.cause.is_about_mail())
        };
        let of_tenant = tenant.map(|tenant| breaker::name(relay, Some(tenant)));
        let of_tenant = of_tenant.map(|name| (name.clone(), self.seen(&name)));
        of_relay.filter(|(_, kept)| !is_of_others(kept)).into_iter().chain(of_tenant).collect()
    }

    /// Makes the message the probe of each of these breakers that is open. `false`: another message is.
    async fn try_open(
        &self,
        store: &dyn Store,
        asked: &[(String, VersionedBreaker)],
        message: Uuid,
        now: Timestamp,
    ) -> Result<bool, tidings_store::Error> {
        for (name, kept) in asked {
            if let Answer::Try(next) = kept.breaker.ask(message, now)
                && !self.put(store, name, kept.revision, *next, None, now).await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports a sign to a breaker. Successes of a closed one are written in batches.
    async fn report_sign(
        &self,
        store: &dyn Store,
        name: &str,
        route: &Route<'_>,
        sign: Sign,
        why: &str,
        now: Timestamp,
    ) {
        let seen = self.seen(name).breaker;
        let unremarkable = seen.open.is_none() && seen.failures == 0 && seen.refusals.in_a_row.is_empty();
        let waits = match sign {
            Sign::Well(count) => self.add_successes(name, count) < SUCCESS_BATCH,
            Sign::Nothing => true,
            Sign::Works | Sign::Bounced | Sign::Refused { .. } | Sign::Answered | Sign::Fault(_) => false,
        };
        if waits && unremarkable {
            return;
        }
        if let Err(error) = self.note(store, name, route, sign, why, now).await {
            tracing::warn!(breaker = name, %error, "what an attempt says of its relay cannot be recorded");
        }
    }

    async fn note(
        &self,
        store: &dyn Store,
        name: &str,
        route: &Route<'_>,
        sign: Sign,
        why: &str,
        now: Timestamp,
    ) -> Result<(), tidings_store::Error> {
        let sign = match sign {
            // Taking the count before the write keeps other tasks from writing it again.
            Sign::Well(_) => Sign::Well(self.take_successes(name)),
            other => other,
        };
        let told = self.tell(store, name, route, sign, why, now).await;
        if let (Sign::Well(count), Ok(false) | Err(_)) = (sign, &told) {
            self.add_successes(name, count);
        }
        told.map(|_| ())
    }

    /// Reads, decides and writes, and repeats if another worker wrote first. Returns `false` if nothing changes, or if the
    /// retries run out.
    async fn tell(
        &self,
        store: &dyn Store,
        name: &str,
        route: &Route<'_>,
        sign: Sign,
        why: &str,
        now: Timestamp,
    ) -> Result<bool, tidings_store::Error> {
        for _ in 0..CAS_RETRIES {
            let kept = self.today.breakers(store.breakers().await?).remove(name).unwrap_or_default();
            let Some(next) = kept.breaker.after(route.message, sign, why, now) else {
                self.remember(name, kept);
                return Ok(false);
            };
            let next = match (sign, &route.sender) {
                (Sign::Fault(Cause::Policy | Cause::Configuration), Some(sender)) => next.for_sender(sender),
                _ => next,
            };
            if self.put(store, name, kept.revision, next.clone(), None, now).await? {
                report(name, &kept.breaker, &next);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the successes of a breaker that are not written yet, with these.
    fn add_successes(&self, name: &str, count: u32) -> u32 {
        let mut seen = self.lock();
        let successes = seen.successes.entry(name.to_owned()).or_default();
        *successes = successes.saturating_add(count);
        *successes
    }

    fn take_successes(&self, name: &str) -> u32 {
        self.lock().successes.remove(name).unwrap_or_default()
    }

    async fn put(
        &self,
        store: &dyn Store,
        name: &str,
        revision: u64,
        breaker: Breaker,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<bool, tidings_store::Error> {
        let kept = VersionedBreaker { revision: revision + 1, breaker };
        let put = store.put_breaker(name, &kept, entry, now).await?;
        if put {
            self.remember(name, kept);
        }
        Ok(put)
    }

    async fn refresh(&self, store: &dyn Store) -> Result<(), tidings_store::Error> {
        if self.lock().read_at.is_some_and(|read_at| read_at.elapsed() < FRESH) {
            return Ok(());
        }
        let breakers = self.today.breakers(store.breakers().await?);
        metrics::fleet().breakers(self.by_name.keys(), &breakers);
        let mut seen = self.lock();
        (seen.read_at, seen.breakers) = (Some(Instant::now()), breakers);
        Ok(())
    }

    fn seen(&self, name: &str) -> VersionedBreaker {
        self.lock().breakers.get(name).cloned().unwrap_or_default()
    }

    fn remember(&self, name: &str, kept: VersionedBreaker) {
        if let (relay, None) = breaker::parts(name) {
            metrics::fleet().relay(relay, kept.breaker.open.is_some());
        }
        let mut seen = self.lock();
        let known = seen.breakers.entry(name.to_owned()).or_default();
        if known.revision < kept.revision {
            *known = kept;
        }
    }

    fn forget(&self) {
        self.lock().read_at = None;
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeSet<Uuid>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BreakerCache> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The domain of an address, without its name.
fn domain(address: &str) -> u32 {
    tag(address.rsplit_once('@').map_or("", |(_, domain)| domain))
}

fn is_closed(asked: &[(String, VersionedBreaker)]) -> bool {
    asked.iter().all(|(_, kept)| kept.breaker.open.is_none())
}

/// Returns the time to ask all of these breakers again; `None`: each lets the message go or try.
fn wait(asked: &[(String, VersionedBreaker)], message: Uuid, now: Timestamp) -> Option<Timestamp> {
    let waits = asked.iter().filter_map(|(_, kept)| match kept.breaker.ask(message, now) {
        Answer::Go | Answer::Try(_) => None,
        Answer::Wait { until } => Some(until),
    });
    waits.max()
}

#[cfg(test)]
mod tests;
