//! Inputs and answers of the retention workflow's activities. They are workflow history, so no row is in them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A kind of data that is kept for a limited time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Events of ended digests; the age counts from the end.
    Events,
    /// Retracts; the age counts from their arrival.
    Retracts,
    /// Signals that could not be decoded; the age counts from their recording.
    DeadLetters,
    /// Ended messages with their attempts; the age counts from the end.
    Messages,
    /// Delivery events; the age counts from their arrival.
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

/// `upkeep_cutoffs`: asks for the cutoffs, once, so that all batches agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutoffsInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
}

/// The age limit of one kind. `upkeep_purge` archives one batch, if there is an archive, and deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cutoff {
    pub kind: Kind,
    /// Only older rows are purged.
    pub before: Timestamp,
}

/// The answer of `upkeep_purge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// Rows that left the store.
    pub purged: u64,
    /// Rows among them that were archived.
    pub archived: u64,
    /// Set if more rows may be left.
    pub more: bool,
}
