//! A circuit breaker for each relay: it opens, lets one message at a time try the relay, and closes. A tenant with a table of its
//! own has one more for each relay. It has what is about the tenant's mail, bounces and complaints, so that they stop no other mail.
//!
//! Pure: what it sees goes in, what to remember comes out. The store shares it between workers (see `Relays`).

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

mod refusals;

pub use refusals::{DomainRun, Refusals, Refused, tag};

use crate::{
    StoredWait,
    attempt::{AttemptClass, Phase},
    replies::{About, Quota, ReplyRow},
};

/// Consecutive failures to connect and authenticate that make an outage ...
const OUTAGE_FAILURES: u32 = 5;
/// ... if the last follows the first within this time.
const OUTAGE_WITHIN: Duration = Duration::from_mins(5);
/// Outcomes that a bounce rate needs, and twice as many are the most that count: then the older half is forgotten.
const BOUNCE_OUTCOMES: u32 = 100;
/// Opens at one bounce in this many outcomes: the rate at which Amazon SES may pause an account.
const ONE_BOUNCE_IN: u32 = 10;
/// Twice as many messages are the most that count for the rate of complaints: then the older half is forgotten.
const COMPLAINT_OUTCOMES: u32 = 1_000;
/// Opens at this many complaints in a thousand messages, never at fewer: the rate that Gmail and Yahoo do not accept.
const COMPLAINTS: u32 = 3;
/// A message that tries a relay is waited for no longer: more than the timeouts of a delivery without an answer.
const PROBE: Duration = Duration::from_mins(15);
/// Waiting messages ask again after as long as the relay has been open, within these bounds: an operator may close it.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));

/// A message that opened a breaker lets others try the relay for so long, before it does itself. Others ask when their time comes.
const OTHERS_FIRST: Duration = Duration::from_mins(1);

/// The state of a relay's breaker. A new relay has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// `None`: closed, and mail goes.
    pub open: Option<Open>,
    /// Failures to connect and log in, one after the other.
    pub failures: u32,
    /// The first of them.
    pub failing_since: Option<Timestamp>,
    /// Of the latest outcomes, the good ones.
    pub sent: u32,
    /// The others: addresses that do not exist.
    pub bounced: u32,
    /// Of the latest accepted messages, the number that counts for the rate of complaints.
    pub taken: u32,
    /// The complaints about them.
    pub complained: u32,
    /// Refusals of recipients by which it may mean us.
    pub refusals: Refusals,
}

/// A breaker as the store has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionedBreaker {
    /// Counts its changes; 0: there was none.
    pub revision: u64,
    pub breaker: Breaker,
}

/// A relay that is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub cause: Cause,
    /// The relay's reply or the operator's reason.
    pub why: String,
    pub since: Timestamp,
    /// Time from which one message at a time may try the relay. [`Timestamp::MAX`]: until an operator closes the breaker.
    pub until: Timestamp,
    /// Number of times the breaker opened since it was last closed.
    pub times: u32,
    /// The message that is trying it.
    pub probe: Option<Probe>,
}

/// One message that tries a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub message: Uuid,
    /// Then another one may.
    pub until: Timestamp,
}

closed_set! {
    /// Why a relay is left alone.
    pub enum Cause {
        /// It rejects us, not the recipient (5.7.x).
        Policy = "policy",
        /// It does not take our credentials or settings.
        Configuration = "configuration",
        /// It cannot be reached, or takes no message from anybody.
        Outage = "outage",
        /// Too many addresses do not exist: going on would spoil our name.
        Bounces = "bounces",
        /// It wants less mail.
        Throttled = "throttled",
        /// Too many recipients complain: going on would spoil our name.
        Complaints = "complaints",
        /// An operator said so.
        Operator = "operator",
        /// Our quota of an hour is used up.
        HourlyQuota = "hourly_quota",
        /// Our quota of a day is used up.
        DailyQuota = "daily_quota",
        /// It refuses every recipient.
        Refusals = "refusals",
    }
}

impl Cause {
    /// The first wait and the longest wait. The wait doubles with every message that fails.
    const fn waits(self) -> (Duration, Duration) {
        match self {
            Self::Policy | Self::Configuration | Self::Refusals => (Duration::from_mins(5), Duration::from_hours(1)),
            Self::Outage => (Duration::from_secs(30), Duration::from_mins(5)),
            Self::Throttled => (Duration::from_mins(1), Duration::from_mins(15)),
            Self::Bounces | Self::Complaints => (Duration::from_mins(30), Duration::from_hours(4)),
            // Nobody says when a quota began. Asking costs no attempt, so that the end is found by asking now and then.
            Self::HourlyQuota => (Duration::from_mins(10), Duration::from_hours(1)),
            Self::DailyQuota => (Duration::from_hours(1), Duration::from_hours(4)),
            Self::Operator => (Duration::MAX, Duration::MAX),
        }
    }

