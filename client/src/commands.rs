//! Operators' commands to digest and message workflows, as workflow updates with the operator's login and
//! reason for the audit trail.

use std::{iter, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use temporalio_client::{
    Client as Temporal, QueryRejectCondition, WorkflowDescribeOptions, WorkflowExecuteUpdateOptions,
    WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryOptions, errors::WorkflowQueryError,
};
use temporalio_common::UntypedWorkflow;
use tidings_model::{
    Key, MessageKey,
    command::{
        CommandContext, DropResult, DuePreview, FlushResult, HoldCommand, HoldResult, ReleaseCommand, ReleaseResult,
        ReopenCommand, ReopenResult, RetimeCommand, RetimeResult,
    },
    job::JobTask,
    message::{
        command::{CancelResult, RetryCommand},
        contract::RetryResult,
    },
    names,
    settings::{FormerNames, StreamName},
};
use tokio::time::timeout;
use tracing::{Instrument as _, debug_span, instrument};

use self::update::{NamedCall, UpdateClient, UpdateFailure, UpdateTarget, WorkflowPaused, unless_paused, until_taken};
use crate::{
    error::check_namespace,
    signal::{message_search_attributes, message_task_queue, search_attributes},
};

mod update;

pub use self::update::CommandError;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct WorkflowCommands(UpdateClient);

impl WorkflowCommands {
    /// Uses an existing connection; `task_queue` should be the digest queue.
    #[must_use]
    pub fn new(temporal: Temporal, task_queue: impl Into<String>) -> Self {
        Self(UpdateClient { temporal, task_queue: task_queue.into(), patience: PATIENCE })
    }

    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self(UpdateClient { patience, ..self.0 })
    }

    #[must_use]
    pub fn digest<'a>(&'a self, key: &'a Key) -> DigestCommands<'a> {
        DigestCommands::new(&self.0, key)
    }

    /// The name under which the key is open: its own, its current or a former one; if none is open, the
    /// current one. Queries Temporal only if there are several names.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn open_name(&self, names: &FormerNames, key: &Key) -> Result<Key, CommandError> {
        let today = names.key_today(key);
        let all = names.all_keys(key);
        if all.len() == 1 {
            return Ok(today);
        }
        let others = all.into_iter().filter(|other| other != key);
        for name in iter::once(key.clone()).chain(others) {
            if self.digest(&name).is_open().await? {
                return Ok(name);
            }
        }
        Ok(today)
    }

    #[must_use]
    pub fn message(&self, key: &MessageKey, stream: StreamName) -> MessageCommands {
        MessageCommands::new(&self.0, key, stream)
    }
}

/// The workflow's response to any command; serializes as the response itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CommandResult {
    Flushed(FlushResult),
    Held(HoldResult),
    Released(ReleaseResult),
    Dropped(DropResult),
    Retimed(RetimeResult),
    Reopened(ReopenResult),
}

impl CommandResult {
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Flushed(flushed) => flushed.events == 0 && !flushed.hurried,
            Self::Held(held) => *held == HoldResult::default(),
            Self::Released(released) => !released.held,
            Self::Dropped(dropped) => *dropped == DropResult::default(),
            Self::Retimed(retimed) => retimed.events == 0,
            Self::Reopened(reopened) => reopened.events == 0,
        }
    }
}

/// Commands to one key's workflow. If it is not running, all except [`DigestCommands::reopen`] do nothing and
/// return the default response.
#[derive(Clone, Copy)]
pub struct DigestCommands<'a> {
    caller: &'a UpdateClient,
    key: &'a Key,
    update_id: Option<&'a str>,
}

impl<'a> DigestCommands<'a> {
    const fn new(caller: &'a UpdateClient, key: &'a Key) -> Self {
        Self { caller, key, update_id: None }
    }

    /// Sets an idempotency key: a workflow run executes a command with this id once, and repeats its
    /// response.
    #[must_use]
    pub const fn with_id(self, id: &'a str) -> Self {
        Self { update_id: Some(id), ..self }
    }

