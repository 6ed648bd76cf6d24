//! The relays in use: the choice of a relay for a message, the headers for its provider, and its breaker.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use tidings_mail::smtp::{AttemptOutcome, Limits, Mailer, Ready, Timeouts, Withdrawal};
use tidings_model::{
    Provider,
    breaker::{Answer, Breaker, Sign, VersionedBreaker},
    records::AuditEntry,
    settings::RelaySettings,
};
use tidings_store::Store;
use tokio::time::Instant;
use tracing::{Instrument, debug_span};
use uuid::Uuid;

use crate::metrics;
use change::{CAS_RETRIES, report};

mod bounced;
mod breaker_command;
mod change;
mod view;

pub(crate) use bounced::bounced;
pub use breaker_command::BreakerCommand;
pub use view::RelayView;

/// Age up to which a worker trusts the breakers that it has read.
const FRESH: Duration = Duration::from_secs(1);
/// Successes that are written together, so that not every message costs a write.
const SUCCESS_BATCH: u32 = 50;

/// The relays of the configuration. Their breakers are in the store, shared by all workers.
#[derive(Default)]
pub struct Relays {
    relays: BTreeMap<String, Relay>,
    seen: Mutex<BreakerCache>,
}

struct Relay {
    mailer: Mailer,
    provider: Provider,
    pool: Option<String>,
    /// Successes that are not written yet.
    successes: AtomicU32,
}

#[derive(Default)]
struct BreakerCache {
    read_at: Option<Instant>,
    breakers: BTreeMap<String, VersionedBreaker>,
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
    message: Uuid,
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

    /// Returns whether the relay drops a second copy of a message.
    #[must_use]
    pub fn deduplicates(&self) -> bool {
        self.relay.provider.deduplicates()
    }

    /// Calls [`Mailer::offer`] with the provider's headers in front of the stored bytes.
    ///
    /// # Errors
    /// The outcome of the attempt.
    pub async fn offer(&self, from: &str, to: &str, bytes: &[u8]) -> Result<Ready, AttemptOutcome> {
        let headers = self.relay.provider.headers(self.message, self.relay.pool.as_deref());
        let span = debug_span!("smtp", relay = self.name, message = %self.message);
        if headers.is_empty() {
            return self.relay.mailer.offer(from, to, bytes).instrument(span).await;
        }
        self.relay.mailer.offer(from, to, &[headers.as_bytes(), bytes].concat()).instrument(span).await
    }
}

impl Relays {
    /// Prepares for each relay and opens no connection.
    ///
    /// # Errors
    /// See [`Mailer::new`].
    pub fn new(settings: &BTreeMap<String, RelaySettings>, timeouts: Timeouts) -> Result<Self, tidings_mail::Error> {
        let relays = settings.iter().map(|(name, settings)| {
            let limits = Limits { messages: settings.per_connection, ..Limits::default() };
            let mailer = Mailer::new(settings.relay.clone(), limits, timeouts)?;
            let RelaySettings { provider, pool, .. } = settings.clone();
            Ok((name.clone(), Relay { mailer, provider, pool, successes: AtomicU32::new(0) }))
        });
        Ok(Self { relays: relays.collect::<Result<_, _>>()?, seen: Mutex::default() })
    }