    /// The cause is the mail and not the relay. It concerns only the tenants whose mail it is.
    #[must_use]
    pub const fn is_about_mail(self) -> bool {
        matches!(self, Self::Bounces | Self::Complaints)
    }

    /// An answer past AUTH, whatever it is, shows that it is over.
    const fn ends_with_an_answer(self) -> bool {
        matches!(self, Self::Configuration | Self::Outage)
    }
}

/// The name of a breaker: the relay's, or `RELAY/TENANT` for what is about the mail of a tenant. No relay has a `/` in its name.
#[must_use]
pub fn name(relay: &str, tenant: Option<&str>) -> String {
    tenant.map_or_else(|| relay.to_owned(), |tenant| format!("{relay}/{tenant}"))
}

/// Returns the relay and the tenant of a breaker's name.
#[must_use]
pub fn parts(name: &str) -> (&str, Option<&str>) {
    name.split_once('/').map_or((name, None), |(relay, tenant)| (relay, Some(tenant)))
}

/// A report about a message that its relay took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The address does not exist.
    Bounced,
    /// The recipient complained.
    Complained,
}

/// May a message go by this relay?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Go,
    /// As the only one, once this is remembered.
    Try(Box<Breaker>),
    /// Not now.
    Wait {
        /// Time to ask again.
        until: Timestamp,
    },
}

/// The observation that an attempt makes of its relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The relay accepted this number of messages.
    Well(u32),
    /// It works, and accepted nothing.
    Works,
    /// It says that the address does not exist.
    Bounced,
    /// It refuses the recipient, and may mean us.
    Refused {
        /// See [`tag`].
        recipient: u32,
        /// See [`tag`].
        domain: u32,
        /// It has messages of this domain only.
        is_alone: bool,
        /// The digest or message ended with the refusal.
        ended: bool,
    },
    /// It answered after we had logged in.
    Answered,
    /// It is to be left alone.
    Fault(Cause),
    /// Nothing.
    Nothing,
}

