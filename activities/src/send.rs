//! One attempt to deliver a message of the outbox, and what its end means.
//!
//! The store fences attempts: each takes the next number, and only the latest may send the final dot (rule 26).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_mail::mailer::{Delivery, Withdrawal};
use tidings_model::{
    attempt::{Class, Phase},
    contract::{Closed, Outcome, SendInput, Sent, Window},
    records::{AttemptEnd, AttemptRecord, Begun, Closing, Facts, Message, Origin, Reason, Suppression},
    rules::admission::forbidden,
    settings::{Guarantee, Settings, Stream, Streams},
};
use tidings_store::Store;
use uuid::Uuid;

use crate::{
    alert,
    digest::{DigestActivities, Error, now},
    metrics,
    relays::{Choice, Relays, Route},
};

/// For so long a relay that drops second copies knows the first one: Resend says 24 hours, Mailjet does not say.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(23);

/// Between attempts to record what happened past the dot.
const RECORD_AGAIN: Duration = Duration::from_millis(500);

impl DigestActivities {
    /// One attempt to deliver a digest's message. `None`: it was cancelled before the dot, and nothing was sent.
    ///
    /// # Errors
    /// The store cannot answer, or a later attempt has begun. Dropping the future past the dot leaves the attempt
    /// ambiguous, as a crash does.
    pub async fn deliver(&self, input: &SendInput, cancelled: impl Future<Output = ()>) -> Result<Option<Sent>, Error> {
        let now = now(input.asked_at);
        let facts = self.facts(&input.window.key).await?;
        if let Some(closed) = self.must_not_go(&input.window, &facts).await? {
            let window = &input.window;
            let closing = Closing { window, events: &[], closed: &closed, by: "", return_events: false, now };
            let closed = self.store.close(closing).await?.closed;
            alert::ended(window.digest_id, &Origin::Digest(window.key.clone()), &closed);
            return Ok(Some(Sent::Closed(closed)));
        }
        let Settings { streams, soft_bounces, .. } = &self.settings;
        let courier =
            Courier { store: &*self.store, relays: &self.relays, stream: &streams.bulk, soft_bounces: *soft_bounces };
        let again_in = courier.stream.retry_delay(input.failed.saturating_add(1));
        let shrink = async |number, large: &Message, delivery: &Delivery| loop {
            let shrunk = self.shrink(&input.window, number, large).await;
            if !to_be_repeated(delivery, &shrunk).await {
                return shrunk;
            }
        };
        let sent = courier.attempt(input.window.digest_id, again_in.is_none(), now, cancelled, shrink).await?;
        Ok(sent.map(|sent| match sent {
            Sent::Deferred { why, .. } => Sent::Deferred { why, again_in },
            other => other,
        }))
    }
}

impl DigestActivities {
    /// Why the digest's message must not be sent any more (rule 28). It goes to the address that it was rendered for, and the
    /// directory may have another one since.
    async fn must_not_go(&self, window: &Window, facts: &Facts) -> Result<Option<Closed>, Error> {
        if let Some(closed) = forbidden(facts) {
            return Ok(Some(closed));
        }
        let Some(message) = self.store.message(window.digest_id).await? else { return Ok(None) };
        if facts.recipient.as_ref().is_some_and(|recipient| recipient.address == message.envelope_to) {
            return Ok(None);
        }
        let reasons = self.store.suppressed(&window.key.tenant, &message.envelope_to).await?;
        let reason = reasons.into_iter().find(|reason| reason.forbids(Streams::BULK));
        let why = |reason| format!("the address that it was rendered for is suppressed: {reason}");
        Ok(reason.map(|reason| Closed { outcome: Outcome::Suppressed, why: why(reason) }))
    }
}

/// What delivers the messages of a stream, whether they are of digests or single ones.
pub(crate) struct Courier<'a> {
    pub store: &'a dyn Store,
    pub relays: &'a Relays,
    pub stream: &'a Stream,
    /// See [`Settings::soft_bounces`](tidings_model::settings::Settings::soft_bounces).
    pub soft_bounces: u32,
}

