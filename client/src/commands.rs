//! Commands of an operator to the workflows of digests and messages. The command line and the gateway share them.
//!
//! Each command is a workflow update with the operator's login and reason. The workflow writes both to the audit trail.

use std::{iter, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use temporalio_client::{
    Client as Temporal, QueryRejectCondition, WorkflowDescribeOptions, WorkflowExecuteUpdateOptions,
    WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryOptions, errors::WorkflowQueryError,
};
use temporalio_common::UntypedWorkflow;
use tidings_model::{
    Key, MessageKey,
    command::{Dropped, Due, Flushed, Held, Hold, Order, Release, Released, Reopen, Reopened, Retime, Retimed},
    job::Task,
    message::{
        command::{Cancelled, Retry},
        contract::Retried,
    },
    names,
    settings::{FormerNames, StreamName},
};
use tokio::time::timeout;
use tracing::{Instrument as _, debug_span, instrument};

use self::update::{Caller, Failure, Named, Paused, Target, unless_paused, until_taken};
use crate::{
    error::check_namespace,
    signal::{message_search_attributes, message_task_queue, search_attributes},
};

mod update;

pub use self::update::CommandError;

/// The default time for an answer.
///
/// A workflow with local activities answers when its workflow task ends, at most every eight seconds. After a worker was
/// killed, Temporal first waits 25 s for that worker before another one gets the task.
const PATIENCE: Duration = Duration::from_secs(30);

/// The commands to the workflows behind one task queue. Cheap to clone.
#[derive(Clone)]
pub struct Commands(Caller);

impl Commands {
    /// Uses an existing connection; `task_queue` is the digests'.
    #[must_use]
    pub fn new(temporal: Temporal, task_queue: impl Into<String>) -> Self {
        Self(Caller { temporal, task_queue: task_queue.into(), patience: PATIENCE })
    }

    /// Waits this long for an answer instead of 30 s.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self(Caller { patience, ..self.0 })
    }

    /// Returns the commands to the workflow of a key.
    #[must_use]
    pub fn digest<'a>(&'a self, key: &'a Key) -> DigestCommands<'a> {
        DigestCommands::new(&self.0, key)
    }

    /// The name under which a key is open: its own, or else the first of its others, today's before former ones. Without an open one
    /// that of today. Temporal is asked only where there are several names.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn open_name(&self, names: &FormerNames, key: &Key) -> Result<Key, CommandError> {
        let today = names.today(key);
        let all = names.keys(key);
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

    /// Returns the commands to the workflow of a single message; `stream` is the message's stream.
    #[must_use]
    pub fn message(&self, key: &MessageKey, stream: StreamName) -> MessageCommands {
        MessageCommands::new(&self.0, key, stream)
    }
}

/// The answer of the workflow. Its JSON is that of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Done {
    Flushed(Flushed),
    Held(Held),
    Released(Released),
    Dropped(Dropped),
    Retimed(Retimed),
    Reopened(Reopened),
}

impl Done {
    /// Reports that nothing was pending, so that nothing was done.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Flushed(flushed) => flushed.events == 0 && !flushed.hurried,
            Self::Held(held) => *held == Held::default(),
            Self::Released(released) => !released.held,
            Self::Dropped(dropped) => *dropped == Dropped::default(),
            Self::Retimed(retimed) => retimed.events == 0,
            Self::Reopened(reopened) => reopened.events == 0,
        }
    }
}

/// The commands to the workflow of one key.
///
/// A key whose workflow does not run has nothing pending. Every command but [`DigestCommands::reopen`] then does nothing,
/// and returns the default answer.
#[derive(Clone, Copy)]
pub struct DigestCommands<'a> {
    caller: &'a Caller,
    key: &'a Key,
    update_id: Option<&'a str>,
}

impl<'a> DigestCommands<'a> {
    const fn new(caller: &'a Caller, key: &'a Key) -> Self {
        Self { caller, key, update_id: None }
    }

    /// Gives the commands this id. A run of the workflow carries out the commands of one id once, and repeats its answer.
    #[must_use]
    pub const fn with_id(self, id: &'a str) -> Self {
        Self { update_id: Some(id), ..self }
    }

    /// Sends a command that is known at run time only. `spread`: the key is one of many that get it, see [`Release::spread`].
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn send(self, task: &Task, order: Order, spread: bool) -> Result<Done, CommandError> {
        Ok(match *task {
            Task::Flush => Done::Flushed(self.flush(order).await?),
            Task::Hold { until } => Done::Held(self.hold(Hold { order, until }).await?),
            Task::Release => Done::Released(self.release(Release { order, spread }).await?),
            Task::Drop => Done::Dropped(self.drop_pending(order).await?),
            Task::Retime { at } => Done::Retimed(self.retime(Retime { order, at }).await?),
            Task::Reopen { digest_id, may_duplicate } => {
                // The workflow refuses the id of no digest.
                let digest_id = digest_id.unwrap_or_default();
                Done::Reopened(self.reopen(Reopen { order, digest_id, may_duplicate }).await?)
            }
        })
    }

