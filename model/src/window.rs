//! A window: what identifies it, the plan of its deadline in words, what it waits for, and how it ended.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Key;

/// The identity of a window, and of the digest that the window becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The key whose events the window collects.
    pub key: Key,
    /// Id of the digest; see [`Key::digest_id`].
    pub digest_id: Uuid,
    /// Arrival of the first event, by the server's clock.
    pub opened_at: Timestamp,
    /// Time when the window is due. Admission may defer it.
    pub due_at: Timestamp,
}

/// The text between two steps of a plan.
pub const THEN: &str = "; then ";

/// The reason for the time at which a window is claimed or ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Every step that led to the time, in words.
    pub why: String,
    /// The cadence in the syntax of `tidings.toml`. Empty: a former version made the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cadence: String,
    /// IANA name of the zone. Empty: a former version made the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
}

/// The settings that move a deadline, each in the syntax of `tidings.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlineBasis {
    pub cadence: String,
    /// IANA name.
    pub zone: String,
    /// See [`zone_rules`](crate::zone_rules): a window whose plan has others was planned with other zone data. An older version does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_rules: Option<String>,
    pub quiet: Vec<String>,
}

/// The end of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Closed {
    /// The outcome of the window.
    pub outcome: Outcome,
    /// The reason in words; empty for a plain success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

closed_set! {
    /// The outcome of one window.
    pub enum Outcome {
        /// The relay accepted the message.
        Sent = "sent",
        /// There was nothing to send, or the recipient does not want it.
        Skipped = "skipped",
        /// The address is suppressed.
        Suppressed = "suppressed",
        /// The throttle skips instead of deferring.
        Throttled = "throttled",
        /// An operator dropped or cancelled the digest. Its events stay in the ledger.
        Dropped = "dropped",
        /// The recipient was unknown for seven days.
        Unknown = "unknown",
        /// Delivery failed. After the last attempt of a transient failure the events are returned to the key, twice at
        /// most; after a permanent failure they stay with the digest.
        Failed = "failed",
        /// The message may have been delivered: the connection broke after the final dot, and the stream is `at_most_once`.
        Ambiguous = "ambiguous",
    }
}

closed_set! {
    /// A wait of a window or of its digest.
    #[derive(Default)]
    pub enum Wait {
        /// For the deadline that the window was planned with.
        #[default]
        FirstDeadline = "first_deadline",
        Retry = "retry",
        Undo = "undo",
        PauseOfRecipient = "pause_of_recipient",
        PauseOfOperator = "pause_of_operator",
        /// For the end that the hold was given.
        Hold = "hold",
        /// For a release of many keys.
        HoldOfMany = "hold_of_many",
        Breaker = "breaker",
        Throttle = "throttle",
        Cap = "cap",
        UnknownRecipient = "unknown_recipient",
        LateWorker = "late_worker",
        /// An operator released the key by its name.
        Released = "released",
        /// An operator flushed the key by its name, reopened its digest, or gave it a time.
        Flushed = "flushed",
        Urgent = "urgent",
    }
}

/// The moment at which a wait lets a digest go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// The deadline that the cadence makes, spread and put off by quiet hours.
    ByCadence,
    /// The next good moment from the end of the wait on.
    NextGoodMoment,
    /// The end of the wait, at any hour.
    AtOnce,
}

impl Wait {
    /// The table of waits. `docs/timing.md` shows it.
    #[must_use]
    pub const fn goes(self) -> Goes {
        match self {
            Self::FirstDeadline => Goes::ByCadence,
            Self::Retry
            | Self::Undo
            | Self::PauseOfRecipient
            | Self::PauseOfOperator
            | Self::Hold
            | Self::HoldOfMany
            | Self::Breaker
            | Self::Throttle
            | Self::Cap
            | Self::UnknownRecipient
            | Self::LateWorker => Goes::NextGoodMoment,
            Self::Released | Self::Flushed | Self::Urgent => Goes::AtOnce,
        }
    }

    /// What the digest waits for, for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::FirstDeadline => "the deadline of a window, that of events which a failed digest returned too",
            Self::Retry => "another attempt after one that failed",
            Self::Undo => "the end of `undo`",
            Self::PauseOfRecipient => "the end of the recipient's pause",
            Self::PauseOfOperator => "the end of an operator's pause, and the key's share of the spread",
            Self::Hold => "the end of a hold that has one",
            Self::HoldOfMany => "a release of many keys, and the key's share of the spread",
            Self::Breaker => "a relay, while its breaker is open or it refuses for now",
            Self::Throttle => "the end of a throttle",
            Self::Cap => "the end of a cap",
            Self::UnknownRecipient => "a recipient or a digest type that is unknown",
            Self::LateWorker => "a worker, while all of them are away or behind",
            Self::Released => "a release of the key by its name",
            Self::Flushed => "`flush`, `reopen`, or a time by `retime`",
            Self::Urgent => "nothing: an urgent event came",
        }
    }
}

impl Goes {
    /// For people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::ByCadence => "by the cadence",
            Self::NextGoodMoment => "at the next good moment",
            Self::AtOnce => "at once, in quiet hours too",
        }
    }
}
