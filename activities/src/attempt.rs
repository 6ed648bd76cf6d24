//! One attempt to deliver a message of the outbox, for digests and single messages alike.
//!
//! The store fences attempts: each one takes the next number, and only the latest may send the final dot (rule 26).

use std::{pin::pin, time::Duration};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tidings_mail::smtp::{AttemptOutcome, Withdrawal};
use tidings_model::{
    attempt::{AttemptClass, Phase},
    records::{AttemptRecord, AttemptStart, FirstAttempt, Message, Unattempted},
    settings::{Guarantee, Stream},
    step::{Closed, Sent},
};
use tidings_store::Store;
use uuid::Uuid;

use crate::{
    alert,
    cancellable::Cancellable,
    deps::Deps,
    error::Error,
    metrics,
    relays::{Choice, Relays, Route},
};

mod verdict;

use verdict::{RetryContext, Verdict, verdict, withheld};

/// The age up to which a relay that drops second copies knows the first copy. Resend says 24 hours, Mailjet does not say.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(23);

/// The wait before the next try to record the end of an attempt.
const RECORD_AGAIN: Duration = Duration::from_millis(500);

/// The message that follows one that the relay finds too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shorter {
    /// None is possible.
    Never,
    /// The outbox has it.
    Stored,
    /// The workflow has it made, for the attempt of this number.
    Asked(u32),
}

/// A message of the outbox that is to be delivered.
pub(crate) struct Outgoing<'a> {
    pub store: &'a dyn Store,
    pub relays: &'a Relays,
    pub stream: &'a Stream,
    /// The tenant, if its bounces and complaints count apart.
    pub tenant: Option<&'a str>,
    /// See [`Settings::soft_bounces`](tidings_model::settings::Settings::soft_bounces).
    pub soft_bounces: u32,
    /// The id in the outbox.
    pub id: Uuid,
    /// No attempt follows a failure of this one.
    pub last: bool,
    pub now: Timestamp,
}

/// The answer of [`Outgoing::begin`].
pub(crate) enum Beginning<'a> {
    /// The attempt is recorded. Transmit the message next.
    Begun(DeliveryAttempt<'a>),
    /// No attempt is made now: every relay is left alone, or the message has ended.
    NotBegun(Sent),
}

/// An attempt that is under way.
pub(crate) struct DeliveryAttempt<'a> {
    outgoing: Outgoing<'a>,
    route: Route<'a>,
    pub number: u32,
    /// Set if the ledger hears of the attempt when it comes to its dot, or ends.
    first: Option<FirstAttempt>,
    pub message: Box<Message>,
    had_ambiguous_attempt: bool,
}

impl<'a> Outgoing<'a> {
    /// The message `id` of a tenant in a stream.
    pub fn new(deps: &'a Deps, tenant: &str, stream: &'a Stream, id: Uuid, last: bool, now: Timestamp) -> Self {
        let (soft_bounces, tenant) = (deps.settings.soft_bounces, deps.settings.with_table(tenant));
        Self { store: &*deps.store, relays: &deps.relays, stream, tenant, soft_bounces, id, last, now }
    }

