//! Operator commands for a message's workflow. Each is a workflow update; the audit trail records who gave it, why and when.

use serde::{Deserialize, Serialize};

use crate::{
    command::{Command, Order},
    window::Closed,
};

/// The update `retry`: sends a message again that failed, or that waits for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: Order,
    /// An attempt of it was past the dot, so that the recipient may have the mail; send it even so.
    #[serde(default)]
    pub may_duplicate: bool,
}

impl Command for Retry {
    const FIELDS: &'static [&'static str] = &["by", "why", "may_duplicate"];

    fn order(&self) -> &Order {
        &self.order
    }
}

/// The answer of the update `cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// The end of the message: cancelled, unless an attempt was past the dot or the message had ended before.
    pub closed: Option<Closed>,
}