    /// Returns the route by this relay, even if its breaker is open. `None` if the relay is not configured.
    #[must_use]
    pub fn route(&self, name: &str, message: Uuid) -> Option<Route<'_>> {
        self.relays.get_key_value(name).map(|(name, relay)| Route { name, relay, message })
    }

    /// The first of `names` that takes `message` now.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn choose(
        &self,
        store: &dyn Store,
        names: &[String],
        message: Uuid,
        now: Timestamp,
    ) -> Result<Choice<'_>, tidings_store::Error> {
        self.refresh(store).await?;
        let (mut until, mut why) = (Timestamp::MAX, Vec::new());
        for (name, relay) in names.iter().filter_map(|name| self.relays.get_key_value(name)) {
            let kept = self.seen(name);
            match kept.breaker.ask(message, now) {
                Answer::Go => return Ok(Choice::By(Route { name, relay, message })),
                Answer::Try(next) => {
                    if self.put(store, name, kept.revision, next, None, now).await? {
                        return Ok(Choice::By(Route { name, relay, message }));
                    }
                    // Another message was faster: ask again at once.
                    self.forget();
                    until = now;
                }
                Answer::Wait { until: again } => until = until.min(again),
            }
            let left_alone = kept.breaker.open.map(|open| format!("{name}: {}: {}", open.cause.name(), open.why));
            why.extend(left_alone);
        }
        let none = || format!("none of the relays {} is configured", names.join(", "));
        Ok(Choice::Wait { until, why: if why.is_empty() { none() } else { why.join("; ") } })
    }

    /// Reports the outcome of an attempt to the breaker of its relay. A report that the store cannot take is lost, because the
    /// next attempt reports the same.
    pub async fn report_result(&self, store: &dyn Store, route: &Route<'_>, delivery: &AttemptOutcome, now: Timestamp) {
        let successes = match Sign::of(delivery.phase, delivery.class, delivery.reply.is_some()) {
            Sign::Well(count) => route.relay.successes.fetch_add(count, Ordering::Relaxed) + count,
            _ => 0,
        };
        let seen = self.seen(route.name).breaker;
        let unremarkable = seen.open.is_none() && seen.failures == 0;
        if (1..SUCCESS_BATCH).contains(&successes) && unremarkable {
            return;
        }
        if let Err(error) = self.note(store, route, delivery, now).await {
            tracing::warn!(relay = route.name, %error, "what an attempt says of its relay cannot be recorded");
        }
    }

    /// Lets another message probe the relay, because this message did not.
    pub async fn give_up(&self, store: &dyn Store, route: &Route<'_>, now: Timestamp) {
        if self.seen(route.name).breaker.open.is_some() {
            self.report_result(store, route, &Withdrawal::Cancelled.into(), now).await;
        }
    }

    /// Returns the time at which one of `names` may take `message`, after an attempt that failed because of the relay.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn again_at(
        &self,
        store: &dyn Store,
        names: &[String],
        message: Uuid,
        now: Timestamp,
    ) -> Result<Timestamp, tidings_store::Error> {
        self.refresh(store).await?;
        let answers = names.iter().filter(|name| self.relays.contains_key(*name)).map(|name| {
            match self.seen(name).breaker.ask(message, now) {
                Answer::Go | Answer::Try(_) => now,
                Answer::Wait { until } => until,
            }
        });
        Ok(answers.min().unwrap_or(now))
    }

    /// Closes the connections to each relay.
    pub async fn close(&self) {
        join_all(self.relays.values().map(|relay| relay.mailer.close())).await;
    }

    async fn note(
        &self,
        store: &dyn Store,
        route: &Route<'_>,
        delivery: &AttemptOutcome,
        now: Timestamp,
    ) -> Result<(), tidings_store::Error> {
        let sign = match Sign::of(delivery.phase, delivery.class, delivery.reply.is_some()) {
            // Taking the count before the write keeps other tasks from writing it again.
            Sign::Well(_) => Sign::Well(route.relay.successes.swap(0, Ordering::Relaxed)),
            other => other,
        };
        let told = self.tell(store, route, sign, &delivery.detail, now).await;
        if let (Sign::Well(count), Ok(false) | Err(_)) = (sign, &told) {
            route.relay.successes.fetch_add(count, Ordering::Relaxed);
        }
        told.map(|_| ())
    }

    /// Reads, decides and writes, and repeats if another worker wrote first. Returns `false` if nothing changes, or if the
    /// retries run out.
    async fn tell(
        &self,
        store: &dyn Store,
        route: &Route<'_>,
        sign: Sign,
        why: &str,
        now: Timestamp,
    ) -> Result<bool, tidings_store::Error> {
        for _ in 0..CAS_RETRIES {
            let kept = store.breakers().await?.remove(route.name).unwrap_or_default();
            let Some(next) = kept.breaker.after(route.message, sign, why, now) else {
                self.remember(route.name, kept);
                return Ok(false);
            };
            if self.put(store, route.name, kept.revision, next.clone(), None, now).await? {
                report(route.name, &kept.breaker, &next);
                return Ok(true);
            }
        }
        Ok(false)
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
        let breakers = store.breakers().await?;
        metrics::fleet().breakers(self.relays.keys(), &breakers);
        *self.lock() = BreakerCache { read_at: Some(Instant::now()), breakers };
        Ok(())
    }

    fn seen(&self, name: &str) -> VersionedBreaker {
        self.lock().breakers.get(name).cloned().unwrap_or_default()
    }

    fn remember(&self, name: &str, kept: VersionedBreaker) {
        metrics::fleet().relay(name, kept.breaker.open.is_some());
        let mut seen = self.lock();
        let known = seen.breakers.entry(name.to_owned()).or_default();
        if known.revision < kept.revision {
            *known = kept;
        }
    }

    fn forget(&self) {
        self.lock().read_at = None;
    }

    fn lock(&self) -> MutexGuard<'_, BreakerCache> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tidings_mail::smtp::{Reply, SmtpEvent, classify};
    use tidings_model::{attempt::Phase, breaker::Cause};

    use super::*;

    #[test]
    fn an_attempt_says_of_its_relay_what_its_class_says() {
        let delivered = |phase, event: SmtpEvent| AttemptOutcome {
            phase,
            class: classify(phase, &event),
            detail: String::new(),
            reply: if let SmtpEvent::Reply(reply) = event { Some(reply) } else { None },
        };
        let replied = |phase, code, text: &str| delivered(phase, SmtpEvent::Reply(Reply::new(code, text)));
        for (delivery, sign) in [
            (replied(Phase::Dot, 250, "2.0.0 ok"), Sign::Well(1)),
            (replied(Phase::Rcpt, 550, "5.1.1 no"), Sign::Bounced),
            (replied(Phase::Rcpt, 550, "5.7.1 no"), Sign::Fault(Cause::Policy)),
            (replied(Phase::Auth, 535, "5.7.8 no"), Sign::Fault(Cause::Configuration)),
            (replied(Phase::Dot, 454, "Throttling failure"), Sign::Fault(Cause::Throttled)),
            (delivered(Phase::Connect, SmtpEvent::Lost), Sign::Fault(Cause::Outage)),
            (delivered(Phase::Tls, SmtpEvent::NoTls), Sign::Fault(Cause::Outage)),
            (replied(Phase::Greeting, 421, "4.3.2 no"), Sign::Fault(Cause::Outage)),
            (replied(Phase::Rcpt, 451, "4.3.0 later"), Sign::Answered),
            (replied(Phase::Rcpt, 552, "5.2.2 full"), Sign::Answered),
            (delivered(Phase::Body, SmtpEvent::Lost), Sign::Nothing),
            (delivered(Phase::Dot, SmtpEvent::Silent), Sign::Nothing),
            (delivered(Phase::Rcpt, SmtpEvent::NotRepresentable), Sign::Nothing),
        ] {
            let said = Sign::of(delivery.phase, delivery.class, delivery.reply.is_some());
            assert_eq!(said, sign, "{delivery:?}");
        }
    }
}
