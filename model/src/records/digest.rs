//! Digests in the ledger and their events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Key,
    records::PageRequest,
    window::{DigestOutcome, THEN, Window, WindowEnd},
};

closed_set! {
    pub enum DigestState {
        /// Some events are already in the ledger.
        Open = "open",
        /// The events are fixed, but there is no message yet.
        Claimed = "claimed",
        /// The message is in the outbox.
        Rendered = "rendered",
        /// The digest has an outcome.
        Closed = "closed",
    }
}

impl DigestState {
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
    /// When a relay first accepted the message, whatever the outcome.
    pub sent_at: Option<Timestamp>,
    pub closed: Option<WindowEnd>,
    pub closed_at: Option<Timestamp>,
    /// When a failed digest returned its events to the key.
    pub returned_at: Option<Timestamp>,
    /// When retention first deleted events or the message.
    pub purged_at: Option<Timestamp>,
    /// Stays the same when events are purged or returned.
    pub items: u64,
    /// Why the digest is due then. Empty before the claim, or if an older version made it.
    pub plan_why: String,
    /// In the syntax of `tidings.toml`.
    pub cadence: String,
    /// IANA name.
    pub zone: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Ended past the final dot without a reply, so each may have delivered an email.
    pub ambiguous: u32,
}

impl DigestRecord {
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.closed.as_ref().is_some_and(|closed| closed.outcome == DigestOutcome::Sent)
    }

    /// Returns `true` if the digest was claimed, is past due and has no outcome (rule 37).
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.state, DigestState::Claimed | DigestState::Rendered) && self.due_at < now
    }

    pub fn plan_steps(&self) -> impl Iterator<Item = &str> {
        self.plan_why.split(THEN).filter(|step| !step.is_empty())
    }

    #[must_use]
    pub fn window(&self) -> Window {
        let Self { digest_id, key, opened_at, due_at, .. } = self;
        Window { key: key.clone(), digest_id: *digest_id, opened_at: *opened_at, due_at: *due_at }
    }
}

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
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    pub digest_type: Option<String>,
    /// Only digests of this user
    #[cfg_attr(feature = "clap", arg(long, value_name = "USER", requires = "tenant"))]
    pub user: Option<String>,
    /// Only digests that ended like this
    #[cfg_attr(feature = "clap", arg(long, value_name = "OUTCOME"))]
    pub outcome: Option<DigestOutcome>,
    /// Only digests in this state
    #[cfg_attr(feature = "clap", arg(long, value_name = "STATE"))]
    pub state: Option<DigestState>,
    /// Only windows opened at this time or later: a time as in RFC 3339, or a span before now as in `2h` or `14d`
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::parse_past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub since: Option<Timestamp>,
    /// Only windows opened before this time
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::parse_past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub until: Option<Timestamp>,
    /// Only digests that are [overdue](DigestRecord::is_overdue) at this time.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub overdue_at: Option<Timestamp>,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: PageRequest<DigestPlace>,
}

pub type EventPlace = (Timestamp, String);

/// Excludes the producer's texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DigestEvent {
    pub event_id: String,
    pub category: String,
    pub entity_type: String,
    pub occurred_at: Timestamp,
    pub recorded_at: Timestamp,
    pub urgent: bool,
    /// Missing if the event belongs to the digest.
    pub excluded: Option<String>,
    /// The failed digest that returned the event to its key.
    pub returned_from: Option<Uuid>,
}

// Their window became a digest, but no message includes these events.

closed_set! {
    /// Why an event was excluded from its window's message.
    pub enum EventExclusion {
        Retracted = "retracted",
        OptedOut = "opted out",
        /// According to the digest type's own service.
        Seen = "seen",
        /// Older than `max_age`.
        TooOld = "too old",
        /// Fewer than `min_count`.
        TooFew = "too few",
    }
}

impl EventExclusion {
    /// An extra digest, which ends immediately and sends nothing, so the ledger has each excluded event with
    /// the reason (rule 1).
    #[must_use]
    pub fn digest_id(self, window: &Window) -> Uuid {
        Uuid::new_v5(&window.digest_id, self.name().as_bytes())
    }

    #[must_use]
    pub const fn ledger_reason(self) -> &'static str {
        match self {
            Self::Retracted => "retracted",
            Self::OptedOut => "the recipient turned their category off",
            Self::Seen => "the recipient has seen them elsewhere",
            Self::TooOld => "older than the max_age of their category",
            Self::TooFew => "fewer than the min_count of their category",
        }
    }
}

// The effect of a retract on the events it covers (rule 6).

closed_set! {
    pub enum RetractReach {
        /// No message has or will have a covered event.
        Pending = "pending",
        /// A waiting message will be rendered again without the event.
        Waiting = "waiting",
        /// Too late: an attempt is past the final dot.
        Sent = "sent",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetractEffect {
    pub reach: RetractReach,
    /// The digest, and when it was claimed.
    pub digest: Option<(Uuid, Option<Timestamp>)>,
}

impl RetractEffect {
    pub const PENDING: Self = Self { reach: RetractReach::Pending, digest: None };

    /// A waiting message wins, then the later digest.
    #[must_use]
    pub fn prefer_waiting(self, other: Self) -> Self {
        let rank = |reached: &Self| match reached.reach {
            RetractReach::Pending => 0,
            RetractReach::Sent => 1,
            RetractReach::Waiting => 2,
        };
        let claimed_at = |reached: &Self| reached.digest.and_then(|(_, claimed_at)| claimed_at);
        if (rank(&other), claimed_at(&other)) > (rank(&self), claimed_at(&self)) { other } else { self }
    }
}

impl RetractReach {
    #[must_use]
    pub const fn from_digest(state: DigestState, outcome: Option<DigestOutcome>, past_the_dot: bool) -> Self {
        match (state, outcome) {
            (DigestState::Closed, Some(DigestOutcome::Sent | DigestOutcome::Ambiguous)) => Self::Sent,
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
            (DigestState::Open, None, false, RetractReach::Pending),
            (DigestState::Claimed, None, false, RetractReach::Waiting),
            (DigestState::Rendered, None, false, RetractReach::Waiting),
            (DigestState::Rendered, None, true, RetractReach::Sent),
            (DigestState::Closed, Some(DigestOutcome::Sent), true, RetractReach::Sent),
            (DigestState::Closed, Some(DigestOutcome::Ambiguous), true, RetractReach::Sent),
            (DigestState::Closed, Some(DigestOutcome::Skipped), false, RetractReach::Pending),
            (DigestState::Closed, Some(DigestOutcome::Dropped), false, RetractReach::Pending),
            (DigestState::Closed, Some(DigestOutcome::Failed), true, RetractReach::Pending),
        ] {
            assert_eq!(
                RetractReach::from_digest(state, outcome, past_the_dot),
                reach,
                "{state} {outcome:?} {past_the_dot}"
            );
        }
    }

    #[test]
    fn of_two_digests_the_one_that_waits_counts_and_then_the_later_one() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let reached = |reach, id, second| RetractEffect { reach, digest: Some((Uuid::from_u128(id), at(second))) };
        let [early, late] = [reached(RetractReach::Sent, 1, 1), reached(RetractReach::Sent, 2, 2)];
        let waiting = reached(RetractReach::Waiting, 3, 1);
        for (one, other, counts) in [
            (early, late, late),
            (late, early, late),
            (waiting, late, waiting),
            (late, waiting, waiting),
            (RetractEffect::PENDING, early, early),
            (early, RetractEffect::PENDING, early),
        ] {
            assert_eq!(one.prefer_waiting(other), counts);
        }
    }
}
