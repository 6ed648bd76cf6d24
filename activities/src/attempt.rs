//! One attempt to deliver a message from the outbox.
//!
//! An attempt is committed once the store has recorded it as about to send SMTP's final dot. Attempts are
//! numbered, and only the latest may be committed (rule 26).

use std::{pin::Pin, time::Duration};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tidings_mail::smtp::{AttemptOutcome, ConnectionSlot, SendLane, SmtpReply, WithdrawReason};
use tidings_model::{
    AlertName,
    attempt::{AttemptClass, AttemptPhase},
    records::{AttemptEnd, AttemptRecord, AttemptStart, FirstAttempt, MessageOrigin, OutboxMessage},
    settings::{DeliveryGuarantee, StreamSettings},
    step::{ReplyCode, SendAnswer, UnrecordedEnd},
};
use tidings_services::{
    deps::StepServices,
    error::StepError,
    metrics,
    relays::{AwaitedReply, RelayChoice, RelayRoute, RelaySet},
};
use tidings_store::{ErrorEnd, FailurePhase, Store};
use tokio::time::Instant;
use uuid::Uuid;

use crate::context::CancellableResult;

mod verdict;

use verdict::{RefusalCharge, RetryContext, verdict, withheld_attempt};

const RECORD_AGAIN: Duration = Duration::from_millis(500);

/// How long to retry recording an attempt's end before the workflow keeps it: longer than a database failover,
/// and shorter than a worker's shutdown grace of twenty seconds.
const RECORD_PATIENCE: Duration = Duration::from_secs(10);

/// Minimum tries: a process which was frozen finds its timeout expired.
const RECORD_TRIES: u32 = 2;

const RETRY_DELAY: Duration = Duration::from_mins(1);

/// Maximum wait for another attempt's reply before we check the store again, since the attempt may have ended.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

const READ_FIRST: SignedDuration = SignedDuration::from_secs(5);

/// Check interval for the breakers while a message waits for a connection.
const CHOOSE_AGAIN: Duration = Duration::from_secs(5);

/// What to do if the relay finds a message too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShorterMessage {
    Never,
    Stored,
    /// The workflow should have a shorter message rendered, for the attempt with this number.
    Asked(u32),
}

pub(crate) struct OutgoingMessage<'a> {
    pub store: &'a dyn Store,
    pub relays: &'a RelaySet,
    pub stream: &'a StreamSettings,
    pub lane: SendLane,
    pub tenant: Option<&'a str>,
    /// See [`Settings::soft_bounces`](tidings_model::settings::Settings::soft_bounces).
    pub soft_bounces: u32,
    pub id: Uuid,
    pub last: bool,
    /// Delay before a retry which does not count as an attempt; the stream's first retry delay.
    pub retry_delay: Duration,
    /// The workflow [keeps an end](tidings_model::step::SendInput::keeps_ends) if the ledger cannot record
    /// it.
    pub keeps_ends: bool,
    pub now: Timestamp,
}

pub(crate) enum AttemptBeginning<'a> {
    Begun(Box<DeliveryAttempt<'a>>),
    /// Every relay's breaker is open, or the message has ended.
    NotBegun(SendAnswer),
    Cancelled,
}

type RouteSlot<'a> = (RelayRoute<'a>, ConnectionSlot);

pub(crate) struct DeliveryAttempt<'a> {
    outgoing: OutgoingMessage<'a>,
    route: RelayRoute<'a>,
    slot: Option<ConnectionSlot>,
    pub number: u32,
    /// Set until the ledger has the attempt, when it is committed or ends.
    first: Option<FirstAttempt>,
    pub message: Box<OutboxMessage>,
    had_ambiguous_attempt: bool,
    /// Set from the commit until the end is recorded.
    awaited: Option<AwaitedReply<'a>>,
}

