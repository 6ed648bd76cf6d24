//! The activities of the message workflow. Each one is a function of its own file.

use std::sync::Arc;

use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::{
    message::contract::{Attempted, CloseInput, Retried, RetryInput, SendInput},
    window::Closed,
};
use tidings_workflows::activities::definitions::message as definitions;

use super::{close, retry, send};
use crate::{clock::unless_ahead, deps::Deps, error::answer, heartbeat};

/// The activities as Temporal's SDK registers them.
pub struct MessageActivities {
    pub deps: Deps,
}

#[activities]
impl MessageActivities {
    /// Attempts to deliver the message once.
    ///
    /// # Errors
    /// The store cannot answer, or a later attempt has begun: Temporal calls again. Or the attempt was cancelled before the dot.
    #[activity(definition = definitions::Send)]
    pub async fn send(self: Arc<Self>, ctx: ActivityContext, input: SendInput) -> Result<Attempted, ActivityError> {
        let sent = Box::pin(send::run(&self.deps, &input, ctx.cancelled()));
        answer(unless_ahead(&ctx, Some(input.asked_at), heartbeat::during(&ctx, sent)).await)?.into_activity()
    }

    /// Ends a message that was cancelled.
    ///
    /// # Errors
    /// The store cannot answer: check the database. Temporal calls again.
    #[activity(definition = definitions::Close)]
    pub async fn close(self: Arc<Self>, _ctx: ActivityContext, input: CloseInput) -> Result<Closed, ActivityError> {
        answer(close::run(&self.deps, &input).await)
    }

    /// Gives a message that has ended back to its workflow.
    ///
    /// # Errors
    /// The store cannot answer: check the database. Temporal calls again.
    #[activity(definition = definitions::Retry)]
    pub async fn retry(self: Arc<Self>, _ctx: ActivityContext, input: RetryInput) -> Result<Retried, ActivityError> {
        answer(retry::run(&self.deps, &input).await)
    }
}