impl Courier<'_> {
    /// One attempt. `last`: none follows a failure. `shrink` makes a message smaller that attempt number so-and-so finds too
    /// large, if it can. `None`: it was cancelled before the dot, and nothing was sent.
    ///
    /// # Errors
    /// The store cannot answer, or a later attempt has begun.
    pub async fn attempt(
        &self,
        id: Uuid,
        last: bool,
        now: Timestamp,
        cancelled: impl Future<Output = ()>,
        shrink: impl AsyncFnOnce(u32, &Message, &Delivery) -> Result<bool, Error>,
    ) -> Result<Option<Sent>, Error> {
        let names = &self.stream.relays;
        let route = match self.relays.choose(self.store, names, id, now).await? {
            Choice::By(route) => route,
            Choice::Wait { until, why } => return Ok(Some(Sent::Waiting { until, why })),
        };
        let (number, doubtful, message) = match self.begin(id, &route, now).await? {
            Ok(begun) => begun,
            Err(closed) => {
                self.relays.give_up(self.store, &route, now).await;
                return Ok(Some(Sent::Closed(closed)));
            }
        };
        let delivery = self.up_to_the_dot_and_over(cancelled, &route, number, &message, now).await;
        let repeats = self.stream.guarantee == Guarantee::AtLeastOnce || route.deduplicates();
        let shrunk = match delivery.class {
            Class::TooLarge => match shrink(number, &message, &delivery).await {
                // What the relay said is recorded all the same.
                Err(error) if !is_away(&error) => {
                    tracing::warn!(why = %error, "a mail that is too large cannot be made smaller");
                    false
                }
                answer => answer?,
            },
            _ => false,
        };
        let again = Again { repeats, shrunk, last, doubtful, soft_bounces: self.soft_bounces };
        let verdict = verdict(&delivery, &message, again, now);
        self.record(id, number, &delivery, &verdict, now).await?;
        self.relays.learn(self.store, &route, &delivery, now).await;
        report(&message, &route, &delivery, &verdict);
        match (delivery.class, verdict.sent) {
            (Class::Cancelled, _) => Ok(None),
            (Class::Fenced, _) => Err(Error::Fenced),
            // Another relay of the stream may take it at once.
            (_, Sent::Waiting { why, .. }) => {
                let until = self.relays.again_at(self.store, names, id, now).await?;
                Ok(Some(Sent::Waiting { until, why }))
            }
            (_, sent) => Ok(Some(sent)),
        }
    }

    /// The attempt's number, whether an earlier one was ambiguous, and the bytes to send; or the end that the message has.
    async fn begin(
        &self,
        id: Uuid,
        route: &Route<'_>,
        now: Timestamp,
    ) -> Result<Result<(u32, bool, Message), Closed>, Error> {
        let (number, ambiguous, doubtful, message) = match self.store.begin_attempt(id, route.name(), now).await? {
            Begun::Go { number, ambiguous, doubtful, message } => (number, ambiguous, doubtful, message),
            Begun::Closed(closed) => return Ok(Err(closed)),
        };
        if ambiguous > 0 && !self.may_repeat(id, route, ambiguous, now).await? {
            let (end, closed) = withheld();
            self.store.end_attempt(id, number, &end, now).await?;
            alert::ended(id, &message.origin, &closed);
            return Ok(Err(closed));
        }
        Ok(Ok((number, doubtful, *message)))
    }

    /// Whether a second copy of an ambiguous message does no harm there (rule 26): the stream says so, or the relay that
    /// has the first one, if any has, still drops the second. That many of the latest ones nobody has let be repeated.
    async fn may_repeat(
        &self,
        id: Uuid,
        route: &Route<'_>,
        latest: u32,
        now: Timestamp,
    ) -> Result<bool, tidings_store::Error> {
        if self.stream.guarantee == Guarantee::AtLeastOnce || !route.deduplicates() {
            return Ok(self.stream.guarantee == Guarantee::AtLeastOnce);
        }
        let ambiguous = |attempt: &AttemptRecord| attempt.class.as_deref() == Some(Class::Ambiguous.name());
        let attempts = self.store.attempts(id).await?;
        let remembered = |attempt: &AttemptRecord| {
            let past = attempt.past_the_dot_at.is_some_and(|at| now.duration_since(at) < REMEMBERED);
            past && attempt.relay == route.name()
        };
        let latest = usize::try_from(latest).unwrap_or(usize::MAX);
        Ok(attempts.iter().rev().filter(|attempt| ambiguous(attempt)).take(latest).all(remembered))
    }

    async fn up_to_the_dot_and_over(
        &self,
        cancelled: impl Future<Output = ()>,
        route: &Route<'_>,
        number: u32,
        message: &Message,
        now: Timestamp,
    ) -> Delivery {
        let offered = tokio::select! {
            offered = route.offer(&message.envelope_from, &message.envelope_to, &message.bytes) => offered,
            () = cancelled => return Withdrawal::Cancelled.into(),
        };
        let ready = match offered {
            Ok(ready) => ready,
            Err(delivery) => return delivery,
        };
        match self.store.past_the_dot(message.id, number, now).await {
            Ok(true) => ready.dot().await,
            Ok(false) => ready.withdraw(Withdrawal::Fenced),
            Err(error) => ready.withdraw(Withdrawal::Unrecorded(error.to_string())),
        }
    }

    async fn record(
        &self,
        id: Uuid,
        number: u32,
        delivery: &Delivery,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<(), Error> {
        loop {
            let recorded = self.store.end_attempt(id, number, &verdict.end, now).await.map_err(Error::from);
            if !to_be_repeated(delivery, &recorded).await {
                return recorded;
            }
        }
    }
}

