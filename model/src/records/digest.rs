//! Digests of the ledger and their events, as operators list them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Key,
    records::Page,
    window::{Closed, Outcome, THEN, Window},
};

closed_set! {
    /// The state of a digest in the ledger.
    pub enum DigestState {
        /// Its window collects, and some of its events are stashed.
        Open = "open",
        /// Its events are fixed, and it has no message yet.
        Claimed = "claimed",
        /// Its message is in the outbox.
        Rendered = "rendered",
        /// It has an end.
        Closed = "closed",
    }
}

impl DigestState {
    /// Reports that the digest has neither a message nor an end, so that it takes more events.
    #[must_use]
    pub const fn takes_events(self) -> bool {
        matches!(self, Self::Open | Self::Claimed)
    }
}

/// A digest in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DigestRecord {
    pub digest_id: Uuid,
    pub key: Key,
    pub opened_at: Timestamp,
    pub due_at: Timestamp,
    pub state: DigestState,
    pub claimed_at: Option<Timestamp>,
    /// Time when a relay first accepted the message, whatever the outcome is.
    pub sent_at: Option<Timestamp>,
    pub closed: Option<Closed>,
    pub closed_at: Option<Timestamp>,
    /// Time when the events of the failed digest were returned to the key.
    pub returned_at: Option<Timestamp>,
    /// Time when retention took the first of its events, or its message.
    pub purged_at: Option<Timestamp>,
    /// Events of the digest. The number stays after the events are purged or returned to the key.
    pub items: u64,
    /// The reason for the time, in words. Empty: the window is not claimed yet, or a former version claimed it.
    pub plan_why: String,
    /// The cadence in the syntax of `tidings.toml`, as planned.
    pub cadence: String,
    /// IANA name of the zone, as planned.
    pub zone: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Those among them that ended past the dot without an answer: each may have made a mail.
    pub ambiguous: u32,
}

impl DigestRecord {
    /// Tells if the relay accepted the digest's message.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.closed.as_ref().is_some_and(|closed| closed.outcome == Outcome::Sent)
    }

    /// Tells if the digest was claimed, is past due and has no end (rule 37).
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.state, DigestState::Claimed | DigestState::Rendered) && self.due_at < now
    }

    /// The steps that led to the time, in words and in their order.
    pub fn plan_steps(&self) -> impl Iterator<Item = &str> {
        self.plan_why.split(THEN).filter(|step| !step.is_empty())
    }

    /// The window that became the digest.
    #[must_use]
    pub fn window(&self) -> Window {
        let Self { digest_id, key, opened_at, due_at, .. } = self;
        Window { key: key.clone(), digest_id: *digest_id, opened_at: *opened_at, due_at: *due_at }
    }
}

/// The place of a digest in a listing: the opening of its window, and its id.
pub type DigestPlace = (Timestamp, Uuid);

/// A filter of digests, the latest window first. What is `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct DigestFilter {
    /// Only digests of this tenant
    #[cfg_attr(feature = "clap", arg(long, value_name = "TENANT"))]
    pub tenant: Option<String>,
    /// Only digests of this type
    #[cfg_attr(feature = "clap", arg(long = "type", value_name = "TYPE"))]
    #[serde(rename = "type")]
    pub digest_type: Option<String>,
    /// Only digests of this user
    #[cfg_attr(feature = "clap", arg(long, value_name = "USER", requires = "tenant"))]
    pub user: Option<String>,
    /// Only digests that ended like this
    #[cfg_attr(feature = "clap", arg(long, value_name = "OUTCOME"))]
    pub outcome: Option<Outcome>,
    /// Only digests in this state
    #[cfg_attr(feature = "clap", arg(long, value_name = "STATE"))]
    pub state: Option<DigestState>,
    /// Only windows opened at this time or later: a time as in RFC 3339, or a span before now as in `2h` or `14d`
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub since: Option<Timestamp>,
    /// Only windows opened before this time
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub until: Option<Timestamp>,
    /// Only digests that are [overdue](DigestRecord::is_overdue) at this time.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub overdue_at: Option<Timestamp>,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: Page<DigestPlace>,
}

/// The place of an event among those of a digest: when it occurred, and its id.
pub type EventPlace = (Timestamp, String);

/// An event of a digest, without texts from the producer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DigestEvent {
    pub event_id: String,
    pub category: String,
    pub entity_type: String,
    pub occurred_at: Timestamp,
    pub recorded_at: Timestamp,
    pub urgent: bool,
    /// The reason why the event is in no message, although its window became the digest. `None`: it belongs to the digest.
    pub excluded: Option<String>,
    /// The failed digest that returned the event to the key.
    pub returned_from: Option<Uuid>,
}