impl<'a> OutgoingMessage<'a> {
    pub fn new(
        deps: &'a StepServices,
        tenant: &str,
        (stream, lane): (&'a StreamSettings, SendLane),
        id: Uuid,
        now: Timestamp,
    ) -> Self {
        let (soft_bounces, tenant) = (deps.settings.soft_bounces, deps.settings.with_table(tenant));
        let (last, keeps_ends) = (false, false);
        let retry_delay = stream.retry_delay(1).unwrap_or(RETRY_DELAY);
        let (store, relays) = (&*deps.store, &*deps.relays);
        Self { store, relays, stream, lane, tenant, soft_bounces, id, last, retry_delay, keeps_ends, now }
    }

    /// Chooses a relay for the first attempt. [`transmit`](DeliveryAttempt::transmit) records it when
    /// committing, which saves a write.
    pub async fn begin_first(
        mut self,
        message: OutboxMessage,
        epoch: u64,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<AttemptBeginning<'a>, StepError> {
        let (route, slot) = match self.acquire_route(&message.envelope_to, cancelled).await? {
            Ok(found) => found,
            Err(not_begun) => return Ok(not_begun),
        };
        let first = FirstAttempt {
            message: self.id,
            relay: route.name().to_owned(),
            begun_at: self.now,
            epoch,
            nonce: Uuid::new_v4(),
        };
        let (first, message) = (Some(first), Box::new(message));
        let had_ambiguous_attempt = false;
        Ok(AttemptBeginning::Begun(Box::new(DeliveryAttempt {
            outgoing: self,
            route,
            slot: Some(slot),
            number: 1,
            first,
            message,
            had_ambiguous_attempt,
            awaited: None,
        })))
    }

    async fn acquire_route(
        &mut self,
        to: &str,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Result<RouteSlot<'a>, AttemptBeginning<'a>>, StepError> {
        let mut route = match self.choose_relay().await? {
            Ok(route) => route,
            Err(waiting) => return Ok(Err(AttemptBeginning::NotBegun(waiting))),
        };
        let mut slot = Box::pin(route.slot(self.lane, to));
        loop {
            tokio::select! {
                slot = &mut slot => {
                    self.now = self.now.max(Timestamp::now());
                    let Some(slot) = slot else { return Ok(Err(AttemptBeginning::Cancelled)) };
                    return Ok(Ok((route, slot)));
                }
                () = cancelled.as_mut() => {
                    self.relays.give_up(self.store, &route, self.now).await;
                    return Ok(Err(AttemptBeginning::Cancelled));
                }
                () = tokio::time::sleep(CHOOSE_AGAIN) => {}
            }
            self.now = self.now.max(Timestamp::now());
            match self.choose_relay().await? {
                Ok(chosen) if chosen.name() == route.name() => {}
                Ok(chosen) => {
                    self.relays.give_up(self.store, &route, self.now).await;
                    slot = Box::pin(chosen.slot(self.lane, to));
                    route = chosen;
                }
                Err(waiting) => return Ok(Err(self.give_up(&route, waiting).await)),
            }
        }
    }

    /// Chooses a relay for an attempt, or returns how long to wait.
    pub async fn choose_relay(&self) -> Result<Result<RelayRoute<'a>, SendAnswer>, StepError> {
        let Self { store, relays, stream, tenant, id, now, .. } = *self;
        Ok(match relays.choose_relay(store, &stream.relays, tenant, id, now).await? {
            RelayChoice::By(route) => Ok(route.for_sender(stream.envelope_sender())),
            RelayChoice::Wait { until, why } => {
                Err(SendAnswer::Waiting { until, why, pause: None, too_large: None, moment: false })
            }
        })
    }

    /// Chooses a relay and records the start of an attempt. None starts while an earlier one may still get
    /// its reply: it may be alive in another worker or behind a reset run (rule 26). With `epoch`, the
    /// message must be unchanged.
    ///
    /// # Errors
    /// If the store fails, or the message has another epoch.
    pub async fn begin(
        mut self,
        to: &str,
        epoch: Option<u64>,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<AttemptBeginning<'a>, StepError> {
        let (route, slot) = match self.acquire_route(to, cancelled).await? {
            Ok(found) => found,
            Err(not_begun) => return Ok(not_begun),
        };
        let Self { store, id, now, .. } = self;
        if self.relays.awaits_reply(id) {
            // The reply timeout may have passed because the process was frozen. The data received so far is
            // being read now.
            let until = now.saturating_add(READ_FIRST).unwrap_or(now);
            let why = "an attempt of this worker is past the dot, and reads its reply".to_owned();
            let waiting = SendAnswer::Waiting { until, why, pause: None, too_large: None, moment: false };
            return Ok(self.give_up(&route, waiting).await);
        }
        let (number, ambiguous, had_ambiguous_attempt, begun, message) =
            match store.begin_attempt(id, route.name(), self.relays.reply_time(), now).await? {
                AttemptStart::Proceed { number, ambiguous, had_ambiguous_attempt, epoch, message } => {
                    (number, ambiguous, had_ambiguous_attempt, epoch, message)
                }
                AttemptStart::Closed(closed) => return Ok(self.give_up(&route, SendAnswer::closed(closed)).await),
                AttemptStart::AwaitsReply { number, until } => {
                    let why =
                        format!("attempt {number} is past the dot, and the reply to it may come until {until:.0}");
                    let until = until.min(now.saturating_add(LOOK_AGAIN).unwrap_or(until));
                    let waiting = SendAnswer::Waiting { until, why, pause: None, too_large: None, moment: false };
                    return Ok(self.give_up(&route, waiting).await);
                }
            };
        if epoch.is_some_and(|epoch| epoch != begun) {
            // An event was retracted while we waited for a connection. The next attempt will fence this one
            // and render the message again.
            self.relays.give_up(store, &route, now).await;
            return Err(StepError::Fenced);
        }
        if ambiguous > 0 && !self.may_resend(&route, ambiguous).await? {
            let (end, closed) = withheld_attempt();
            store.end_attempt(id, number, &end, now).await?;
            metrics::alert_ended(id, &message.origin, &closed);
            return Ok(self.give_up(&route, SendAnswer::closed(closed)).await);
        }
        Ok(AttemptBeginning::Begun(Box::new(DeliveryAttempt {
            outgoing: self,
            route,
            slot: Some(slot),
            number,
            first: None,
            message,
            had_ambiguous_attempt,
            awaited: None,
        })))
    }

    async fn give_up(&self, route: &RelayRoute<'_>, sent: SendAnswer) -> AttemptBeginning<'a> {
        self.relays.give_up(self.store, route, self.now).await;
        AttemptBeginning::NotBegun(sent)
    }

    /// Records an end which the ledger refused before, and returns what follows.
    ///
    /// # Errors
    /// If the store fails or refuses again.
    pub async fn record_end(
        &self,
        unrecorded: &UnrecordedEnd,
        shorter: ShorterMessage,
    ) -> Result<SendAnswer, StepError> {
        let Self { store, relays, id, .. } = *self;
        let missing = || tidings_store::StoreError::Broken(format!("message {id} is not in the outbox"));
        let message = store.message(id).await?.ok_or_else(missing)?;
        let earlier = store.attempts(id).await?;
        let was_ambiguous = |attempt: &AttemptRecord| {
            attempt.number < unrecorded.number && attempt.class == Some(AttemptClass::Ambiguous)
        };
        let route = relays.route(&unrecorded.relay, id).map(|route| route.of_tenant(self.tenant));
        let route = route.map(|route| route.for_sender(self.stream.envelope_sender()));
        let ended = EndedAttempt {
            outgoing: self,
            relay: &unrecorded.relay,
            route: route.as_ref(),
            number: unrecorded.number,
            first: unrecorded.first.as_ref(),
            origin: &message.origin,
            envelope_to: &message.envelope_to,
            had_ambiguous_attempt: earlier.iter().any(was_ambiguous),
            was_refused: was_refused(&earlier, unrecorded.number),
            // We no longer have the bytes to compare, and most senders never change.
            has_former_sender: false,
            at: unrecorded.at,
        };
        let delivery = outcome_of(unrecorded);
        let (end, sent) = ended.verdict(&delivery, shorter);
        ended.record_once(&delivery, &end).await?;
        ended.conclude(&delivery, sent).await
    }

    /// A second copy is harmless (rule 26) if the stream is `at_least_once`, or the relay would still drop
    /// it. `latest` counts ambiguous attempts since an operator last allowed a repeat.
    async fn may_resend(&self, route: &RelayRoute<'_>, latest: u32) -> Result<bool, tidings_store::StoreError> {
        let at_least_once = self.stream.guarantee == DeliveryGuarantee::AtLeastOnce;
        let Some(memory) = route.remembers().filter(|_| !at_least_once) else { return Ok(at_least_once) };
        let ambiguous = |attempt: &AttemptRecord| attempt.class == Some(AttemptClass::Ambiguous);
        let remembered = |attempt: &AttemptRecord| {
            let recent = attempt.past_the_dot_at.is_some_and(|at| self.now.duration_since(at) < memory);
            recent && self.relays.is_relay_of(route, &attempt.relay)
        };
        let attempts = self.store.attempts(self.id).await?;
        let latest = usize::try_from(latest).unwrap_or(usize::MAX);
        Ok(attempts.iter().rev().filter(|attempt| ambiguous(attempt)).take(latest).all(remembered))
    }
}

impl DeliveryAttempt<'_> {
    /// Sends the message, commits the attempt, and sends the final dot. Dropping the future after the commit
    /// leaves the attempt ambiguous, like a crash.
    ///
    /// # Errors
    /// If the store cannot commit the attempt. The dot is not sent, and no attempt was made.
    pub async fn transmit(
        &mut self,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<AttemptOutcome, StepError> {
        let Some(slot) = self.slot.take() else { return Ok(WithdrawReason::Cancelled.into()) };
        let OutboxMessage { id, envelope_from, envelope_to, bytes, .. } = &*self.message;
        let offered = tokio::select! {
            offered = self.route.offer(slot, envelope_from, envelope_to, bytes) => offered,
            () = cancelled.as_mut() => return Ok(WithdrawReason::Cancelled.into()),
        };
        let ready = match offered {
            Ok(ready) => ready,
            Err(delivery) => return Ok(delivery),
        };
        let store = self.outgoing.store;
        // Read the clock again: the relay may have taken minutes to accept the content.
        let now = self.outgoing.now.max(Timestamp::now());
        let recorded = match &self.first {
            Some(first) => store.mark_first_in_doubt(first, now).await,
            None => store.mark_in_doubt(*id, self.number, now).await,
        };
        match recorded {
            // Cancelled while the store committed the attempt.
            Ok(true) if cancelled.as_mut().now_or_never().is_some() => Ok(ready.withdraw(WithdrawReason::Cancelled)),
            Ok(true) => {
                self.awaited = Some(self.outgoing.relays.await_reply(self.outgoing.id));
                Ok(ready.send_dot().await)
            }
            Ok(false) => Ok(ready.withdraw(WithdrawReason::Fenced)),
            Err(error) => {
                // The store may have committed and only its reply was lost. If this record is lost, too, the
                // attempt counts as ambiguous.
                let withdrawn = ready.withdraw(WithdrawReason::Unrecorded(error.to_string()));
                let ended = self.ended_attempt(false);
                let (end, _) = ended.verdict(&withdrawn, ShorterMessage::Never);
                ended.record_once(&withdrawn, &end).await.ok();
                self.outgoing.relays.give_up(store, &self.route, now).await;
                Err(error.into())
            }
        }
    }

    /// Records the end, reports it to the breaker, and returns what follows. An end the ledger refuses is
    /// returned if the workflow keeps it.
    ///
    /// # Errors
    /// If the store fails, or a later attempt has begun.
    pub async fn finish(
        &self,
        delivery: &AttemptOutcome,
        shorter: ShorterMessage,
    ) -> Result<CancellableResult<SendAnswer>, StepError> {
        let was_refused = delivery.class.is_refusal()
            && self.number > 1
            && was_refused(&self.outgoing.store.attempts(self.outgoing.id).await?, self.number);
        let ended = self.ended_attempt(was_refused);
        let (end, sent) = ended.verdict(delivery, shorter);
        match ended.record_patiently(delivery, &end).await {
            Ok(()) => {}
            Err(_) if ended.is_kept(delivery) => {
                return Ok(CancellableResult::Done(SendAnswer::Unrecorded(ended.unrecorded_end(delivery))));
            }
            Err(error) => return Err(error),
        }
        match (delivery.class, ended.conclude(delivery, sent).await?) {
            (AttemptClass::Cancelled, _) => Ok(CancellableResult::Cancelled),
            (AttemptClass::Fenced, _) => Err(StepError::Fenced),
            (_, sent) => Ok(CancellableResult::Done(sent)),
        }
    }

    fn ended_attempt(&self, was_refused: bool) -> EndedAttempt<'_> {
        EndedAttempt {
            outgoing: &self.outgoing,
            relay: self.route.name(),
            route: Some(&self.route),
            number: self.number,
            first: self.first.as_ref(),
            origin: &self.message.origin,
            envelope_to: &self.message.envelope_to,
            had_ambiguous_attempt: self.had_ambiguous_attempt,
            was_refused,
            has_former_sender: !self.outgoing.stream.sends_as(&self.message.envelope_from),
            // Read the clock again: the relay may have taken minutes.
            at: self.outgoing.now.max(Timestamp::now()),
        }
    }
}

struct EndedAttempt<'a> {
    outgoing: &'a OutgoingMessage<'a>,
    relay: &'a str,
    route: Option<&'a RelayRoute<'a>>,
    number: u32,
    first: Option<&'a FirstAttempt>,
    origin: &'a MessageOrigin,
    envelope_to: &'a str,
    had_ambiguous_attempt: bool,
    was_refused: bool,
    /// The stream's sender has changed, but the bytes cannot: an attempt was committed, or we cannot render
    /// again.
    has_former_sender: bool,
    at: Timestamp,
}