/// Past the dot nobody else knows what happened, so what is to be recorded is tried until the store takes it. `true`: once more,
/// after a while.
async fn to_be_repeated<T>(delivery: &Delivery, recorded: &Result<T, Error>) -> bool {
    let away = recorded.as_ref().is_err_and(is_away);
    let again = away && matches!(delivery.phase, Phase::Dot | Phase::Done);
    if again {
        tokio::time::sleep(RECORD_AGAIN).await;
    }
    again
}

/// Whether the store may answer later.
const fn is_away(error: &Error) -> bool {
    matches!(error, Error::Store(tidings_store::Error::Unavailable(_)))
}

/// What the end of an attempt means for the ledger and for the workflow.
struct Verdict {
    end: AttemptEnd,
    sent: Sent,
}

/// The end of an attempt that must not be made: an earlier one was past the dot, and the stream never repeats that.
fn withheld() -> (AttemptEnd, Closed) {
    let why = "an earlier attempt was past the dot, and the stream sends at most once".to_owned();
    let closed = Closed { outcome: Outcome::Ambiguous, why };
    let end = AttemptEnd {
        phase: Phase::Connect.name(),
        class: Class::Cancelled.name(),
        reply: String::new(),
        closed: Some(closed.clone()),
        suppress: None,
        in_a_row: 1,
        return_events: false,
    };
    (end, closed)
}

/// Whether another attempt may follow.
#[derive(Clone, Copy)]
struct Again {
    /// Also after an ambiguous one.
    repeats: bool,
    /// With a smaller message.
    shrunk: bool,
    /// None follows a failure.
    last: bool,
    /// An earlier one was ambiguous.
    doubtful: bool,
    /// So many messages to an address that meet a full mailbox are the last ones.
    soft_bounces: u32,
}

/// The one place that says what each class of outcome leads to (rules 25 to 27).
fn verdict(delivery: &Delivery, message: &Message, again: Again, now: Timestamp) -> Verdict {
    let Again { repeats, shrunk, last, doubtful, .. } = again;
    let why = delivery.detail.clone();
    let closed = |outcome, why| Sent::Closed(Closed { outcome, why });
    let exhausted = |outcome| closed(outcome, format!("the last attempt failed, too: {why}"));
    let sent = match delivery.class {
        Class::Sent => closed(Outcome::Sent, String::new()),
        Class::Ambiguous if !repeats => closed(Outcome::Ambiguous, why.clone()),
        // The recipient may have it: that many attempts cannot tell, and another digest must not repeat it.
        Class::Ambiguous if last => exhausted(Outcome::Ambiguous),
        Class::Deferred if last && doubtful => exhausted(Outcome::Ambiguous),
        Class::Deferred if last => exhausted(Outcome::Failed),
        Class::Deferred | Class::Ambiguous | Class::Fenced | Class::Cancelled => {
            Sent::Deferred { why: why.clone(), again_in: None }
        }
        Class::TooLarge if shrunk => Sent::Waiting { until: now, why: why.clone() },
        // The relay is at fault, and when it or another one may be asked is for its breaker to say.
        Class::Throttled | Class::Configuration | Class::Policy => Sent::Waiting { until: now, why: why.clone() },
        Class::HardBounce | Class::MailboxFull | Class::TooLarge | Class::Failed => {
            closed(Outcome::Failed, why.clone())
        }
    };
    let (suppress, in_a_row) = match delivery.class {
        Class::HardBounce => (Some(Reason::HardBounce), 1),
        Class::MailboxFull => (Some(Reason::SoftBounces), again.soft_bounces),
        _ => (None, 1),
    };
    let end = AttemptEnd {
        phase: delivery.phase.name(),
        class: delivery.class.name(),
        reply: delivery.reply.as_ref().map(ToString::to_string).unwrap_or_default(),
        closed: match &sent {
            Sent::Closed(closed) => Some(closed.clone()),
            Sent::Deferred { .. } | Sent::Waiting { .. } => None,
        },
        suppress: suppress.map(|reason| Suppression {
            tenant: message.tenant().to_owned(),
            address: message.envelope_to.clone(),
            reason,
            detail: why.clone(),
            at: now,
        }),
        in_a_row,
        return_events: delivery.class == Class::Deferred && last && !doubtful,
    };
    Verdict { end, sent }
}

fn report(message: &Message, route: &Route<'_>, delivery: &Delivery, verdict: &Verdict) {
    metrics::attempt(route.name(), delivery.class);
    let id = message.id;
    match &verdict.sent {
        Sent::Closed(closed) if alert::ended(id, &message.origin, closed) => {}
        _ => {
            tracing::info!(id = %id, class = delivery.class.name(), phase = delivery.phase.name(), "attempt ended");
        }
    }
}