    /// Chooses a relay for the first attempt. [`transmit`](DeliveryAttempt::transmit) records the attempt with its dot: one write for two.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn begin_first(self, unattempted: Unattempted) -> Result<Beginning<'a>, Error> {
        let route = match self.route().await? {
            Ok(route) => route,
            Err(waiting) => return Ok(Beginning::NotBegun(waiting)),
        };
        let Unattempted { message, epoch } = unattempted;
        let first = FirstAttempt {
            message: self.id,
            relay: route.name().to_owned(),
            begun_at: self.now,
            epoch,
            nonce: Uuid::new_v4(),
        };
        let (first, message) = (Some(first), Box::new(message));
        let had_ambiguous_attempt = false;
        Ok(Beginning::Begun(DeliveryAttempt {
            outgoing: self,
            route,
            number: 1,
            first,
            message,
            had_ambiguous_attempt,
        }))
    }

    /// The relay for an attempt, or the answer while none may be used.
    async fn route(&self) -> Result<Result<Route<'a>, Sent>, Error> {
        let Self { store, relays, stream, tenant, id, now, .. } = self;
        Ok(match relays.choose(*store, &stream.relays, *tenant, *id, *now).await? {
            Choice::By(route) => Ok(route),
            Choice::Wait { until, why } => Err(Sent::Waiting { until, why, pause: None, too_large: None }),
        })
    }

    /// Chooses a relay and records that an attempt begins.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn begin(self) -> Result<Beginning<'a>, Error> {
        let Self { store, id, now, .. } = self;
        let route = match self.route().await? {
            Ok(route) => route,
            Err(waiting) => return Ok(Beginning::NotBegun(waiting)),
        };
        let (number, ambiguous, had_ambiguous_attempt, message) =
            match store.begin_attempt(id, route.name(), now).await? {
                AttemptStart::Proceed { number, ambiguous, had_ambiguous_attempt, message } => {
                    (number, ambiguous, had_ambiguous_attempt, message)
                }
                AttemptStart::Closed(closed) => return Ok(self.give_up(&route, closed).await),
            };
        if ambiguous > 0 && !self.may_resend(&route, ambiguous).await? {
            let (end, closed) = withheld();
            store.end_attempt(id, number, &end, now).await?;
            alert::ended(id, &message.origin, &closed);
            return Ok(self.give_up(&route, closed).await);
        }
        let first = None;
        Ok(Beginning::Begun(DeliveryAttempt { outgoing: self, route, number, first, message, had_ambiguous_attempt }))
    }

    async fn give_up(&self, route: &Route<'_>, closed: Closed) -> Beginning<'a> {
        self.relays.give_up(self.store, route, self.now).await;
        Beginning::NotBegun(Sent::closed(closed))
    }

    /// `true` if a second copy does no harm (rule 26): the stream is `at_least_once`, or the relay that may have the first
    /// copy still drops the second. `latest` counts the ambiguous attempts since an operator last allowed a repeat.
    async fn may_resend(&self, route: &Route<'_>, latest: u32) -> Result<bool, tidings_store::Error> {
        if self.stream.guarantee == Guarantee::AtLeastOnce || !route.deduplicates() {
            return Ok(self.stream.guarantee == Guarantee::AtLeastOnce);
        }
        let ambiguous = |attempt: &AttemptRecord| attempt.class == Some(AttemptClass::Ambiguous);
        let remembered = |attempt: &AttemptRecord| {
            let recent = attempt.past_the_dot_at.is_some_and(|at| self.now.duration_since(at) < REMEMBERED);
            recent && attempt.relay == route.name()
        };
        let attempts = self.store.attempts(self.id).await?;
        let latest = usize::try_from(latest).unwrap_or(usize::MAX);
        Ok(attempts.iter().rev().filter(|attempt| ambiguous(attempt)).take(latest).all(remembered))
    }
}

