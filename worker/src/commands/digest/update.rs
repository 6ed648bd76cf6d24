//! The update of one key's workflow, and its answer.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tidings_client::{CommandError, Commands};
use tidings_model::{
    Key,
    command::{Dropped, Held, Hold, Order, Release, Retime},
};

use super::answers;
use crate::client::explain;

/// An update of a key's workflow.
#[derive(Clone)]
pub(crate) enum Update {
    Flush(Order),
    Hold(Hold),
    Release(Release),
    Drop(Order),
    Retime(Retime),
}

/// The answer of a workflow.
pub(crate) struct Answer {
    /// The answer of the workflow in JSON.
    pub json: Value,
    /// The answer in words.
    pub text: String,
    /// Nothing was pending, so nothing was done.
    pub nothing: bool,
}

impl Update {
    /// Sends the update to the key's workflow.
    ///
    /// # Errors
    /// Temporal or the worker does not answer, or the workflow refuses the update.
    pub async fn send(&self, commands: &Commands, key: &Key) -> anyhow::Result<Answer> {
        self.answer(commands, key).await.map_err(|error| explain(key, error))
    }

    async fn answer(&self, commands: &Commands, key: &Key) -> Result<Answer, CommandError> {
        let workflow = commands.digest(key);
        Ok(match self {
            Self::Flush(order) => {
                let flushed = workflow.flush(order.clone()).await?;
                answer(&flushed, flushed.events == 0, answers::flushed(key, &flushed))
            }
            Self::Hold(hold) => {
                let held = workflow.hold(hold.clone()).await?;
                answer(&held, held == Held::default(), answers::held(key, &held, hold.until))
            }
            Self::Release(release) => {
                let released = workflow.release(release.clone()).await?;
                answer(&released, !released.held, answers::released(key, &released, Timestamp::now()))
            }
            Self::Drop(order) => {
                let dropped = workflow.drop_pending(order.clone()).await?;
                answer(&dropped, dropped == Dropped::default(), answers::dropped(key, &dropped))
            }
            Self::Retime(retime) => {
                let retimed = workflow.retime(retime.clone()).await?;
                answer(&retimed, retimed.events == 0, answers::retimed(key, &retimed))
            }
        })
    }
}

fn answer(answer: &impl Serialize, nothing: bool, text: String) -> Answer {
    Answer { json: json!(answer), text, nothing }
}
