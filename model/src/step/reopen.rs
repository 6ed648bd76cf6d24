//! `reopen`: resumes a digest that ended without a message, under its `digest_id` and with the events that it has.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::window::Window;
use crate::{Key, command::Reopen};

/// The input of `reopen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReopenInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The key of the digest.
    pub key: Key,
    /// The operator's command.
    #[serde(flatten)]
    pub reopen: Reopen,
}

/// The answer of `reopen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resumed {
    /// The digest is open again.
    Claimed {
        /// The digest's window.
        window: Window,
        /// Events in the digest.
        items: u64,
        /// Lines in its message.
        groups: u64,
    },
    /// The digest stays unchanged.
    Refused {
        /// The reason and the remedy, in words.
        why: String,
    },
}