impl EndedAttempt<'_> {
    fn verdict(&self, delivery: &AttemptOutcome, shorter: ShorterMessage) -> (AttemptEnd, SendAnswer) {
        let OutgoingMessage { relays, stream, soft_bounces, id, last, retry_delay, .. } = *self.outgoing;
        let deduplicates = self.route.is_some_and(RelayRoute::deduplicates);
        let may_resend = stream.guarantee == DeliveryGuarantee::AtLeastOnce || deduplicates;
        let Self { had_ambiguous_attempt, was_refused, .. } = *self;
        let meets_no_relay = delivery.class == AttemptClass::Deferred && delivery.phase <= AttemptPhase::Ehlo;
        let charge = match delivery.class {
            _ if self.is_about_former_sender(delivery) => RefusalCharge::FormerSender,
            _ if meets_no_relay && self.route.is_some_and(RelayRoute::has_alternative) => RefusalCharge::Relay,
            class if !relays.charges(self.relay, id, class) => RefusalCharge::Relay,
            class if class.is_refusal() && !was_refused => RefusalCharge::Nobody,
            _ => RefusalCharge::Message,
        };
        let context =
            RetryContext { may_resend, shorter, last, had_ambiguous_attempt, soft_bounces, charge, retry_delay };
        verdict(delivery, (self.origin, self.envelope_to), context, self.at)
    }

    /// Returns `true` for a rejection which may be caused by our former sender. It should not count against the
    /// relay.
    fn is_about_former_sender(&self, delivery: &AttemptOutcome) -> bool {
        let classes = [AttemptClass::Policy, AttemptClass::Configuration, AttemptClass::RecipientPolicy];
        self.has_former_sender && delivery.phase >= AttemptPhase::Mail && classes.contains(&delivery.class)
    }

    async fn record_once(&self, delivery: &AttemptOutcome, end: &AttemptEnd) -> Result<(), StepError> {
        let OutgoingMessage { store, id, .. } = *self.outgoing;
        let recorded = match self.first {
            Some(first) if moment_of(delivery) == FailurePhase::BeforeDot => {
                store.end_first_attempt(first, end, self.at).await
            }
            _ => store.end_attempt(id, self.number, end, self.at).await,
        };
        Ok(recorded?)
    }

    async fn record_patiently(&self, delivery: &AttemptOutcome, end: &AttemptEnd) -> Result<(), StepError> {
        let (begun, mut tries) = (Instant::now(), 0);
        loop {
            let Err(error) = self.record_once(delivery, end).await else { return Ok(()) };
            tries += 1;
            let has_time = tries < RECORD_TRIES || begun.elapsed() < RECORD_PATIENCE;
            let is_patient = if self.is_kept(delivery) { has_time } else { keeps_outcome(&error, delivery) };
            if !is_patient {
                return Err(error);
            }
            tokio::time::sleep(RECORD_AGAIN).await;
        }
    }

    fn is_kept(&self, delivery: &AttemptOutcome) -> bool {
        self.outgoing.keeps_ends && !matches!(delivery.class, AttemptClass::Cancelled | AttemptClass::Fenced)
    }

    async fn conclude(&self, delivery: &AttemptOutcome, sent: SendAnswer) -> Result<SendAnswer, StepError> {
        let OutgoingMessage { store, relays, stream, tenant, id, now, .. } = *self.outgoing;
        if let Some(route) = self.route {
            let ended = matches!(sent, SendAnswer::Closed { .. });
            if self.is_about_former_sender(delivery) {
                relays.give_up(store, route, self.at).await;
            } else {
                relays.report_result(store, route, delivery, (self.envelope_to, ended), self.at).await;
            }
        }
        self.log_end(delivery, &sent);
        match sent {
            // If the message waits only for its relay, another relay may accept it at once.
            SendAnswer::Waiting { until, why, too_large, .. } => {
                let until = relays.again_at(store, &stream.relays, tenant, id, now.max(self.at)).await?.max(until);
                Ok(SendAnswer::Waiting { until, why, pause: None, too_large, moment: false })
            }
            sent => Ok(sent),
        }
    }

    fn log_end(&self, delivery: &AttemptOutcome, sent: &SendAnswer) {
        metrics::count_attempt(self.relay, delivery.class);
        let id = self.outgoing.id;
        match sent {
            SendAnswer::Closed { closed, .. } if metrics::alert_ended(id, self.origin, closed) => {}
            _ => {
                tracing::info!(id = %id, class = delivery.class.name(), phase = delivery.phase.name(), "attempt ended");
            }
        }
    }

    fn unrecorded_end(&self, delivery: &AttemptOutcome) -> UnrecordedEnd {
        let id = self.outgoing.id;
        let (class, phase) = (delivery.class, delivery.phase);
        tracing::error!(alert = %AlertName::LedgerRefuses, id = %id, class = class.name(), "cannot record the end of an attempt; the workflow keeps it");
        UnrecordedEnd {
            number: self.number,
            relay: self.relay.to_owned(),
            at: self.at,
            class,
            phase,
            reply: delivery.reply.as_ref().map(|reply| ReplyCode { code: reply.code, enhanced: reply.enhanced }),
            first: self.first.filter(|_| moment_of(delivery) == FailurePhase::BeforeDot).cloned(),
        }
    }
}

