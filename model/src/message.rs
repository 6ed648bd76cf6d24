//! A single message: commands, and its activities' inputs and results.

/// Operator commands: workflow updates. The audit trail records who sent each, why and when.
pub mod command {
    use serde::{Deserialize, Serialize};

    use crate::{
        command::{CommandContext, OperatorCommand},
        window::WindowEnd,
    };

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RetryCommand {
        #[serde(flatten)]
        pub order: CommandContext,
        /// Send even if the recipient may already have it, because an attempt got past the final dot.
        #[serde(default)]
        pub may_duplicate: bool,
    }

    impl OperatorCommand for RetryCommand {
        const FIELDS: &'static [&'static str] = &["by", "why", "may_duplicate"];

        fn order(&self) -> &CommandContext {
            &self.order
        }
    }

    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CancelResult {
        /// Cancelled, unless it had ended before or an attempt was past the final dot.
        pub closed: Option<WindowEnd>,
    }
}

/// Inputs and results of activities. Workflow history keeps them, so they never contain an address or a body.
pub mod contract {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde::{Deserialize, Serialize};

    use super::command::RetryCommand;
    use crate::MessageKey;
    use crate::{
        command::CommandContext,
        step::{SendAnswer, UnrecordedEnd},
    };

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MessageSendInput {
        /// Used if the activity's clock is behind.
        pub asked_at: Timestamp,
        pub key: MessageKey,
        pub failed: u32,
        /// See [`AttemptResult::delays`]; `None` before the first attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub delays: Option<Vec<Duration>>,
        /// See [`crate::step::SendDigestInput::keeps_ends`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub keeps_ends: bool,
        /// See [`crate::step::SendDigestInput::unrecorded`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub unrecorded: Option<UnrecordedEnd>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AttemptResult {
        pub sent: SendAnswer,
        /// The backoff after each failed attempt, fixed at the first attempt so later configuration changes
        /// do not affect the message.
        pub delays: Vec<Duration>,
    }

    /// Ends the message. Returns the outbox's outcome: the first recorded one wins.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MessageCloseInput {
        /// Used if the activity's clock is behind.
        pub asked_at: Timestamp,
        pub key: MessageKey,
        /// `None` if the workflow was cancelled in Temporal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub order: Option<CommandContext>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RetryInput {
        /// Used if the activity's clock is behind.
        pub asked_at: Timestamp,
        pub key: MessageKey,
        #[serde(flatten)]
        pub retry: RetryCommand,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum RetryResult {
        Queued,
        Refused {
            /// Includes the remedy.
            why: String,
        },
    }
}
