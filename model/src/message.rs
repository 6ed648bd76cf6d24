//! A single message: its key, its commands, and what its workflow asks of activities.

/// Operator commands for a message's workflow. Each is a workflow update; the audit trail records who gave it, why and when.
pub mod command {
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
}

/// Inputs and answers of the message workflow's activities. They are workflow history, so no address and no body is in them.
pub mod contract {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde::{Deserialize, Serialize};

    use super::command::Retry;
    use crate::MessageKey;
    use crate::{
        command::Order,
        step::{Sent, UnrecordedEnd},
    };

    /// `message_send`: one attempt to deliver the message.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SendInput {
        /// The workflow's clock. It counts where the activity's own clock lags behind.
        pub asked_at: Timestamp,
        /// The message.
        pub key: MessageKey,
        /// Attempts so far that failed.
        pub failed: u32,
        /// See [`Attempted::delays`]; `None` before the first attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub delays: Option<Vec<Duration>>,
        /// See [`crate::step::SendInput::keeps_ends`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub keeps_ends: bool,
        /// See [`crate::step::SendInput::unrecorded`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub unrecorded: Option<UnrecordedEnd>,
    }

    /// The answer of `message_send`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attempted {
        /// The result of the attempt.
        pub sent: Sent,
        /// The waits after the first, second ... failed attempt, as the stream had them at the first attempt. A change of the
        /// configuration does not affect messages in delivery.
        pub delays: Vec<Duration>,
    }

    /// `message_close`: ends the message. The answer is the end in the outbox, which is the first one recorded.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CloseInput {
        /// The workflow's clock. It counts where the activity's own clock lags behind.
        pub asked_at: Timestamp,
        /// The message.
        pub key: MessageKey,
        /// The operator and the reason; `None`: the workflow was cancelled in Temporal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub order: Option<Order>,
    }

    /// `message_retry`: resumes the message.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RetryInput {
        /// The workflow's clock. It counts where the activity's own clock lags behind.
        pub asked_at: Timestamp,
        /// The message.
        pub key: MessageKey,
        /// The operator's command.
        #[serde(flatten)]
        pub retry: Retry,
    }

    /// The answer of `message_retry`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Retried {
        /// The message is open again.
        Queued,
        /// The message stays unchanged.
        Refused {
            /// The reason and the remedy, in words.
            why: String,
        },
    }
}