impl DeliveryAttempt<'_> {
    /// Sends the message up to the final dot, records that the dot follows, and sends the dot.
    ///
    /// Dropping the future after the dot leaves the attempt ambiguous, as a crash does.
    pub async fn transmit(&self, cancelled: impl Future<Output = ()>) -> AttemptOutcome {
        let Message { id, envelope_from, envelope_to, bytes, .. } = &*self.message;
        let mut cancelled = pin!(cancelled);
        let offered = tokio::select! {
            offered = self.route.offer(envelope_from, envelope_to, bytes) => offered,
            () = &mut cancelled => return Withdrawal::Cancelled.into(),
        };
        let ready = match offered {
            Ok(ready) => ready,
            Err(delivery) => return delivery,
        };
        let Outgoing { store, now, .. } = self.outgoing;
        let recorded = match &self.first {
            Some(first) => store.first_past_the_dot(first, now).await,
            None => store.past_the_dot(*id, self.number, now).await,
        };
        match recorded {
            // A cancel that came while the store recorded.
            Ok(true) if cancelled.now_or_never().is_some() => ready.withdraw(Withdrawal::Cancelled),
            Ok(true) => ready.dot().await,
            Ok(false) => ready.withdraw(Withdrawal::Fenced),
            Err(error) => ready.withdraw(Withdrawal::Unrecorded(error.to_string())),
        }
    }

    /// Records the end of the attempt, reports it to the relay's breaker, and answers with what follows. `shorter` says if a
    /// shorter message follows one that is too large.
    ///
    /// # Errors
    /// The store cannot answer, or a later attempt has begun.
    pub async fn finish(&self, delivery: &AttemptOutcome, shorter: Shorter) -> Result<Cancellable<Sent>, Error> {
        let Outgoing { store, relays, stream, tenant, soft_bounces, id, last, now } = self.outgoing;
        let may_resend = stream.guarantee == Guarantee::AtLeastOnce || self.route.deduplicates();
        let had_ambiguous_attempt = self.had_ambiguous_attempt;
        let context = RetryContext { may_resend, shorter, last, had_ambiguous_attempt, soft_bounces };
        let verdict = verdict(delivery, &self.message, context, now);
        self.record(delivery, &verdict).await?;
        relays.report_result(store, &self.route, delivery, now).await;
        self.report(delivery, &verdict);
        match (delivery.class, verdict.sent) {
            (AttemptClass::Cancelled, _) => Ok(Cancellable::Cancelled),
            (AttemptClass::Fenced, _) => Err(Error::Fenced),
            // Another relay of the stream may take it at once.
            (_, Sent::Waiting { why, too_large, .. }) => {
                let until = relays.again_at(store, &stream.relays, tenant, id, now).await?;
                Ok(Cancellable::Done(Sent::Waiting { until, why, pause: None, too_large }))
            }
            (_, sent) => Ok(Cancellable::Done(sent)),
        }
    }

    async fn record(&self, delivery: &AttemptOutcome, verdict: &Verdict) -> Result<(), Error> {
        let Outgoing { store, id, now, .. } = self.outgoing;
        loop {
            let recorded = match &self.first {
                Some(first) if !is_past_the_dot(delivery) => store.end_first_attempt(first, &verdict.end, now).await,
                _ => store.end_attempt(id, self.number, &verdict.end, now).await,
            };
            let recorded = recorded.map_err(Error::from);
            if !waits_to_repeat(delivery, &recorded).await {
                return recorded;
            }
        }
    }

    fn report(&self, delivery: &AttemptOutcome, verdict: &Verdict) {
        metrics::attempt(self.route.name(), delivery.class);
        let Message { id, origin, .. } = &*self.message;
        match &verdict.sent {
            Sent::Closed { closed, .. } if alert::ended(*id, origin, closed) => {}
            _ => {
                tracing::info!(id = %id, class = delivery.class.name(), phase = delivery.phase.name(), "attempt ended");
            }
        }
    }
}

/// Waits and answers `true` if a call of the store is to be repeated. Past the dot only this process knows what happened,
/// so that it waits for a store that is unavailable.
pub(crate) async fn waits_to_repeat<T>(delivery: &AttemptOutcome, answer: &Result<T, Error>) -> bool {
    let repeats = is_past_the_dot(delivery) && answer.as_ref().is_err_and(is_unavailable);
    if repeats {
        tokio::time::sleep(RECORD_AGAIN).await;
    }
    repeats
}

const fn is_past_the_dot(delivery: &AttemptOutcome) -> bool {
    matches!(delivery.phase, Phase::Dot | Phase::Done)
}

/// `true` if the store may answer later.
pub(crate) const fn is_unavailable(error: &Error) -> bool {
    matches!(error, Error::Store(tidings_store::Error::Unavailable(_)))
}
