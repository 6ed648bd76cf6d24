//! A stage for single messages: the worker of the stream `transactional`, and what their senders and operators ask.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use temporalio_client::{
    WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowFetchHistoryOptions, WorkflowHandle, WorkflowQueryOptions,
};
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use tidings::registration;
use tidings_activities::{
    MessageActivities,
    message::{self, Accepted, Addressed, Content, Refused, Submission, To},
};
use tidings_mail::{mailer::Signers, renderer::Renderer};
use tidings_model::{
    MessageKey,
    command::Order,
    names,
    records::{MessageRecord, MessageState, Reason, Suppression},
    settings::{Settings, Streams},
};
use tidings_store::Store;
use tidings_workflows::{Message, message::Status};

use crate::env::{Env, Running, activities, eventually, settings};

const MINUTE: Duration = Duration::from_secs(60);
/// To whom [`submission`] goes.
pub const ANN: &str = "ann@example.net";
/// What it says.
pub const BODY: &str = "The code is 4711";

/// Both streams with these waits between attempts.
#[must_use]
pub fn waits(delays: &[Duration]) -> Settings {
    let mut settings = settings("after 1s", "after 1s");
    settings.streams.transactional.retry_delays = delays.to_vec();
    settings
}

/// Who commands, and why.
#[must_use]
pub fn order() -> Order {
    Order { by: "carol".to_owned(), why: "ticket 812".to_owned() }
}

/// A code for [`ANN`], under this idempotency key.
#[must_use]
pub fn submission(key: &str) -> Submission {
    Submission {
        tenant: "acme".to_owned(),
        idempotency_key: key.to_owned(),
        stream: Streams::TRANSACTIONAL.to_owned(),
        to: To::Address { address: ANN.to_owned(), name: "Ann".to_owned() },
        content: Content::Parts {
            subject: "Your code".to_owned(),
            text: format!("{BODY}\n"),
            html: Some(format!("<p>{BODY}</p>\n")),
        },
        reply_to: None,
    }
}

/// A stage with the worker of the stream `transactional`.
pub struct MessageEnv {
    /// Goes first: it says goodbye to the server.
    pub worker: Option<Running>,
    pub env: Env,
}

impl MessageEnv {
    /// Everything, running.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(settings: Settings) -> Result<Self> {
        let mut messages = Self { worker: None, env: Env::without_worker(settings).await? };
        messages.work()?;
        Ok(messages)
    }

    /// The activities of its worker, once more.
    ///
    /// # Errors
    /// When the settings name a relay that cannot be.
    pub fn deliveries(&self) -> Result<MessageActivities> {
        let Env { store, relay, settings, .. } = &self.env;
        let all = activities(store.clone(), &relay.url(), settings.clone())?;
        Ok(MessageActivities { store: all.store, relays: all.relays, settings: all.settings })
    }

    /// Starts the worker.
    ///
    /// # Errors
    /// When it does not start.
    pub fn work(&mut self) -> Result<()> {
        let options = registration::transactional(names::TASK_QUEUE, self.deliveries()?)?;
        self.worker = Some(Running::start(self.env.temporal.clone(), options)?);
        Ok(())
    }

    /// Only the outbox's part of [`send`](Self::send).
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn accept(&self, submission: &Submission) -> Result<Accepted, Refused> {
        let renderer = Renderer::new(None)?;
        let signers = Signers::new(&self.env.settings.streams).map_err(|error| Refused::Unsigned(error.to_string()))?;
        message::accept(&*self.env.store, &renderer, &signers, &self.env.settings, submission).await
    }

    /// What a gateway does with a submission.
    ///
    /// # Errors
    /// It is refused, or Temporal does not answer.
    pub async fn send(&self, submission: &Submission) -> Result<Accepted> {
        let accepted = self.accept(submission).await?;
        message::start(&self.env.temporal, names::TASK_QUEUE, &accepted.message).await?;
        Ok(accepted)
    }

    /// Its workflow.
    #[must_use]
    pub fn workflow(&self, key: &MessageKey) -> WorkflowHandle<temporalio_client::Client, Message> {
        self.env.temporal.get_workflow_handle(key.workflow_id())
    }

    /// For commands.
    #[must_use]
    pub fn tell<'a>(&'a self, key: &'a MessageKey) -> Addressed<'a> {
        let (temporal, stream) = (&self.env.temporal, Streams::TRANSACTIONAL);
        Addressed { temporal, task_queue: names::TASK_QUEUE, key, stream }
    }

    /// What the workflow says of it.
    ///
    /// # Errors
    /// It has no status.
    pub async fn status(&self, key: &MessageKey) -> Result<Status> {
        let answer = self.workflow(key).query(Message::status, (), WorkflowQueryOptions::default()).await?;
        answer.context("it has no status")
    }

    /// Waits until the workflow waits for its next attempt, and answers with what it says then.
    ///
    /// # Errors
    /// It never does.
    pub async fn waits(&self, key: &MessageKey) -> Result<Status> {
        let waits = async || Ok(Some(self.status(key).await?).filter(|status| status.next_attempt_at.is_some()));
        eventually("it waits", MINUTE, waits).await
    }

    /// What the outbox says of it.
    ///
    /// # Errors
    /// The outbox does not know it.
    pub async fn record(&self, key: &MessageKey) -> Result<MessageRecord> {
        self.env.store.message(key.message_id()).await?.context("the outbox does not know it")
    }

    /// Waits until the outbox and Temporal both say that it is over, and answers with the state.
    ///
    /// # Errors
    /// It does not end.
    pub async fn ended(&self, key: &MessageKey) -> Result<MessageState> {
        eventually("it ends", MINUTE, async || {
            let run = self.workflow(key).describe(WorkflowDescribeOptions::default()).await?;
            let state = self.record(key).await?.state;
            Ok((run.status() != WorkflowExecutionStatus::Running && state.outcome().is_some()).then_some(state))
        })
        .await
    }

    /// Waits until the outbox has it in this state.
    ///
    /// # Errors
    /// It never is.
    pub async fn reaches(&self, key: &MessageKey, state: MessageState) -> Result<()> {
        eventually(state.name(), MINUTE, async || Ok((self.record(key).await?.state == state).then_some(()))).await
    }

    /// How each of its attempts ended, in order; empty where one is under way.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn classes(&self, key: &MessageKey) -> Result<Vec<String>> {
        let attempts = self.env.store.attempts(key.message_id()).await?;
        Ok(attempts.into_iter().map(|attempt| attempt.class.unwrap_or_default()).collect())
    }

    /// All that workflow history has of it.
    ///
    /// # Errors
    /// Temporal does not answer.
    pub async fn history(&self, key: &MessageKey) -> Result<Vec<HistoryEvent>> {
        let options = WorkflowFetchHistoryOptions::default();
        Ok(self.workflow(key).fetch_history(options).into_events().await?)
    }

    /// The workflow of today decides the same when it reads the history again.
    ///
    /// # Errors
    /// It decides otherwise.
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
    /// The store cannot answer.
    pub async fn suppress(&self, address: &str, reason: Reason) -> Result<()> {
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
/// When it cannot be one.
#[must_use]
pub fn of(name: &str) -> MessageKey {
    MessageKey::new("acme".to_owned(), name.to_owned()).unwrap_or_else(|error| panic!("{error}"))
}
