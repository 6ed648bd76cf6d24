//! An environment for single messages: the worker of the stream `transactional`, and the calls of senders and
//! operators.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use temporalio_client::{
    WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowFetchHistoryOptions, WorkflowHandle, WorkflowQueryOptions,
};
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use tidings::registration;
use tidings_client::{WorkflowCommands, commands::MessageCommands};
use tidings_mail::render::TemplateRenderer;
use tidings_model::{
    MessageKey,
    attempt::AttemptClass,
    command::CommandContext,
    names,
    records::{MessageRecord, MessageState, Suppression, SuppressionReason},
    settings::{Settings, StreamName},
};
use tidings_operations::submit::{
    self, AcceptedMessage, MessageSubmission, SubmissionContent, SubmissionRecipient, SubmitError,
};
use tidings_services::StepServices;
use tidings_store::prelude::*;
use tidings_workflows::{Message, message::MessageStatus};

use crate::{
    env::{Env, settings},
    wait::eventually,
    worker::Running,
};

const MINUTE: Duration = Duration::from_mins(1);
/// The recipient of [`submission`].
pub const ANN: &str = "ann@example.net";
/// The text of [`submission`].
pub const BODY: &str = "The code is 4711";

/// Settings in which messages wait this long between attempts.
#[must_use]
pub fn waits(delays: &[Duration]) -> Settings {
    let mut settings = settings("after 1s", "after 1s");
    settings.streams.transactional.retry_delays = delays.to_vec();
    settings
}

/// The operator `carol`, with a reason.
#[must_use]
pub fn order() -> CommandContext {
    CommandContext { by: "carol".to_owned(), why: "ticket 812".to_owned() }
}

/// A message with a code for [`ANN`] and this idempotency key.
///
/// # Panics
/// [`ANN`] is no address.
#[must_use]
pub fn submission(key: &str) -> MessageSubmission {
    MessageSubmission {
        tenant: "acme".to_owned(),
        idempotency_key: key.to_owned(),
        stream: StreamName::Transactional,
        to: SubmissionRecipient::Address { address: ANN.parse().expect("an address"), name: "Ann".to_owned() },
        content: SubmissionContent::Parts {
            subject: "Your code".to_owned(),
            text: format!("{BODY}\n"),
            html: Some(format!("<p>{BODY}</p>\n")),
        },
        reply_to: None,
        attachments: Vec::new(),
    }
}

/// An [`Env`] with the worker of the stream `transactional`.
pub struct MessageEnv {
    /// Dropped first, because the worker signs off at the server.
    pub worker: Option<Running>,
    pub env: Env,
}

impl MessageEnv {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(settings: Settings) -> Result<Self> {
        let mut messages = Self { worker: None, env: Env::without_worker(settings).await? };
        messages.work()?;
        Ok(messages)
    }

    /// A second set of the worker's activities.
    ///
    /// # Errors
    /// When the settings name an impossible relay.
    pub fn deliveries(&self) -> Result<StepServices> {
        self.env.activities()
    }

    /// Starts the worker.
    ///
    /// # Errors
    /// When it does not start.
    pub fn work(&mut self) -> Result<()> {
        let options = registration::transactional_worker(names::TASK_QUEUE, self.deliveries()?)?;
        self.worker = Some(Running::start(self.env.temporal.clone(), options)?);
        Ok(())
    }

