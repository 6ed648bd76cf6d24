//! `audit`: records commands in the audit trail.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Key;

/// The input of `audit`. The activity has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditInput {
    /// The key whose workflow took the commands.
    pub key: Key,
    /// The commands, in their order.
    pub notes: Vec<Note>,
}

/// A command that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Time of the command, by the server's clock.
    pub at: Timestamp,
    /// The operator's login.
    pub by: String,
    /// The command's name.
    pub action: String,
    /// The reason in words.
    pub why: String,
}
