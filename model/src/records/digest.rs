//! Digests of the ledger and their events, as operators list them.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::Page;
use crate::{
    Key,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestFilter {
    pub tenant: Option<String>,
    pub digest_type: Option<String>,
    pub user: Option<String>,
    pub outcome: Option<Outcome>,
    pub state: Option<DigestState>,
    /// Windows opened at this time or later.
    pub since: Option<Timestamp>,
    /// Windows opened before this time.
    pub until: Option<Timestamp>,
    /// Only digests that are [overdue](DigestRecord::is_overdue) at this time.
    pub overdue_at: Option<Timestamp>,
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
