//! Inputs and outputs of the retention workflow's activities. Workflow history keeps them, so they contain no
//! rows.

use std::time::Duration;

use jiff::{Timestamp, civil::Time};
use serde::{Deserialize, Serialize};

use crate::Key;

/// How long rows stay, unless configured.
pub const DEFAULT_AGE: Duration = Duration::from_hours(90 * 24);
/// When retention runs each night, in UTC, unless configured.
pub const DEFAULT_TIME: Time = Time::constant(3, 30, 0, 0);

closed_set! {
    pub enum RetentionKind {
        /// Events of closed digests; age counts from the end.
        Events = "events",
        Retracts = "retracts",
        /// Signals that could not be decoded; age counts from when they were recorded.
        DeadLetters = "dead_letters",
        Messages = "messages",
        DeliveryEvents = "delivery_events",
        /// Events in the gateway's inbox; age counts from forwarding. Never archived.
        Inbox = "inbox",
        /// Delivered or dead notices; age counts from then. Never archived.
        Notices = "notices",
    }
}

impl RetentionKind {
    #[must_use]
    pub const fn display_name(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead letters",
            Self::DeliveryEvents => "delivery events",
            Self::Inbox => "forwarded events of the inbox",
            other => other.name(),
        }
    }
}

/// Input of `upkeep_cutoffs`: computes all cutoffs once, so batches agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutoffsInput {
    pub asked_at: Timestamp,
}

/// Input of `upkeep_purge`, which archives (if configured) and deletes one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionCutoff {
    pub kind: RetentionKind,
    pub before: Timestamp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeAnswer {
    pub purged: u64,
    pub archived: u64,
    pub more: bool,
}

/// A key's older retracts are no longer needed by any open window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetractExpiry {
    pub key: Key,
    pub before: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRecord {
    pub folder: String,
    /// Before the first file; `None` if nothing was written there.
    pub begun_at: Option<Timestamp>,
    /// File names below the folder, ordered by the age of their rows. Empty if unknown.
    pub first_file: String,
    pub last_file: String,
    /// Since when writing to the folder fails and upkeep waits for it.
    pub failed_at: Option<Timestamp>,
    pub failure: Option<String>,
}
