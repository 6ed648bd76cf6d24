//! Dependencies of the API routes.

use std::{sync::Arc, time::Duration};

use temporalio_client::Client;
use tidings_client::Commands;
use tidings_mail::{dkim::Signers, render::Renderer};
use tidings_store::archive::Archive;

use crate::{State, inbox::Inbox, problem::Problem};

/// Time limit for a workflow's response.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Api {
    pub state: State,
    pub task_queue: String,
    pub inbox: Inbox,
    /// Retention archive, if configured. An erasure also removes a person's lines from it.
    pub archive: Option<Archive>,
    /// `None` if this gateway cannot render messages.
    pub making: Option<Arc<Making>>,
}

pub struct Making {
    pub renderer: Arc<Renderer>,
    pub signers: Signers,
}

impl Api {
    /// Fails if Temporal has not answered yet.
    pub(super) fn temporal(&self) -> Result<Client, Problem> {
        self.state.temporal().ok_or(Problem::NoAnswer)
    }

    pub(super) fn commands(&self) -> Result<Commands, Problem> {
        Ok(Commands::new(self.temporal()?, &self.task_queue).with_patience(PATIENCE))
    }
}
