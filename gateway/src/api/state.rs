//! The adapters and settings that the routes of the api work with.

use std::{sync::Arc, time::Duration};

use temporalio_client::Client;
use tidings_client::Commands;
use tidings_mail::{dkim::Signers, render::Renderer};
use tidings_store::archive::Archive;

use crate::{State, inbox::Inbox, problem::Problem};

/// Time for an answer of a workflow.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The dependencies of the routes.
#[derive(Clone)]
pub struct Api {
    pub state: State,
    /// The digests' task queue.
    pub task_queue: String,
    pub inbox: Inbox,
    /// The archive of retention, if there is one. An erasure takes a person's lines from it.
    pub archive: Option<Archive>,
    /// `None`: the gateway cannot make messages.
    pub making: Option<Arc<Making>>,
}

/// The parts that messages are made with.
pub struct Making {
    pub renderer: Arc<Renderer>,
    pub signers: Signers,
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
