//! `render`: makes the message of a claimed digest and puts it in the outbox. The first write wins. A message that a relay found
//! too large is replaced once.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::window::{Closed, Window};

/// The input of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
    /// Set if the claim stored the message; see [`ClaimAnswer::Claimed`](super::ClaimAnswer::Claimed).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
    /// Set if the outbox has the message and a relay found it too large: make a shorter one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_large: Option<TooLarge>,
}

/// An attempt that ended because the message is too large for the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooLarge {
    /// Number of the attempt.
    pub attempt: u32,
    /// The relay's words.
    pub why: String,
}

/// The answer of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rendered {
    /// The message is in the outbox.
    Stored,
    /// The digest ended without a message, and the ledger has the reason: the recipient left the directory after the claim, or
    /// no shorter message is possible.
    Nothing(Closed),
}
