//! The activities of the message workflow. Each one is a function of its own file.

use std::sync::Arc;

use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::{
    message::contract::{Attempted, CloseInput, Retried, RetryInput, SendInput},
    step::Closed,
};
use tidings_workflows::message::activities::definitions;

use super::{close, retry, send};
use crate::{deps::Deps, heartbeat};

/// The activities as Temporal's SDK registers them.
pub struct MessageActivities {
    pub deps: Deps,
}

#[activities]
impl MessageActivities {
    /// Attempts to deliver the message once.
    #[activity(definition = definitions::Send)]
    pub async fn send(self: Arc<Self>, ctx: ActivityContext, input: SendInput) -> Result<Attempted, ActivityError> {
        heartbeat::during(&ctx, send::run(&self.deps, &input, ctx.cancelled())).await?.into_activity()
    }

    /// Ends a message that was cancelled.
    #[activity(definition = definitions::Close)]
    pub async fn close(self: Arc<Self>, _ctx: ActivityContext, input: CloseInput) -> Result<Closed, ActivityError> {
        Ok(close::run(&self.deps, &input).await?)
    }

    /// Gives a message that has ended back to its workflow.
    #[activity(definition = definitions::Retry)]
    pub async fn retry(self: Arc<Self>, _ctx: ActivityContext, input: RetryInput) -> Result<Retried, ActivityError> {
        Ok(retry::run(&self.deps, &input).await?)
    }
}