    /// Sends the pending events now. Holds, pauses, consent and suppressions still apply.
    ///
    /// # Errors
    /// See [`CommandError`]. Sending the command again is safe.
    pub async fn flush(self, order: Order) -> Result<Flushed, CommandError> {
        self.update(Named::new("flush"), order).await
    }

    /// Stops the key from sending until the hold ends.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn hold(self, hold: Hold) -> Result<Held, CommandError> {
        self.update(Named::new("hold"), hold).await
    }

    /// Ends a hold.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn release(self, release: Release) -> Result<Released, CommandError> {
        self.update(Named::new("release"), release).await
    }

    /// Drops the pending events and the digest in delivery. The ledger keeps the events.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn drop_pending(self, order: Order) -> Result<Dropped, CommandError> {
        self.update(Named::new("drop"), order).await
    }

    /// Gives the open window another deadline.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn retime(self, retime: Retime) -> Result<Retimed, CommandError> {
        self.update(Named::new("retime"), retime).await
    }

    /// Reopens a digest that ended without a message, or that a terminated run left behind. Starts the key's workflow if
    /// the key is idle.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn reopen(self, reopen: Reopen) -> Result<Reopened, CommandError> {
        let target = Target {
            name: self.key.to_string(),
            workflow_type: names::WORKFLOW_TYPE,
            workflow_id: self.key.workflow_id(),
            task_queue: self.caller.task_queue.clone(),
            search_attributes: search_attributes(self.key),
        };
        let span = debug_span!("temporal", call = "reopen", key = %self.key);
        target.update(self.caller, Named::new("reopen"), reopen, self.update_id).instrument(span).await
    }

    /// Returns the window that a claim would take now; `None` if no window is open.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn due(self) -> Result<Option<Due>, CommandError> {
        Ok(self.query(Named::<(), Option<Due>>::new("due")).await?.flatten())
    }

    /// Returns the status of the key; `None` if its workflow does not run. `S` is the workflow's type of a status.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn status<S: Serialize + DeserializeOwned + 'static>(self) -> Result<Option<S>, CommandError> {
        self.query(Named::<(), S>::new("status")).await
    }

    /// Reports that the workflow runs, or is paused in Temporal. No worker is asked.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = "describe_workflow", key = %self.key), err(level = "debug"))]
    pub async fn is_open(self) -> Result<bool, CommandError> {
        let workflow = self.workflow();
        let described = timeout(self.caller.patience, workflow.describe(WorkflowDescribeOptions::default())).await;
        match described.map_err(|_| self.unanswered())?.map_err(Failure::from) {
            Ok(run) => Ok(matches!(run.status(), WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused)),
            Err(Failure::NotFound(status)) => Ok(check_namespace(&status).map(|()| false)?),
            Err(failure) => Err(failure.of(&self.key.to_string())),
        }
    }

    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = query.name, key = %self.key), err(level = "debug"))]
    async fn query<O: Serialize + DeserializeOwned + 'static>(
        self,
        query: Named<(), O>,
    ) -> Result<Option<O>, CommandError> {
        let open_only = WorkflowQueryOptions::builder().reject_condition(QueryRejectCondition::NotOpen).build();
        let workflow = self.workflow();
        let answer = timeout(self.caller.patience, workflow.query(query, (), open_only)).await;
        match answer.map_err(|_| self.unanswered())? {
            Ok(answer) => Ok(Some(answer)),
            Err(WorkflowQueryError::Rejected { status: Some(WorkflowExecutionStatus::Paused) }) => Err(self.paused()),
            Err(WorkflowQueryError::Rejected { .. }) => Ok(None),
            Err(error) => match error.into() {
                Failure::NotFound(status) => Ok(check_namespace(&status).map(|()| None)?),
                failure => Err(failure.of_query(&self.key.to_string())),
            },
        }
    }

    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = update.name, key = %self.key), err(level = "debug"))]
    async fn update<I, O>(self, update: Named<I, O>, input: I) -> Result<O, CommandError>
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
        let answer = unless_paused(self.workflow(), taken).await.map_err(|Paused| self.paused())?;
        match answer.ok_or_else(|| self.unanswered())? {
            Ok(answer) => Ok(answer),
            // The workflow does not run.
            Err(Failure::NotFound(status)) => Ok(check_namespace(&status).map(|()| O::default())?),
            Err(failure) => Err(failure.of(&self.key.to_string())),
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
    fn new(caller: &Caller, key: &MessageKey, stream: StreamName) -> Self {
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
            name: format!("message {}", self.key),
            workflow_type: names::MESSAGE_WORKFLOW_TYPE,
            workflow_id: self.key.workflow_id(),
            task_queue: self.task_queue.clone(),
            search_attributes: message_search_attributes(&self.key),
        };
        target.update(&self.caller, update, input, None).await
    }
}
