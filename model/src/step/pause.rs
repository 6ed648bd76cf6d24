//! A pause in the answers of steps.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::pause::Paused;

/// The wait of a window, a digest or a message for the end of a pause (rule 35).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseWait {
    #[serde(flatten)]
    pub paused: Paused,
    /// Time to ask the store again if no signal comes before.
    pub look_at: Timestamp,
    /// The key's own share of the spread. It passes between a resume and what is overdue (rule 30).
    pub share: Duration,
}