    /// Sends a command chosen at run time. Set `spread` if many keys get it, see [`ReleaseCommand::spread`].
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn send(
        self,
        task: &JobTask,
        order: CommandContext,
        spread: bool,
    ) -> Result<CommandResult, CommandError> {
        Ok(match *task {
            JobTask::Flush => CommandResult::Flushed(self.flush(order).await?),
            JobTask::Hold { until } => CommandResult::Held(self.hold(HoldCommand { order, until }).await?),
            JobTask::Release => CommandResult::Released(self.release(ReleaseCommand { order, spread }).await?),
            JobTask::Drop => CommandResult::Dropped(self.drop_pending(order).await?),
            JobTask::Retime { at } => CommandResult::Retimed(self.retime(RetimeCommand { order, at }).await?),
            JobTask::Reopen { digest_id, may_duplicate } => {
                // The workflow will reject this id, since no digest has it.
                let digest_id = digest_id.unwrap_or_default();
                CommandResult::Reopened(self.reopen(ReopenCommand { order, digest_id, may_duplicate }).await?)
            }
        })
    }

    /// Sends pending events now. Holds, pauses, consent and suppressions still apply.
    ///
    /// # Errors
    /// See [`CommandError`]. Sending the command again is safe.
    pub async fn flush(self, order: CommandContext) -> Result<FlushResult, CommandError> {
        self.update(NamedCall::new("flush"), order).await
    }

    /// Stops the key from sending until the hold ends.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn hold(self, hold: HoldCommand) -> Result<HoldResult, CommandError> {
        self.update(NamedCall::new("hold"), hold).await
    }

    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn release(self, release: ReleaseCommand) -> Result<ReleaseResult, CommandError> {
        self.update(NamedCall::new("release"), release).await
    }

    /// Drops pending events and the digest in delivery. The ledger keeps the events.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn drop_pending(self, order: CommandContext) -> Result<DropResult, CommandError> {
        self.update(NamedCall::new("drop"), order).await
    }

    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn retime(self, retime: RetimeCommand) -> Result<RetimeResult, CommandError> {
        self.update(NamedCall::new("retime"), retime).await
    }

    /// Reopens a digest which ended without a message, or was left by a terminated run. Starts the key's
    /// workflow if needed.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn reopen(self, reopen: ReopenCommand) -> Result<ReopenResult, CommandError> {
        let target = UpdateTarget {
            name: self.key.to_string(),
            workflow_type: names::WORKFLOW_TYPE,
            workflow_id: self.key.workflow_id(),
            task_queue: self.caller.task_queue.clone(),
            search_attributes: search_attributes(self.key),
        };
        let span = debug_span!("temporal", call = "reopen", key = %self.key);
        target.update(self.caller, NamedCall::new("reopen"), reopen, self.update_id).instrument(span).await
    }

    /// The window a claim would take now, or `None` if none is open.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn due_window(self) -> Result<Option<DuePreview>, CommandError> {
        Ok(self.query(NamedCall::<(), Option<DuePreview>>::new("due")).await?.flatten())
    }

    /// The key's status, or `None` if its workflow is not running. `S` is the workflow's status type.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn status<S: Serialize + DeserializeOwned + 'static>(self) -> Result<Option<S>, CommandError> {
        self.query(NamedCall::<(), S>::new("status")).await
    }

    /// Returns `true` if the workflow is running, or paused in Temporal. This needs no worker.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = "describe_workflow", key = %self.key), err(level = "debug"))]
    pub async fn is_open(self) -> Result<bool, CommandError> {
        let workflow = self.workflow();
        let described = timeout(self.caller.patience, workflow.describe(WorkflowDescribeOptions::default())).await;
        match described.map_err(|_| self.unanswered())?.map_err(UpdateFailure::from) {
            Ok(run) => Ok(matches!(run.status(), WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused)),
            Err(UpdateFailure::NotFound(status)) => Ok(check_namespace(&status).map(|()| false)?),
            Err(failure) => Err(failure.command_error(&self.key.to_string())),
        }
    }

    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = query.name, key = %self.key), err(level = "debug"))]
    async fn query<O: Serialize + DeserializeOwned + 'static>(
        self,
        query: NamedCall<(), O>,
    ) -> Result<Option<O>, CommandError> {
        let open_only = WorkflowQueryOptions::builder().reject_condition(QueryRejectCondition::NotOpen).build();
        let workflow = self.workflow();
        let answer = timeout(self.caller.patience, workflow.query(query, (), open_only)).await;
        match answer.map_err(|_| self.unanswered())? {
            Ok(answer) => Ok(Some(answer)),
            Err(WorkflowQueryError::Rejected { status: Some(WorkflowExecutionStatus::Paused) }) => Err(self.paused()),
            Err(WorkflowQueryError::Rejected { .. }) => Ok(None),
            Err(error) => match error.into() {
                UpdateFailure::NotFound(status) => Ok(check_namespace(&status).map(|()| None)?),
                failure => Err(failure.query_error(&self.key.to_string())),
            },
        }
    }

    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = update.name, key = %self.key), err(level = "debug"))]
    async fn update<I, O>(self, update: NamedCall<I, O>, input: I) -> Result<O, CommandError>
    where
        I: Serialize + DeserializeOwned + Clone + Send + 'static,
        O: Serialize + DeserializeOwned + Default + 'static,
    {
        let workflow = self.workflow();
        let send = || {
            let options = WorkflowExecuteUpdateOptions::builder().maybe_update_id(self.update_id.map(str::to_owned));
            workflow.execute_update(update, input.clone(), options.build())
        };
        let taken = until_taken(self.caller.patience, send);
        let answer = unless_paused(self.workflow(), taken).await.map_err(|WorkflowPaused| self.paused())?;
        match answer.ok_or_else(|| self.unanswered())? {
            Ok(answer) => Ok(answer),
            Err(UpdateFailure::NotFound(status)) => Ok(check_namespace(&status).map(|()| O::default())?),
            Err(failure) => Err(failure.command_error(&self.key.to_string())),
        }
    }

    fn workflow(self) -> WorkflowHandle<temporalio_client::Client, UntypedWorkflow> {
        self.caller.temporal.get_workflow_handle(self.key.workflow_id())
    }

    fn paused(self) -> CommandError {
        CommandError::Paused { workflow: self.key.to_string(), workflow_id: self.key.workflow_id() }
    }

    fn unanswered(self) -> CommandError {
        CommandError::Unanswered { workflow: self.key.to_string(), task_queue: self.caller.task_queue.clone() }
    }
}

