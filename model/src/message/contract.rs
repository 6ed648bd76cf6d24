//! What the message workflow asks of the outside world. No address and no body passes through here: all of it is history.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{MessageKey, command::Retry};
use crate::{command::Order, contract::Sent};

/// `message_send`: one attempt to deliver the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// Which message.
    pub key: MessageKey,
    /// Attempts so far that failed.
    pub failed: u32,
    /// See [`Attempted::delays`]; `None`: nobody has asked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Vec<Duration>>,
}

/// The answer of `message_send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempted {
    /// What came of it.
    pub sent: Sent,
    /// The waits after the first, second ... failed attempt, as its stream had them when the first one was made: a change of
    /// the configuration does not move what is on its way.
    pub delays: Vec<Duration>,
}

/// `message_close`: nothing more is sent. Answers with the end that the outbox has, which is the first one recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// Which message.
    pub key: MessageKey,
    /// Who wants it, and why; `None`: somebody cancelled the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// `message_retry`: take the message up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// Which message.
    pub key: MessageKey,
    /// Who, why and whether a second mail does harm.
    #[serde(flatten)]
    pub retry: Retry,
}

/// The answer of `message_retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retried {
    /// The message has no end any more.
    Queued,
    /// It stays as it is.
    Refused {
        /// Why, and what could be done, in words.
        why: String,
    },
}
