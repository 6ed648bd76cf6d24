//! One command to one key's workflow, and its answer.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use temporalio_client::{
    Client, WorkflowExecuteUpdateOptions, WorkflowHandle, errors::WorkflowUpdateError, tonic::Code,
};
use temporalio_common::{HasWorkflowDefinition, UpdateDefinition};
use tidings_activities::namespace;
use tidings_model::{
    Key,
    command::{Dropped, Held, Hold, Order, Retime},
};
use tidings_workflows::Digest;
use tokio::time::{sleep, timeout};

use super::answers;
use crate::{
    Config,
    key_workflow::{PATIENCE, heard_later},
};

/// Between a workflow task that failed and the next try.
const AGAIN: Duration = Duration::from_millis(100);

/// What to tell a key.
#[derive(Clone)]
pub(crate) enum Deed {
    Flush(Order),
    Hold(Hold),
    Release(Order),
    Drop(Order),
    Retime(Retime),
}

/// What the key answered.
pub(crate) struct Answer {
    /// As the workflow said it.
    pub json: Value,
    /// For people.
    pub words: String,
    /// There was nothing to do, and nothing was done.
    pub nothing: bool,
}

impl Deed {
    /// Tells the key's workflow. Where none runs nothing is pending, and the answer says so.
    ///
    /// # Errors
    /// Temporal does not answer, no worker does, or the workflow refuses.
    pub async fn tell(&self, config: &Config, temporal: &Client, key: &Key) -> anyhow::Result<Answer> {
        let told = Told { config, key, workflow: temporal.get_workflow_handle(key.workflow_id()) };
        Ok(match self {
            Self::Flush(order) => {
                let flushed = told.update(|| Digest::flush, order.clone()).await?;
                answer(&flushed, flushed.events == 0, answers::flushed(key, &flushed))
            }
            Self::Hold(hold) => {
                let held = told.update(|| Digest::hold, hold.clone()).await?;
                answer(&held, held == Held::default(), answers::held(key, &held, hold.until))
            }
            Self::Release(order) => {
                let released = told.update(|| Digest::release, order.clone()).await?;
                answer(&released, !released.held, answers::released(key, &released, Timestamp::now()))
            }
            Self::Drop(order) => {
                let dropped = told.update(|| Digest::discard, order.clone()).await?;
                answer(&dropped, dropped == Dropped::default(), answers::dropped(key, &dropped))
            }
            Self::Retime(retime) => {
                let retimed = told.update(|| Digest::retime, retime.clone()).await?;
                answer(&retimed, retimed.events == 0, answers::retimed(key, &retimed))
            }
        })
    }
}

fn answer(answer: &impl Serialize, nothing: bool, words: String) -> Answer {
    Answer { json: json!(answer), words, nothing }
}

struct Told<'a> {
    config: &'a Config,
    key: &'a Key,
    workflow: WorkflowHandle<Client, Digest>,
}

impl Told<'_> {
    async fn update<U>(&self, update: fn() -> U, input: U::Input) -> anyhow::Result<U::Output>
    where
        U: UpdateDefinition<Workflow = <Digest as HasWorkflowDefinition>::Run, Input: Clone + Send, Output: Default>,
    {
        let silent = || heard_later(self.config, self.key);
        let telling = async {
            loop {
                let options = WorkflowExecuteUpdateOptions::default();
                match self.workflow.execute_update(update(), input.clone(), options).await {
                    // An event came as the run was about to complete: the server has that workflow task done again, and
                    // has forgotten the command.
                    Err(WorkflowUpdateError::Rpc(status)) if status.code() == Code::FailedPrecondition => {
                        sleep(AGAIN).await;
                    }
                    answer => break answer,
                }
            }
        };
        match timeout(PATIENCE, telling).await.with_context(silent)? {
            Err(WorkflowUpdateError::NotFound(refusal)) => {
                Ok(namespace::is_there(&refusal).map(|()| U::Output::default())?)
            }
            Err(WorkflowUpdateError::Failed(failure)) => Err(anyhow!("{} refuses: {}", self.key, failure.message)),
            answer => answer.with_context(silent),
        }
    }
}
