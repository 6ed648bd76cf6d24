//! `send`: one attempt to deliver the message of a digest.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{outcome::Closed, pause::PauseWait, window::Window};

/// The input of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
    /// Number of failed attempts so far, without those that do not count.
    #[serde(default)]
    pub failed: u32,
}

/// The answer of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// The digest ended, and the ledger has the outcome.
    Closed(Closed),
    /// The attempt failed transiently, or it is ambiguous and the stream is `at_least_once`. The schedule decides when the
    /// next attempt starts.
    Deferred {
        /// The failure in words.
        why: String,
        /// The stream's wait before the next attempt; `None`: the default schedule's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_in: Option<Duration>,
    },
    /// The relay is at fault (credentials, policy, throttling), and not the message, or an operator paused what the message
    /// belongs to: no attempt counts.
    Waiting {
        /// Time to ask again.
        until: Timestamp,
        /// The relay's fault or the pause in words.
        why: String,
        /// The operator's pause, if that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<PauseWait>,
    },
}