// Events of a window that are in no message, although the window became a digest.

closed_set! {
    /// The reason why an event of a window is in no message.
    pub enum Exclusion {
        /// A retract took the event back.
        Retracted = "retracted",
        /// The recipient turned the event's category off.
        OptedOut = "opted out",
        /// The recipient has seen the event, by the service of the digest type.
        Seen = "seen",
        /// The event is older than its category's `max_age`.
        TooOld = "too old",
        /// The window has fewer events of the category than its `min_count`.
        TooFew = "too few",
    }
}

impl Exclusion {
    /// The digest of those events of a window that are excluded for this reason. It ends at once and sends nothing, so that the ledger
    /// has each of them with the reason (rule 1).
    #[must_use]
    pub fn digest_id(self, window: &Window) -> Uuid {
        Uuid::new_v5(&window.digest_id, self.name().as_bytes())
    }

    /// The reason in words, for the ledger.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Retracted => "retracted",
            Self::OptedOut => "the recipient turned their category off",
            Self::Seen => "the recipient has seen them elsewhere",
            Self::TooOld => "older than the max_age of their category",
            Self::TooFew => "fewer than the min_count of their category",
        }
    }
}

// What a retract finds of the events that it covers (rule 6).

closed_set! {
    /// What a retract reached.
    pub enum Reach {
        /// No message has a covered event. None will.
        Pending = "pending",
        /// A message with a covered event waits. It is made again without the event.
        Waiting = "waiting",
        /// An attempt to deliver a message with a covered event has passed the dot: the retract is too late.
        Sent = "sent",
    }
}

/// What a retract reached, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub reach: Reach,
    /// The digest of the message, and the time of its claim.
    pub digest: Option<(Uuid, Option<Timestamp>)>,
}

impl Reached {
    /// No message.
    pub const PENDING: Self = Self { reach: Reach::Pending, digest: None };

    /// The one that counts of two digests with covered events: the one that waits, and then the later one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let rank = |reached: &Self| match reached.reach {
            Reach::Pending => 0,
            Reach::Sent => 1,
            Reach::Waiting => 2,
        };
        let claimed_at = |reached: &Self| reached.digest.and_then(|(_, claimed_at)| claimed_at);
        if (rank(&other), claimed_at(&other)) > (rank(&self), claimed_at(&self)) { other } else { self }
    }
}

impl Reach {
    /// What a retract reaches of a digest in this state, with this end, an attempt of which has passed the dot or not.
    #[must_use]
    pub const fn of(state: DigestState, outcome: Option<Outcome>, past_the_dot: bool) -> Self {
        match (state, outcome) {
            (DigestState::Closed, Some(Outcome::Sent | Outcome::Ambiguous)) => Self::Sent,
            (DigestState::Claimed | DigestState::Rendered, _) if past_the_dot => Self::Sent,
            (DigestState::Claimed | DigestState::Rendered, _) => Self::Waiting,
            (DigestState::Open | DigestState::Closed, _) => Self::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retract_reaches_a_message_until_an_attempt_passes_the_dot() {
        for (state, outcome, past_the_dot, reach) in [
            (DigestState::Open, None, false, Reach::Pending),
            (DigestState::Claimed, None, false, Reach::Waiting),
            (DigestState::Rendered, None, false, Reach::Waiting),
            (DigestState::Rendered, None, true, Reach::Sent),
            (DigestState::Closed, Some(Outcome::Sent), true, Reach::Sent),
            (DigestState::Closed, Some(Outcome::Ambiguous), true, Reach::Sent),
            (DigestState::Closed, Some(Outcome::Skipped), false, Reach::Pending),
            (DigestState::Closed, Some(Outcome::Dropped), false, Reach::Pending),
            (DigestState::Closed, Some(Outcome::Failed), true, Reach::Pending),
        ] {
            assert_eq!(Reach::of(state, outcome, past_the_dot), reach, "{state} {outcome:?} {past_the_dot}");
        }
    }

    #[test]
    fn of_two_digests_the_one_that_waits_counts_and_then_the_later_one() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let reached = |reach, id, second| Reached { reach, digest: Some((Uuid::from_u128(id), at(second))) };
        let [early, late] = [reached(Reach::Sent, 1, 1), reached(Reach::Sent, 2, 2)];
        let waiting = reached(Reach::Waiting, 3, 1);
        for (one, other, counts) in [
            (early, late, late),
            (late, early, late),
            (waiting, late, waiting),
            (late, waiting, waiting),
            (Reached::PENDING, early, early),
            (early, Reached::PENDING, early),
        ] {
            assert_eq!(one.or(other), counts);
        }
    }
}