fn was_refused(attempts: &[AttemptRecord], number: u32) -> bool {
    attempts.iter().any(|attempt| attempt.number < number && attempt.class.is_some_and(AttemptClass::is_refusal))
}

fn outcome_of(unrecorded: &UnrecordedEnd) -> AttemptOutcome {
    let UnrecordedEnd { class, phase, reply, .. } = unrecorded;
    let reply = reply.map(|ReplyCode { code, enhanced }| SmtpReply { code, enhanced, text: String::new() });
    let answer = reply.as_ref().map_or_else(|| class.name().to_owned(), ToString::to_string);
    let detail = format!("{}: {answer}; recorded later, as the ledger refused the record", phase.name());
    AttemptOutcome { phase: *phase, reply, class: *class, detail }
}

pub(crate) async fn waits_to_repeat<T>(delivery: &AttemptOutcome, answer: &Result<T, StepError>) -> bool {
    let repeats = answer.as_ref().is_err_and(|error| keeps_outcome(error, delivery));
    if repeats {
        tokio::time::sleep(RECORD_AGAIN).await;
    }
    repeats
}

fn keeps_outcome(error: &StepError, delivery: &AttemptOutcome) -> bool {
    error.end(moment_of(delivery)) == ErrorEnd::KeepsOutcome
}

const fn moment_of(delivery: &AttemptOutcome) -> FailurePhase {
    if matches!(delivery.phase, AttemptPhase::Dot | AttemptPhase::Done) {
        FailurePhase::PastDot
    } else {
        FailurePhase::BeforeDot
    }
}

pub(crate) const fn is_unavailable(error: &StepError) -> bool {
    matches!(error, StepError::Store(tidings_store::StoreError::Unavailable(_)))
}
