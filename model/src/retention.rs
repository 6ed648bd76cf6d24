//! Inputs and answers of the retention workflow's activities. They are workflow history, so no row is in them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Key;

closed_set! {
    /// A kind of data that is kept for a limited time.
    pub enum Kind {
        /// Events of ended digests; the age counts from the end.
        Events = "events",
        /// Retracts; the age counts from their arrival.
        Retracts = "retracts",
        /// Signals that could not be decoded; the age counts from their recording.
        DeadLetters = "dead_letters",
        /// Ended messages with their attempts; the age counts from the end.
        Messages = "messages",
        /// Delivery events; the age counts from their arrival.
        DeliveryEvents = "delivery_events",
        /// Events of the gateway's inbox; the age counts from their forwarding. They are never archived.
        Inbox = "inbox",
        /// Notices to subscriptions that were delivered or are dead letters; the age counts from then. They are never archived.
        Notices = "notices",
    }
}

impl Kind {
    /// The name in sentences.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead letters",
            Self::DeliveryEvents => "delivery events",
            Self::Inbox => "forwarded events of the inbox",
            other => other.name(),
        }
    }
}

/// `upkeep_cutoffs`: asks for the cutoffs, once, so that all batches agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutoffsInput {
    /// The workflow's clock, which is Temporal's.
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

/// Retracts of a key that no open window needs: those that came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetractExpiry {
    pub key: Key,
    pub before: Timestamp,
}

/// A folder that retention archives to, or once did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRecord {
    /// Absolute.
    pub folder: String,
    /// A time before the first file. `None`: nothing was written there.
    pub begun_at: Option<Timestamp>,
    /// Names below the folder, by the age of the rows in them. Empty: not known.
    pub first_file: String,
    pub last_file: String,
    /// The time since which upkeep waits for the folder, which takes nothing.
    pub failed_at: Option<Timestamp>,
    pub failure: Option<String>,
}
