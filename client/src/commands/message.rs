//! Commands to the workflow of a single message.

use serde::{Serialize, de::DeserializeOwned};
use tidings_model::{
    MessageKey,
    command::Order,
    message::{
        command::{Cancelled, Retry},
        contract::Retried,
    },
    names,
    settings::StreamName,
};
use tracing::instrument;

use super::{
    error::CommandError,
    update::{Caller, Named, Paused, Target, unless_paused},
};
use crate::start::{message_search_attributes, message_task_queue};

const RETRY: Named<Retry, Retried> = Named::new("retry");
const CANCEL: Named<Order, Cancelled> = Named::new("cancel");

/// The commands to the workflow of one message. A message whose workflow has ended gets a new run.
#[derive(Clone)]
pub struct MessageCommands {
    caller: Caller,
    key: MessageKey,
    task_queue: String,
}

impl MessageCommands {
    pub(super) fn new(caller: &Caller, key: &MessageKey, stream: StreamName) -> Self {
        let task_queue = message_task_queue(&caller.task_queue, stream);
        Self { caller: caller.clone(), key: key.clone(), task_queue }
    }

    /// Sends the message again, unless that could do harm.
    ///
    /// # Errors
    /// See [`CommandError`]. Sending the command again is safe.
    pub async fn retry(&self, retry: Retry) -> Result<Retried, CommandError> {
        self.update(RETRY, retry).await
    }

    /// Stops sending the message, and returns its end.
    ///
    /// # Errors
    /// As for [`MessageCommands::retry`].
    pub async fn cancel(&self, order: Order) -> Result<Cancelled, CommandError> {
        self.update(CANCEL, order).await
    }

    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = update.name, message = %self.key.message_id()), err(level = "debug"))]
    async fn update<I, O>(&self, update: Named<I, O>, input: I) -> Result<O, CommandError>
    where
        I: Serialize + DeserializeOwned + Clone + Send + 'static,
        O: Serialize + DeserializeOwned + 'static,
    {
        let target = Target {
            workflow_type: names::MESSAGE_WORKFLOW_TYPE,
            workflow_id: self.key.workflow_id(),
            task_queue: self.task_queue.clone(),
            search_attributes: message_search_attributes(&self.key),
        };
        let name = format!("message {}", self.key);
        let workflow_id = self.key.workflow_id();
        let workflow = self.caller.temporal.get_workflow_handle(workflow_id.clone());
        match unless_paused(workflow, target.update(&self.caller, update, input, None)).await {
            Ok(Some(answer)) => answer.map_err(|failure| failure.of(&name)),
            Ok(None) => Err(CommandError::Unanswered { workflow: name, task_queue: self.task_queue.clone() }),
            Err(Paused) => Err(CommandError::Paused { workflow: name, workflow_id }),
        }
    }
}
