//! A circuit breaker per relay: it opens, lets one probe message through at a time, and closes again.
//!
//! A tenant with its own table has one more breaker per relay. It tracks the tenant's own bounces and
//! complaints, so one tenant cannot block the others.
//!
//! Everything here is pure; the store shares the state between workers (see `Relays`).

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

mod refusals;

pub use refusals::{DomainRun, RefusalHistory, RefusedRecipient, hash_tag};

use crate::{
    StoredWait,
    attempt::{AttemptClass, AttemptPhase},
    replies::{QuotaPeriod, RefusalSubject, ReplyRow},
};

/// An outage means this many consecutive failures to connect or log in ...
const OUTAGE_FAILURES: u32 = 5;
/// ... with the last one within this time after the first.
const OUTAGE_WITHIN: Duration = Duration::from_mins(5);
/// Minimum sample for the bounce rate. At twice this many outcomes we halve the counters.
const BOUNCE_OUTCOMES: u32 = 100;
/// Opens if one in this many messages bounces. Amazon SES may pause an account at this rate.
const ONE_BOUNCE_IN: u32 = 10;
/// Denominator of the complaint rate. At twice this many accepted messages we halve the counters.
const COMPLAINT_OUTCOMES: u32 = 1_000;
/// Opens at this many complaints per thousand messages, but never before this many. Gmail and Yahoo reject
/// this rate.
const COMPLAINTS: u32 = 3;
/// How long others wait for a probe: longer than the timeouts of a delivery without any reply.
const PROBE: Duration = Duration::from_mins(15);
/// Shortest and longest poll interval of waiting messages; in between, the time since the breaker opened. We
/// poll because an operator may close the breaker.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));

