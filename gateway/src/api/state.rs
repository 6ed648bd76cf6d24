//! Dependencies of the API routes.

use std::{sync::Arc, time::Duration};

use temporalio_client::Client;
use tidings_client::WorkflowCommands;
use tidings_mail::{dkim::TenantSigners, render::TemplateRenderer};
use tidings_store::archive::Archive;

use crate::{GatewayState, inbox::EventInbox, problem::Problem};

/// Time limit for a workflow's response.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct ApiState {
    pub state: GatewayState,
    pub task_queue: String,
    pub inbox: EventInbox,
    /// Retention archive, if configured. An erasure also removes a person's lines from it.
    pub archive: Option<Archive>,
    /// `None` if this gateway cannot render messages.
    pub making: Option<Arc<RenderContext>>,
}

pub struct RenderContext {
    pub renderer: Arc<TemplateRenderer>,
    pub signers: TenantSigners,
}

impl ApiState {
    /// Fails if Temporal has not answered yet.
    pub(super) fn temporal(&self) -> Result<Client, Problem> {
        self.state.temporal().ok_or(Problem::NoAnswer)
    }

    pub(super) fn commands(&self) -> Result<WorkflowCommands, Problem> {
        Ok(WorkflowCommands::new(self.temporal()?, &self.task_queue).with_patience(PATIENCE))
    }
}
