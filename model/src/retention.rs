//! What the upkeep workflow asks of the outside world. No row passes through here: all of it is history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is kept for a time only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Events of digests that have their end; their age counts from it.
    Events,
    /// What took events back; the age counts from then.
    Retracts,
    /// Signals that could not be decoded; the age counts from their burial.
    DeadLetters,
    /// Messages that have their end, with their attempts; the age counts from it.
    Messages,
    /// What providers told of messages; the age counts from then.
    DeliveryEvents,
}

impl Kind {
    /// In the order in which they are purged: a retract outlives the events that it covers.
    pub const ALL: [Self; 5] = [Self::Events, Self::Retracts, Self::DeadLetters, Self::Messages, Self::DeliveryEvents];

    /// The name in JSON, logs and archives.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Retracts => "retracts",
            Self::DeadLetters => "dead_letters",
            Self::Messages => "messages",
            Self::DeliveryEvents => "delivery_events",
        }
    }

    /// The name in sentences.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead letters",
            Self::DeliveryEvents => "delivery events",
            other => other.name(),
        }
    }
}

/// `upkeep_cutoffs`: what is to go. Asked once, so that all batches agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutoffsInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
}

/// What of a kind is to go. `upkeep_purge` takes one batch of it: archives it, where there is an archive, and deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cutoff {
    pub kind: Kind,
    /// Only what is older.
    pub before: Timestamp,
}

/// The answer of `upkeep_purge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// Rows that left the store.
    pub purged: u64,
    /// How many of them are in the archive.
    pub archived: u64,
    /// There may be more.
    pub more: bool,
}
