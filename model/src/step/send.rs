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
    /// Set if the workflow has a shorter message made when the relay finds this one too large. Workflows of earlier versions
    /// leave that to the attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortens: bool,
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
    /// belongs to, or the message is too large: no attempt counts.
    Waiting {
        /// Time to ask again.
        until: Timestamp,
        /// The relay's words or the pause in words.
        why: String,
        /// The operator's pause, if that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<PauseWait>,
        /// The number of the attempt, if the relay found the message too large. A shorter one is to be made first. Only for a
        /// workflow that [shortens](SendInput::shortens).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        too_large: Option<u32>,
    },
}
