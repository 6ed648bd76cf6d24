//! A window: identity, plan, what it waits for, and outcome.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Key;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub key: Key,
    /// See [`Key::digest_id`].
    pub digest_id: Uuid,
    pub opened_at: Timestamp,
    pub due_at: Timestamp,
}

pub const THEN: &str = "; then ";

/// Explains when and why a window is claimed or closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSummary {
    pub why: String,
    /// In `tidings.toml` syntax. Empty from earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cadence: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlineBasis {
    pub cadence: String,
    pub zone: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_rules: Option<String>,
    pub quiet: Vec<String>,
}

/// How a digest ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WindowEnd {
    /// The outcome of the window.
    pub outcome: DigestOutcome,
    /// The reason; empty for a plain success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

closed_set! {
    pub enum DigestOutcome {
        Sent = "sent",
        /// There was nothing to send, or the recipient opted out.
        Skipped = "skipped",
        Suppressed = "suppressed",
        Throttled = "throttled",
        /// An operator dropped or cancelled the digest. Its events stay in the ledger.
        Dropped = "dropped",
        Unknown = "unknown",
        /// After the last attempt at a transient failure, events are returned to the key (at most twice);
        /// after a permanent failure they stay with the digest.
        Failed = "failed",
        /// The message may have been delivered: the connection broke after the final dot of an `at_most_once`
        /// stream.
        Ambiguous = "ambiguous",
    }
}

closed_set! {
    #[derive(Default)]
    pub enum WaitReason {
        /// Its planned deadline.
        #[default]
        FirstDeadline = "first_deadline",
        Retry = "retry",
        Undo = "undo",
        PauseOfRecipient = "pause_of_recipient",
        PauseOfOperator = "pause_of_operator",
        Hold = "hold",
        HoldOfMany = "hold_of_many",
        Breaker = "breaker",
        Throttle = "throttle",
        Cap = "cap",
        UnknownRecipient = "unknown_recipient",
        LateWorker = "late_worker",
        Released = "released",
        Flushed = "flushed",
        Urgent = "urgent",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMoment {
    ByCadence,
    NextGoodMoment,
    AtOnce,
}

impl WaitReason {
    /// Documented in `docs/timing.md`.
    #[must_use]
    pub const fn send_moment(self) -> SendMoment {
        match self {
            Self::FirstDeadline => SendMoment::ByCadence,
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
            | Self::LateWorker => SendMoment::NextGoodMoment,
            Self::Released | Self::Flushed | Self::Urgent => SendMoment::AtOnce,
        }
    }

    #[must_use]
    pub const fn wait_phrase(self) -> &'static str {
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

impl SendMoment {
    #[must_use]
    pub const fn moment_phrase(self) -> &'static str {
        match self {
            Self::ByCadence => "by the cadence",
            Self::NextGoodMoment => "at the next good moment",
            Self::AtOnce => "at once, in quiet hours too",
        }
    }
}
