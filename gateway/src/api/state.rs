//! The adapters and settings that the routes of the api work with.

use std::time::Duration;

use temporalio_client::Client;
use tidings_client::Commands;

use crate::{State, inbox::Inbox, problem::Problem};

/// Time for an answer of a workflow.
const PATIENCE: Duration = Duration::from_secs(10);

/// The dependencies of the routes.
#[derive(Clone)]
pub struct Api {
    pub state: State,
    /// The digests' task queue.
    pub task_queue: String,
    pub inbox: Inbox,
}

impl Api {
    /// The connection to Temporal.
    pub(super) fn temporal(&self) -> Result<Client, Problem> {
        self.state.temporal().ok_or(Problem::NoAnswer)
    }

    /// The commands to workflows.
    pub(super) fn commands(&self) -> Result<Commands, Problem> {
        Ok(Commands::new(self.temporal()?, &self.task_queue).with_patience(PATIENCE))
    }
}