const RETRY: NamedCall<RetryCommand, RetryResult> = NamedCall::new("retry");
const CANCEL: NamedCall<CommandContext, CancelResult> = NamedCall::new("cancel");

/// Commands to one message's workflow. If it has ended, a new run starts.
#[derive(Clone)]
pub struct MessageCommands {
    caller: UpdateClient,
    key: MessageKey,
    task_queue: String,
}

impl MessageCommands {
    fn new(caller: &UpdateClient, key: &MessageKey, stream: StreamName) -> Self {
        let task_queue = message_task_queue(&caller.task_queue, stream);
        Self { caller: caller.clone(), key: key.clone(), task_queue }
    }

    /// Sends the message again, unless this could do harm.
    ///
    /// # Errors
    /// See [`CommandError`]. Sending the command again is safe.
    pub async fn retry(&self, retry: RetryCommand) -> Result<RetryResult, CommandError> {
        self.update(RETRY, retry).await
    }

    /// Stops sending the message, and returns its end.
    ///
    /// # Errors
    /// As for [`MessageCommands::retry`].
    pub async fn cancel(&self, order: CommandContext) -> Result<CancelResult, CommandError> {
        self.update(CANCEL, order).await
    }

    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = update.name, message = %self.key.message_id()), err(level = "debug"))]
    async fn update<I, O>(&self, update: NamedCall<I, O>, input: I) -> Result<O, CommandError>
    where
        I: Serialize + DeserializeOwned + Clone + Send + 'static,
        O: Serialize + DeserializeOwned + 'static,
    {
        let target = UpdateTarget {
            name: format!("message {}", self.key),
            workflow_type: names::MESSAGE_WORKFLOW_TYPE,
            workflow_id: self.key.workflow_id(),
            task_queue: self.task_queue.clone(),
            search_attributes: message_search_attributes(&self.key),
        };
        target.update(&self.caller, update, input, None).await
    }
}
