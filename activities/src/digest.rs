//! The digest workflow's activities, in the order of a digest's life. Each has its own file.

use std::sync::Arc;

use jiff::Timestamp;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::step::{
    AuditInput, ClaimAnswer, ClaimInput, CloseInput, DeadLettersInput, Ending, Plan, PlanInput, RenderInput, Rendered,
    ReopenInput, Resumed, RetractInput, SendInput, Sent, StashInput, Stashed,
};
use tidings_services::{deps::Deps, error::answer, metrics};
use tidings_workflows::activities::definitions::digest as definitions;

use crate::context::{during, unless_ahead};

pub mod claim;
mod ledger;
mod measure;
mod plan;
mod remake;
pub mod render;
mod seen;
pub mod send;
mod stash;

pub struct DigestActivities {
    pub deps: Deps,
}

#[activities]
impl DigestActivities {
    /// Decides when the window is due.
    ///
    /// # Errors
    /// If the store or the team's own directory fails. [`ErrorKind`](tidings_services::ErrorKind) describes
    /// how each error ends.
    #[activity(definition = definitions::Plan)]
    pub async fn plan(self: Arc<Self>, ctx: ActivityContext, input: PlanInput) -> Result<Plan, ActivityError> {
        answer(unless_ahead(&ctx, input.asked_at, Box::pin(plan::run(&self.deps, &input))).await)
    }

    /// Moves events from the workflow's state to the ledger.
    ///
    /// # Errors
    /// If the store fails, or Temporal does not return an earlier run's history. Temporal will retry.
    #[activity(definition = definitions::Stash)]
    pub async fn stash(self: Arc<Self>, ctx: ActivityContext, input: StashInput) -> Result<Stashed, ActivityError> {
        let stashed = answer(stash::run(&self.deps, ctx.client(), &input).await)?;
        metrics::events(&self.deps.settings, &input.window.key.digest_type, stashed.taken);
        Ok(stashed)
    }

    /// Admits the due window and claims its events.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    #[activity(definition = definitions::Claim)]
    pub async fn claim(self: Arc<Self>, ctx: ActivityContext, input: ClaimInput) -> Result<ClaimAnswer, ActivityError> {
        let answer = answer(unless_ahead(&ctx, Some(input.asked_at), Box::pin(claim::run(&self.deps, &input))).await)?;
        measure::claimed(&self.deps.settings, &input, &answer, Timestamp::now());
        Ok(answer)
    }

    /// Puts a claimed digest's email in the outbox.
    ///
    /// # Errors
    /// If the store fails, the digest type is not configured, no template works, or the sender is invalid.
    #[activity(definition = definitions::Render)]
    pub async fn render(self: Arc<Self>, ctx: ActivityContext, input: RenderInput) -> Result<Rendered, ActivityError> {
        let rendered =
            answer(unless_ahead(&ctx, Some(input.asked_at), Box::pin(render::run(&self.deps, &input))).await)?;
        if let Rendered::Nothing(closed) = &rendered {
            measure::ended(&self.deps.settings, &input.window.key, closed);
        }
        Ok(rendered)
    }

    /// Attempts to deliver the email once.
    ///
    /// # Errors
    /// If the store fails, a later attempt has begun, or a message cannot be rendered again: Temporal will
    /// retry. Or if the attempt was cancelled before it was committed.
    #[activity(definition = definitions::Send)]
    pub async fn send(self: Arc<Self>, ctx: ActivityContext, input: SendInput) -> Result<Sent, ActivityError> {
        let sent = Box::pin(send::run(&self.deps, &input, ctx.cancelled()));
        let sent = answer(unless_ahead(&ctx, Some(input.asked_at), during(&ctx, sent)).await)?.into_activity()?;
        measure::sent(&self.deps.settings, &input.window, &sent, Timestamp::now());
        Ok(sent)
    }

    /// Ends a digest dropped by the workflow.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Close)]
    pub async fn close(self: Arc<Self>, _ctx: ActivityContext, input: CloseInput) -> Result<Ending, ActivityError> {
        let ending = answer(ledger::close(&self.deps, &input).await)?;
        measure::ended_with_events(&self.deps.settings, &input.window.key, &ending);
        Ok(ending)
    }

    /// Withdraws events.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Retract)]
    pub async fn retract(self: Arc<Self>, _ctx: ActivityContext, input: RetractInput) -> Result<(), ActivityError> {
        answer(ledger::retract(&self.deps, &input).await)
    }

    /// Returns an unsent digest to its workflow.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Reopen)]
    pub async fn reopen(self: Arc<Self>, _ctx: ActivityContext, input: ReopenInput) -> Result<Resumed, ActivityError> {
        answer(ledger::reopen(&self.deps, &input).await)
    }

    /// Records operators' commands in the audit trail.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Audit)]
    pub async fn audit(self: Arc<Self>, _ctx: ActivityContext, input: AuditInput) -> Result<(), ActivityError> {
        answer(ledger::audit(&self.deps, &input).await)
    }

    /// Records signals which could not be decoded.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::DeadLetters)]
    pub async fn dead_letter(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: DeadLettersInput,
    ) -> Result<(), ActivityError> {
        answer(ledger::dead_letters(&self.deps, &input).await)
    }
}