impl Sign {
    /// Derives the observation from the end of an attempt. `replied`: the relay ended the attempt with a reply. `refusal` is its row, if
    /// the reply is a refusal.
    #[must_use]
    pub fn of(phase: Phase, class: AttemptClass, replied: bool, refusal: Option<&ReplyRow>) -> Self {
        match class {
            AttemptClass::Sent => Self::Well(1),
            AttemptClass::HardBounce => Self::Bounced,
            AttemptClass::Policy => Self::Fault(Cause::Policy),
            AttemptClass::Configuration => Self::Fault(Cause::Configuration),
            AttemptClass::Throttled => Self::Fault(match refusal.and_then(|row| row.quota) {
                Some(Quota::Hour) => Cause::HourlyQuota,
                Some(Quota::Day) => Cause::DailyQuota,
                None => Cause::Throttled,
            }),
            AttemptClass::Deferred if phase <= Phase::Auth => Self::Fault(Cause::Outage),
            AttemptClass::Deferred => match refusal.map(|row| row.about) {
                // Other connections of ours work.
                Some(About::Connections) => Self::Nothing,
                Some(About::Us | About::Session) => Self::Fault(Cause::Outage),
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

    /// Returns what the sign says of the relay alone.
    #[must_use]
    pub const fn of_relay(self) -> Self {
        match self {
            Self::Well(_) => Self::Well(0),
            // Whatever it says of the address.
            Self::Bounced => Self::Works,
            other => other,
        }
    }

    /// Returns what the sign says of the mail alone.
    #[must_use]
    pub const fn of_mail(self) -> Self {
        match self {
            Self::Well(_) | Self::Bounced => self,
            Self::Works | Self::Refused { .. } | Self::Answered | Self::Fault(_) | Self::Nothing => Self::Nothing,
        }
    }
}

impl Breaker {
    /// May `message` go by it?
    #[must_use]
    pub fn ask(&self, message: Uuid, now: Timestamp) -> Answer {
        let Some(open) = &self.open else { return Answer::Go };
        let is_held = |probe: &Probe| probe.message != message && StoredWait::PROBE.holds(probe.until, now);
        let taken = open.probe.as_ref().is_some_and(is_held);
        let others_first = if self.refusals.has_opened(message) { OTHERS_FIRST } else { Duration::ZERO };
        let opens = later(open.until, others_first);
        let rests = StoredWait::of_breaker(open.cause).holds(opens, now);
        if rests || taken {
            // One that must not try it before the others has no reason to ask every few seconds.
            let soon = open.ask_again(now).max(later(now, others_first));
            let until = if rests { soon.min(opens) } else { soon };
            return Answer::Wait { until };
        }
        let probe = Some(Probe { message, until: later(now, PROBE) });
        Answer::Try(Box::new(Self { open: Some(Open { probe, ..open.clone() }), ..self.clone() }))
    }

    /// Returns the breaker after an attempt of `message`; `None`: nothing changes. `why` is the relay's reply.
    #[must_use]
    pub fn after(&self, message: Uuid, sign: Sign, why: &str, now: Timestamp) -> Option<Self> {
        match &self.open {
            None => self.while_closed(message, sign, why, now),
            Some(open) if open.probe.as_ref().is_some_and(|probe| probe.message == message) => {
                Some(self.after_probe(message, open, sign, why, now))
            }
            // The attempt began before the breaker opened.
            Some(_) => None,
        }
    }

    /// Returns the breaker after a report about an accepted message; `None`: nothing changes. The report says nothing of whether
    /// a relay that is left alone works.
    #[must_use]
    pub fn reported(&self, evidence: Evidence, now: Timestamp) -> Option<Self> {
        if self.open.is_some() {
            return None;
        }
        Some(match evidence {
            // The message was counted as accepted.
            Evidence::Bounced => Self { sent: self.sent.saturating_sub(1), ..self.clone() }.with_bounce(now),
            Evidence::Complained => self.with_complaint(now),
        })
    }

    /// An operator leaves it alone.
    #[must_use]
    pub fn opened(&self, why: &str, now: Timestamp) -> Self {
        self.opening(Cause::Operator, why, now, 1)
    }

    /// Reports if the message pays for a refusal of this class: an attempt, or its end. If not, the relay is to blame and the message waits.
    /// Where it is refused by policy (5.7.x), the first time opens the breaker. Where its recipient is refused, it pays, unless it tries an
    /// open relay: then it pays only if every other waiting message has tried before, and two digests at most do.
    #[must_use]
    pub fn charges(&self, message: Uuid, class: AttemptClass) -> bool {
        let refusals = &self.refusals;
        match (class, &self.open) {
            (AttemptClass::Policy, _) => refusals.has_opened(message),
            (AttemptClass::Refused | AttemptClass::RecipientPolicy, Some(_)) => {
                refusals.has_opened(message) && refusals.may_end()
            }
            _ => true,
        }
    }

    /// Remembers that messages to more than one domain go by the relay; `None`: that is known.
    #[must_use]
    pub fn mixed(&self) -> Option<Self> {
        let refusals = || Refusals { is_mixed: true, ..self.refusals.clone() };
        (!self.refusals.is_mixed).then(|| Self { refusals: refusals(), ..self.clone() })
    }

    /// Remembers for which sender it opened. If nobody sends so any more, it says nothing about the relay.
    #[must_use]
    pub fn for_sender(self, sender: &str) -> Self {
        Self { refusals: Refusals { sender: Some(sender.to_owned()), ..self.refusals }, ..self }
    }

    /// It works, as far as anybody knows.
    #[must_use]
    pub fn closed() -> Self {
        Self::default()
    }

    /// It works again.
    fn works_again(&self) -> Self {
        Self { refusals: self.refusals.clone().accepted(), ..Self::closed() }
    }

    fn while_closed(&self, message: Uuid, sign: Sign, why: &str, now: Timestamp) -> Option<Self> {
        let answers = Self { failures: 0, failing_since: None, ..self.clone() };
        let is_news = self.failures > 0;
        match sign {
            Sign::Well(count) => {
                let refusals = self.refusals.clone().accepted();
                Some(Self { refusals, ..answers }.counted(count, 0))
            }
            Sign::Bounced => Some(answers.with_bounce(now)),
            Sign::Refused { recipient, domain, is_alone, ended } if !self.refusals.has_opened(message) => {
                let mut refusals = self.refusals.clone();
                if refusals.add(Refused { message, recipient, domain, ended }, is_alone) {
                    let blamed = Self { refusals: refusals.blamed(), ..self.clone() };
                    return Some(blamed.opening(Cause::Refusals, why, now, 1));
                }
                Some(Self { refusals, ..answers })
            }
            // One message opens it at most once.
            Sign::Fault(Cause::Policy) if self.refusals.has_opened(message) => is_news.then_some(answers),
            Sign::Works | Sign::Answered | Sign::Refused { .. } => is_news.then_some(answers),
            Sign::Fault(Cause::Outage) => Some(self.failed(why, now)),
            Sign::Fault(cause) => Some(self.blaming(cause, message).opening(cause, why, now, 1)),
            Sign::Nothing => None,
        }
    }

    /// Remembers the message that met a rejection by policy.
    fn blaming(&self, cause: Cause, message: Uuid) -> Self {
        let refusals = self.refusals.clone();
        let is_opener = matches!(cause, Cause::Policy | Cause::Refusals);
        Self { refusals: if is_opener { refusals.opened_by(message) } else { refusals }, ..self.clone() }
    }

    fn with_bounce(self, now: Timestamp) -> Self {
        let counted = self.counted(0, 1);
        let why = format!("{} of {} messages bounced", counted.bounced, counted.bounced + counted.sent);
        if counted.bounces() { counted.opening(Cause::Bounces, &why, now, 1) } else { counted }
    }

    fn with_complaint(&self, now: Timestamp) -> Self {
        let counted = Self { complained: self.complained + 1, ..self.clone() };
        let Self { complained, taken, .. } = counted;
        if complained < COMPLAINTS || complained * COMPLAINT_OUTCOMES < COMPLAINTS * taken {
            return counted;
        }
        let why = format!("{complained} complaints about the latest messages");
        self.opening(Cause::Complaints, &why, now, 1)
    }

    fn failed(&self, why: &str, now: Timestamp) -> Self {
        let recent = |since: &Timestamp| now < later(*since, OUTAGE_WITHIN) && StoredWait::PAST.believes(*since, now);
        let since = self.failing_since.filter(recent);
        let failures = since.map_or(0, |_| self.failures).saturating_add(1);
        if failures >= OUTAGE_FAILURES {
            return self.opening(Cause::Outage, why, now, 1);
        }
        Self { failures, failing_since: since.or(Some(now)), ..self.clone() }
    }

    fn after_probe(&self, message: Uuid, open: &Open, sign: Sign, why: &str, now: Timestamp) -> Self {
        let undecided = || Self { open: Some(Open { probe: None, ..open.clone() }), ..self.clone() };
        let again = |cause, why: &str| {
            let again = self.blaming(cause, message).opening(cause, why, now, open.times.saturating_add(1));
            Self { open: again.open.map(|again| Open { since: open.since, ..again }), ..again }
        };
        match sign {
            // It opened the breaker before, and nobody else waits: it pays itself, and the next message tries.
            Sign::Fault(Cause::Policy) if self.refusals.has_opened(message) => undecided(),
            Sign::Fault(cause) => again(cause, why),
            Sign::Refused { ended, .. } => {
                let mut again = again(Cause::Refusals, why);
                again.refusals.ended = self.refusals.ended.saturating_add(u32::from(ended));
                again
            }
            Sign::Bounced if open.cause == Cause::Bounces => again(Cause::Bounces, &open.why),
            Sign::Well(_) | Sign::Works | Sign::Bounced => self.works_again(),
            Sign::Answered if open.cause.ends_with_an_answer() => self.works_again(),
            Sign::Answered | Sign::Nothing => undecided(),
        }
    }

    /// Resets the counters, which are from the time before the breaker opened.
    fn opening(&self, cause: Cause, why: &str, now: Timestamp, times: u32) -> Self {
        let (first, longest) = cause.waits();
        let doubled = first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1)));
        let until = later(now, doubled.min(longest));
        Self {
            open: Some(Open { cause, why: why.to_owned(), since: now, until, times, probe: None }),
            refusals: Refusals { in_a_row: Vec::new(), ..self.refusals.clone() },
            ..Self::closed()
        }
    }

    fn counted(self, sent: u32, bounced: u32) -> Self {
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

    fn bounces(&self) -> bool {
        let outcomes = self.sent + self.bounced;
        outcomes >= BOUNCE_OUTCOMES && self.bounced * ONE_BOUNCE_IN >= outcomes
    }
}

impl StoredWait {
    /// A message tries a relay, and others wait for its result.
    pub const PROBE: Self = Self::of(PROBE);

    /// An open breaker lets nothing through, nor yet the message that opened it.
    #[must_use]
    pub fn of_breaker(cause: Cause) -> Self {
        Self::of(cause.waits().1.saturating_add(OTHERS_FIRST))
    }
}

impl Open {
    /// No message may try the relay yet.
    #[must_use]
    pub fn rests(&self, now: Timestamp) -> bool {
        StoredWait::of_breaker(self.cause).holds(self.until, now)
    }

    fn ask_again(&self, now: Timestamp) -> Timestamp {
        let (shortest, longest) = ASK_AGAIN;
        let open_for = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
        later(now, open_for.clamp(shortest, longest))
    }
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