    /// Does the outbox's part of [`send`](Self::send) only.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub async fn accept(&self, submission: &MessageSubmission) -> Result<AcceptedMessage, SubmitError> {
        let renderer = TemplateRenderer::new(None)?;
        submit::accept(&*self.env.store, None, &renderer, &self.env.signers, &self.env.settings, submission).await
    }

    /// Accepts a message and starts its workflow.
    ///
    /// # Errors
    /// When the message is refused or Temporal does not answer.
    pub async fn send(&self, submission: &MessageSubmission) -> Result<AcceptedMessage> {
        let accepted = self.accept(submission).await?;
        submit::start_message(&self.env.temporal, names::TASK_QUEUE, &accepted.message).await?;
        Ok(accepted)
    }

    /// The message's workflow.
    #[must_use]
    pub fn workflow(&self, key: &MessageKey) -> WorkflowHandle<temporalio_client::Client, Message> {
        self.env.temporal.get_workflow_handle(key.workflow_id())
    }

    /// Returns the commands to the message's workflow.
    #[must_use]
    pub fn tell(&self, key: &MessageKey) -> MessageCommands {
        WorkflowCommands::new(self.env.temporal.clone(), names::TASK_QUEUE).message(key, StreamName::Transactional)
    }

    /// Queries the message's status.
    ///
    /// # Errors
    /// When the message has no status.
    pub async fn status(&self, key: &MessageKey) -> Result<MessageStatus> {
        let answer = self.workflow(key).query(Message::status, (), WorkflowQueryOptions::default()).await?;
        answer.context("it has no status")
    }

    /// Waits until the workflow waits for its next attempt, and answers with the status.
    ///
    /// # Errors
    /// When that takes longer than a minute.
    pub async fn waits(&self, key: &MessageKey) -> Result<MessageStatus> {
        let waits = async || Ok(Some(self.status(key).await?).filter(|status| status.next_attempt_at.is_some()));
        eventually("it waits", MINUTE, waits).await
    }

    /// The message's record in the outbox.
    ///
    /// # Errors
    /// When the outbox does not have the message.
    pub async fn record(&self, key: &MessageKey) -> Result<MessageRecord> {
        self.env.store.message(key.message_id()).await?.context("the outbox does not know it")
    }

    /// Waits until both the outbox and Temporal have closed the message, and answers with its state.
    ///
    /// # Errors
    /// When that takes longer than a minute.
    pub async fn ended(&self, key: &MessageKey) -> Result<MessageState> {
        eventually("it ends", MINUTE, async || {
            let run = self.workflow(key).describe(WorkflowDescribeOptions::default()).await?;
            let state = self.record(key).await?.state;
            Ok((run.status() != WorkflowExecutionStatus::Running && state.outcome().is_some()).then_some(state))
        })
        .await
    }

    /// Waits until the outbox has the message in this state.
    ///
    /// # Errors
    /// When that takes longer than a minute.
    pub async fn reaches(&self, key: &MessageKey, state: MessageState) -> Result<()> {
        eventually(state.name(), MINUTE, async || Ok((self.record(key).await?.state == state).then_some(()))).await
    }

    /// The class of each attempt in order, empty while the attempt runs.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn classes(&self, key: &MessageKey) -> Result<Vec<String>> {
        let attempts = self.env.store.attempts(key.message_id()).await?;
        Ok(attempts
            .into_iter()
            .map(|attempt| attempt.class.map(AttemptClass::name).unwrap_or_default().to_owned())
            .collect())
    }

    /// The complete history of the message's workflow.
    ///
    /// # Errors
    /// When Temporal does not answer.
    pub async fn history(&self, key: &MessageKey) -> Result<Vec<HistoryEvent>> {
        let options = WorkflowFetchHistoryOptions::default();
        Ok(self.workflow(key).fetch_history(options).into_events().await?)
    }

    /// Replays the message's history with the current workflow.
    ///
    /// # Errors
    /// When the workflow decides differently.
    pub async fn replays(&self, key: &MessageKey) -> Result<()> {
        let history = self.workflow(key).fetch_history(WorkflowFetchHistoryOptions::default());
        let options = WorkflowReplayerOptions::new().register_workflow::<Message>()?.build();
        let replaying = WorkflowReplayer::new(options)?;
        tokio::time::timeout(MINUTE, replaying.replay_workflow(history)).await.context("the replay hangs")??;
        Ok(())
    }

    /// Suppresses an address of the tenant `acme`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn suppress(&self, address: &str, reason: SuppressionReason) -> Result<()> {
        let suppression = Suppression {
            tenant: "acme".to_owned(),
            address: address.to_owned(),
            reason,
            detail: String::new(),
            at: Timestamp::now(),
        };
        Ok(self.env.store.suppress(&suppression).await?)
    }
}

/// The key of [`submission`].
///
/// # Panics
/// When the name is not a valid key.
#[must_use]
pub fn of(name: &str) -> MessageKey {
    MessageKey::new("acme".to_owned(), name.to_owned()).unwrap_or_else(|error| panic!("{error}"))
}