/// A message that opened the breaker lets others probe for this long before its next try.
const OTHERS_FIRST: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CircuitBreaker {
    pub open: Option<OpenState>,
    /// Consecutive failures to connect or log in.
    pub failures: u32,
    pub failing_since: Option<Timestamp>,
    /// Accepted messages in the sample for the bounce rate.
    pub sent: u32,
    /// Hard bounces in this sample.
    pub bounced: u32,
    /// Accepted messages in the sample for the complaint rate.
    pub taken: u32,
    /// Complaints in this sample.
    pub complained: u32,
    /// Refused recipients, where the relay may mean us.
    pub refusals: RefusalHistory,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionedBreaker {
    /// The number of changes; 0 if nothing is stored.
    pub revision: u64,
    pub breaker: CircuitBreaker,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenState {
    pub cause: BreakerCause,
    /// The relay's reply or the operator's reason.
    pub why: String,
    pub since: Timestamp,
    /// When the next probe is allowed; [`Timestamp::MAX`] if only an operator can close the breaker.
    pub until: Timestamp,
    /// How often the breaker opened since it was last closed.
    pub times: u32,
    pub probe: Option<BreakerProbe>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerProbe {
    pub message: Uuid,
    /// After this time another message may probe.
    pub until: Timestamp,
}

closed_set! {
    pub enum BreakerCause {
        /// The relay rejects us, not the recipient (5.7.x).
        Policy = "policy",
        /// The relay rejects our credentials or settings.
        Configuration = "configuration",
        /// The relay is unreachable or takes no messages from anybody.
        Outage = "outage",
        /// Too many addresses do not exist. Sending more would damage our reputation.
        Bounces = "bounces",
        Throttled = "throttled",
        /// Too many complaints. Sending more would damage our reputation.
        Complaints = "complaints",
        Operator = "operator",
        HourlyQuota = "hourly_quota",
        DailyQuota = "daily_quota",
        /// The relay refuses every recipient.
        Refusals = "refusals",
    }
}

impl BreakerCause {
    /// First and longest backoff. It doubles with every failed probe.
    const fn backoff_range(self) -> (Duration, Duration) {
        match self {
            Self::Policy | Self::Configuration | Self::Refusals => (Duration::from_mins(5), Duration::from_hours(1)),
            Self::Outage => (Duration::from_secs(30), Duration::from_mins(5)),
            Self::Throttled => (Duration::from_mins(1), Duration::from_mins(15)),
            Self::Bounces | Self::Complaints => (Duration::from_mins(30), Duration::from_hours(4)),
            // We cannot see when the quota period began. Probing costs no attempt, so we just probe now and
            // then.
            Self::HourlyQuota => (Duration::from_mins(10), Duration::from_hours(1)),
            Self::DailyQuota => (Duration::from_hours(1), Duration::from_hours(4)),
            Self::Operator => (Duration::MAX, Duration::MAX),
        }
    }

    /// Returns `true` if content or addresses are the cause, not the relay. This only concerns the tenants
    /// who sent them.
    #[must_use]
    pub const fn is_about_mail(self) -> bool {
        matches!(self, Self::Bounces | Self::Complaints)
    }

    /// Returns `true` if any reply after AUTH proves recovery.
    const fn ends_with_an_answer(self) -> bool {
        matches!(self, Self::Configuration | Self::Outage)
    }
}

/// `RELAY`, or `RELAY/TENANT` for a tenant's own breaker. Relay names have no `/`.
#[must_use]
pub fn breaker_name(relay: &str, tenant: Option<&str>) -> String {
    tenant.map_or_else(|| relay.to_owned(), |tenant| format!("{relay}/{tenant}"))
}

#[must_use]
pub fn split_name(name: &str) -> (&str, Option<&str>) {
    name.split_once('/').map_or((name, None), |(relay, tenant)| (relay, Some(tenant)))
}

/// A later report about an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryEvidence {
    Bounced,
    Complained,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BreakerDecision {
    Go,
    /// Yes, as the only probe, once this new state is stored.
    Try(Box<CircuitBreaker>),
    Wait {
        /// When to ask again.
        until: Timestamp,
    },
}

/// What an attempt reveals about its relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayObservation {
    /// The number of accepted messages.
    Well(u32),
    /// The relay works, but accepted nothing.
    Works,
    Bounced,
    /// The relay refused the recipient and may mean us.
    Refused {
        recipient: u32,
        domain: u32,
        /// The relay is used for this domain only.
        is_alone: bool,
        /// The digest or message ended with this refusal.
        ended: bool,
    },
    /// The relay replied after login.
    Answered,
    Fault(BreakerCause),
    Nothing,
}

impl RelayObservation {
    /// Evaluates an attempt's end. `replied` is `true` if the relay ended it with a reply; `refusal` is the
    /// matching row, if this reply is a refusal.
    #[must_use]
    pub fn from_attempt(phase: AttemptPhase, class: AttemptClass, replied: bool, refusal: Option<&ReplyRow>) -> Self {
        match class {
            AttemptClass::Sent => Self::Well(1),
            AttemptClass::HardBounce => Self::Bounced,
            AttemptClass::Policy => Self::Fault(BreakerCause::Policy),
            AttemptClass::Configuration => Self::Fault(BreakerCause::Configuration),
            AttemptClass::Throttled => Self::Fault(match refusal.and_then(|row| row.quota) {
                Some(QuotaPeriod::Hour) => BreakerCause::HourlyQuota,
                Some(QuotaPeriod::Day) => BreakerCause::DailyQuota,
                None => BreakerCause::Throttled,
            }),
            AttemptClass::Deferred if phase <= AttemptPhase::Auth => Self::Fault(BreakerCause::Outage),
            AttemptClass::Deferred => match refusal.map(|row| row.about) {
                // Our other connections work.
                Some(RefusalSubject::Connections) => Self::Nothing,
                Some(RefusalSubject::Us | RefusalSubject::Session) => Self::Fault(BreakerCause::Outage),
                _ if replied => Self::Answered,
                _ => Self::Nothing,
            },
            AttemptClass::MailboxFull
            | AttemptClass::UnknownMailbox
            | AttemptClass::Refused
            | AttemptClass::RecipientPolicy
            | AttemptClass::TooLarge
            | AttemptClass::Failed
                if replied =>
            {
                Self::Answered
            }
            _ => Self::Nothing,
        }
    }

    /// Keeps only the part about the relay itself.
    #[must_use]
    pub const fn of_relay(self) -> Self {
        match self {
            Self::Well(_) => Self::Well(0),
            // A bounce still proves the relay works.
            Self::Bounced => Self::Works,
            other => other,
        }
    }

    /// Keeps only the part about the sender's messages.
    #[must_use]
    pub const fn of_mail(self) -> Self {
        match self {
            Self::Well(_) | Self::Bounced => self,
            Self::Works | Self::Refused { .. } | Self::Answered | Self::Fault(_) | Self::Nothing => Self::Nothing,
        }
    }
}

impl CircuitBreaker {
    #[must_use]
    pub fn admit_message(&self, message: Uuid, now: Timestamp) -> BreakerDecision {
        let Some(open) = &self.open else { return BreakerDecision::Go };
        let is_held = |probe: &BreakerProbe| probe.message != message && StoredWait::PROBE.is_active(probe.until, now);
        let taken = open.probe.as_ref().is_some_and(is_held);
        let others_first = if self.refusals.has_opened(message) { OTHERS_FIRST } else { Duration::ZERO };
        let opens = add_wait(open.until, others_first);
        let rests = StoredWait::of_breaker(open.cause).is_active(opens, now);
        if rests || taken {
            // An opener has to let others go first, so it should not poll every few seconds.
            let soon = open.ask_again(now).max(add_wait(now, others_first));
            let until = if rests { soon.min(opens) } else { soon };
            return BreakerDecision::Wait { until };
        }
        let probe = Some(BreakerProbe { message, until: add_wait(now, PROBE) });
        BreakerDecision::Try(Box::new(Self { open: Some(OpenState { probe, ..open.clone() }), ..self.clone() }))
    }

    /// Returns the state after an attempt, or `None` if nothing changes. `why` is the relay's reply.
    #[must_use]
    pub fn after_attempt(&self, message: Uuid, sign: RelayObservation, why: &str, now: Timestamp) -> Option<Self> {
        match &self.open {
            None => self.while_closed(message, sign, why, now),
            Some(open) if open.probe.as_ref().is_some_and(|probe| probe.message == message) => {
                Some(self.after_probe(message, open, sign, why, now))
            }
            // The attempt began before the breaker opened.
            Some(_) => None,
        }
    }

    /// Returns the state after a report, or `None` if nothing changes. Ignored while the breaker is open,
    /// because reports do not show if the relay works.
    #[must_use]
    pub fn after_report(&self, evidence: DeliveryEvidence, now: Timestamp) -> Option<Self> {
        if self.open.is_some() {
            return None;
        }
        Some(match evidence {
            // The message was counted as accepted before.
            DeliveryEvidence::Bounced => Self { sent: self.sent.saturating_sub(1), ..self.clone() }.with_bounce(now),
            DeliveryEvidence::Complained => self.with_complaint(now),
        })
    }

    #[must_use]
    pub fn open_by_operator(&self, why: &str, now: Timestamp) -> Self {
        self.open_for_cause(BreakerCause::Operator, why, now, 1)
    }

    /// Returns `true` if the message pays for this refusal, with an attempt or its end. Otherwise the relay
    /// is to blame and the message waits.
    ///
    /// - By policy (5.7.x): a message pays if it opened the breaker before.
    /// - Recipient refused: a message pays, except with an open breaker. Then it only pays if it opened the
    ///   breaker or probed before, so that the others had their turn, and at most two digests may end this
    ///   way.
    #[must_use]
    pub fn charges_message(&self, message: Uuid, class: AttemptClass) -> bool {
        let refusals = &self.refusals;
        match (class, &self.open) {
            (AttemptClass::Policy, _) => refusals.has_opened(message),
            (AttemptClass::Refused | AttemptClass::RecipientPolicy, Some(_)) => {
                refusals.has_opened(message) && refusals.may_end()
            }
            _ => true,
        }
    }

    /// Records the use for more than one domain; `None` if already recorded.
    #[must_use]
    pub fn with_mixed_domains(&self) -> Option<Self> {
        let refusals = || RefusalHistory { is_mixed: true, ..self.refusals.clone() };
        (!self.refusals.is_mixed).then(|| Self { refusals: refusals(), ..self.clone() })
    }

    /// Records the sender it opened for. Once this sender is unused, the failure proves nothing about the
    /// relay.
    #[must_use]
    pub fn for_sender(self, sender: &str) -> Self {
        Self { refusals: RefusalHistory { sender: Some(sender.to_owned()), ..self.refusals }, ..self }
    }

    #[must_use]
    pub fn closed() -> Self {
        Self::default()
    }

    fn works_again(&self) -> Self {
        Self { refusals: self.refusals.clone().reset_streak(), ..Self::closed() }
    }

    fn while_closed(&self, message: Uuid, sign: RelayObservation, why: &str, now: Timestamp) -> Option<Self> {
        let answers = Self { failures: 0, failing_since: None, ..self.clone() };
        let is_news = self.failures > 0;
        match sign {
            RelayObservation::Well(count) => {
                let refusals = self.refusals.clone().reset_streak();
                Some(Self { refusals, ..answers }.count_outcomes(count, 0))
            }
            RelayObservation::Bounced => Some(answers.with_bounce(now)),
            RelayObservation::Refused { recipient, domain, is_alone, ended } if !self.refusals.has_opened(message) => {
                let mut refusals = self.refusals.clone();
                if refusals.record_refusal(RefusedRecipient { message, recipient, domain, ended }, is_alone) {
                    let blamed = Self { refusals: refusals.into_openers(), ..self.clone() };
                    return Some(blamed.open_for_cause(BreakerCause::Refusals, why, now, 1));
                }
                Some(Self { refusals, ..answers })
            }
            // A message opens it at most once.
            RelayObservation::Fault(BreakerCause::Policy) if self.refusals.has_opened(message) => {
                is_news.then_some(answers)
            }
            RelayObservation::Works | RelayObservation::Answered | RelayObservation::Refused { .. } => {
                is_news.then_some(answers)
            }
            RelayObservation::Fault(BreakerCause::Outage) => Some(self.count_failure(why, now)),
            RelayObservation::Fault(cause) => {
                Some(self.record_opener(cause, message).open_for_cause(cause, why, now, 1))
            }
            RelayObservation::Nothing => None,
        }
    }

    fn record_opener(&self, cause: BreakerCause, message: Uuid) -> Self {
        let refusals = self.refusals.clone();
        let is_opener = matches!(cause, BreakerCause::Policy | BreakerCause::Refusals);
        Self { refusals: if is_opener { refusals.opened_by(message) } else { refusals }, ..self.clone() }
    }

    fn with_bounce(self, now: Timestamp) -> Self {
        let counted = self.count_outcomes(0, 1);
        let why = format!("{} of {} messages bounced", counted.bounced, counted.bounced + counted.sent);
        if counted.exceeds_bounce_rate() {
            counted.open_for_cause(BreakerCause::Bounces, &why, now, 1)
        } else {
            counted
        }
    }

    fn with_complaint(&self, now: Timestamp) -> Self {
        let counted = Self { complained: self.complained + 1, ..self.clone() };
        let Self { complained, taken, .. } = counted;
        if complained < COMPLAINTS || complained * COMPLAINT_OUTCOMES < COMPLAINTS * taken {
            return counted;
        }
        let why = format!("{complained} complaints about the latest messages");
        self.open_for_cause(BreakerCause::Complaints, &why, now, 1)
    }

    fn count_failure(&self, why: &str, now: Timestamp) -> Self {
        let recent =
            |since: &Timestamp| now < add_wait(*since, OUTAGE_WITHIN) && StoredWait::PAST.is_plausible(*since, now);
        let since = self.failing_since.filter(recent);
        let failures = since.map_or(0, |_| self.failures).saturating_add(1);
        if failures >= OUTAGE_FAILURES {
            return self.open_for_cause(BreakerCause::Outage, why, now, 1);
        }
        Self { failures, failing_since: since.or(Some(now)), ..self.clone() }
    }

    fn after_probe(&self, message: Uuid, open: &OpenState, sign: RelayObservation, why: &str, now: Timestamp) -> Self {
        let undecided = || Self { open: Some(OpenState { probe: None, ..open.clone() }), ..self.clone() };
        let again = |cause, why: &str| {
            let again =
                self.record_opener(cause, message).open_for_cause(cause, why, now, open.times.saturating_add(1));
            Self { open: again.open.map(|again| OpenState { since: open.since, ..again }), ..again }
        };
        match sign {
            // It opened the breaker before, and nobody else waits. This message pays, and the next one
            // probes.
            RelayObservation::Fault(BreakerCause::Policy) if self.refusals.has_opened(message) => undecided(),
            RelayObservation::Fault(cause) => again(cause, why),
            RelayObservation::Refused { ended, .. } => {
                let mut again = again(BreakerCause::Refusals, why);
                again.refusals.ended = self.refusals.ended.saturating_add(u32::from(ended));
                again
            }
            RelayObservation::Bounced if open.cause == BreakerCause::Bounces => again(BreakerCause::Bounces, &open.why),
            RelayObservation::Well(_) | RelayObservation::Works | RelayObservation::Bounced => self.works_again(),
            RelayObservation::Answered if open.cause.ends_with_an_answer() => self.works_again(),
            RelayObservation::Answered | RelayObservation::Nothing => undecided(),
        }
    }

    /// Also resets the counters, which predate the opening.
    fn open_for_cause(&self, cause: BreakerCause, why: &str, now: Timestamp, times: u32) -> Self {
        let (first, longest) = cause.backoff_range();
        let doubled = first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1)));
        let until = add_wait(now, doubled.min(longest));
        Self {
            open: Some(OpenState { cause, why: why.to_owned(), since: now, until, times, probe: None }),
            refusals: RefusalHistory { in_a_row: Vec::new(), ..self.refusals.clone() },
            ..Self::closed()
        }
    }

    fn count_outcomes(self, sent: u32, bounced: u32) -> Self {
        let mut counted = Self {
            sent: self.sent.saturating_add(sent),
            bounced: self.bounced + bounced,
            taken: self.taken.saturating_add(sent),
            ..self
        };
        if counted.taken >= 2 * COMPLAINT_OUTCOMES {
            (counted.taken, counted.complained) = (COMPLAINT_OUTCOMES, counted.complained / 2);
        }
        if counted.sent.saturating_add(counted.bounced) < 2 * BOUNCE_OUTCOMES {
            return counted;
        }
        Self { sent: counted.sent.min(2 * BOUNCE_OUTCOMES) / 2, bounced: counted.bounced / 2, ..counted }
    }

    fn exceeds_bounce_rate(&self) -> bool {
        let outcomes = self.sent + self.bounced;
        outcomes >= BOUNCE_OUTCOMES && self.bounced * ONE_BOUNCE_IN >= outcomes
    }
}

impl StoredWait {
    pub const PROBE: Self = Self::with_longest(PROBE);

    /// Includes the extra wait for the message that opened the breaker.
    #[must_use]
    pub fn of_breaker(cause: BreakerCause) -> Self {
        Self::with_longest(cause.backoff_range().1.saturating_add(OTHERS_FIRST))
    }
}

impl OpenState {
    #[must_use]
    pub fn blocks_probes(&self, now: Timestamp) -> bool {
        StoredWait::of_breaker(self.cause).is_active(self.until, now)
    }

    fn ask_again(&self, now: Timestamp) -> Timestamp {
        let (shortest, longest) = ASK_AGAIN;
        let open_for = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
        add_wait(now, open_for.clamp(shortest, longest))
    }
}

fn add_wait(now: Timestamp, wait: Duration) -> Timestamp {
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
