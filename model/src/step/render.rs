//! `render`: makes the message of a claimed digest and puts it in the outbox. The first write wins.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{outcome::Closed, window::Window};

/// The input of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
}

/// The answer of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rendered {
    /// The message is in the outbox.
    Stored,
    /// The digest ended without a message, and the ledger has the reason: the recipient left the directory after the claim.
    Nothing(Closed),
}
