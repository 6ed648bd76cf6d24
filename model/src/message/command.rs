//! What an operator can tell a message's workflow. Each is a workflow update; each is audited with who, why and when.

use serde::{Deserialize, Serialize};

use crate::{command::Order, contract::Closed};

/// The update `retry`: send a message again that came to nothing, or that waits for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Who, and why.
    #[serde(flatten)]
    pub order: Order,
    /// An attempt of it was past the dot, so that the recipient may have the mail; send it even so.
    #[serde(default)]
    pub may_duplicate: bool,
}

/// The answer of the update `cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// How the message ended: cancelled, unless an attempt was past the dot or it had an end before.
    pub closed: Option<Closed>,
}
