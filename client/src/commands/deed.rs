//! A command to the workflow of a key as data, for callers that do not know at compile time which one they send.

use serde::Serialize;
use tidings_model::command::{Dropped, Flushed, Held, Hold, Order, Release, Released, Retime, Retimed};

use super::{CommandError, DigestCommands};

/// A command to the workflow of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Flush(Order),
    Hold(Hold),
    Release(Release),
    Drop(Order),
    Retime(Retime),
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
}

impl Deed {
    /// The name of the command.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Flush(_) => "flush",
            Self::Hold(_) => "hold",
            Self::Release(_) => "release",
            Self::Drop(_) => "drop",
            Self::Retime(_) => "retime",
        }
    }

    /// Sends the command to the key's workflow.
    ///
    /// # Errors
    /// Temporal or the worker does not answer, or the workflow refuses the command.
    pub async fn send(&self, workflow: DigestCommands<'_>) -> Result<Done, CommandError> {
        Ok(match self.clone() {
            Self::Flush(order) => Done::Flushed(workflow.flush(order).await?),
            Self::Hold(hold) => Done::Held(workflow.hold(hold).await?),
            Self::Release(release) => Done::Released(workflow.release(release).await?),
            Self::Drop(order) => Done::Dropped(workflow.drop_pending(order).await?),
            Self::Retime(retime) => Done::Retimed(workflow.retime(retime).await?),
        })
    }
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
        }
    }
}
