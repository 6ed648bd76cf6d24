//! The digest workflow's activities, in the order of a digest's life, a file each.

use std::sync::Arc;

use jiff::Timestamp;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::step::{
    AuditInput, ClaimAnswer, ClaimInput, CloseAnswer, CloseDigestInput, DeadLettersInput, Plan, PlanInput,
    RenderAnswer, RenderInput, ReopenAnswer, ReopenInput, RetractInput, SendAnswer, SendDigestInput, StashAnswer,
    StashInput,
};
use tidings_services::{deps::StepServices, error::activity_result, metrics};
use tidings_workflows::activities::definitions::digest as definitions;

use crate::context::{unless_ahead, with_heartbeats};

pub mod claim;
mod ledger;
mod measure;
mod plan;
mod remake;
pub mod render;
mod seen_elsewhere;
pub mod send;
mod stash;

pub struct DigestActivities {
    pub deps: StepServices,
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
        activity_result(unless_ahead(&ctx, input.asked_at, Box::pin(plan::run(&self.deps, &input))).await)
    }

    /// Moves events from the workflow's state to the ledger.
    ///
    /// # Errors
    /// If the store fails, or Temporal does not return an earlier run's history. Temporal will retry.
    #[activity(definition = definitions::Stash)]
    pub async fn stash(self: Arc<Self>, ctx: ActivityContext, input: StashInput) -> Result<StashAnswer, ActivityError> {
        let stashed = activity_result(stash::run(&self.deps, ctx.client(), &input).await)?;
        metrics::count_events(&self.deps.settings, &input.window.key.digest_type, stashed.taken);
        Ok(stashed)
    }

    /// Admits the due window and claims its events.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    #[activity(definition = definitions::Claim)]
    pub async fn claim(self: Arc<Self>, ctx: ActivityContext, input: ClaimInput) -> Result<ClaimAnswer, ActivityError> {
        let answer =
            activity_result(unless_ahead(&ctx, Some(input.asked_at), Box::pin(claim::run(&self.deps, &input))).await)?;
        measure::count_claim(&self.deps.settings, &input, &answer, Timestamp::now());
        Ok(answer)
    }

    /// Puts a claimed digest's email in the outbox.
    ///
    /// # Errors
    /// If the store fails, the digest type is not configured, no template works, or the sender is invalid.
    #[activity(definition = definitions::Render)]
    pub async fn render(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: RenderInput,
    ) -> Result<RenderAnswer, ActivityError> {
        let rendered =
            activity_result(unless_ahead(&ctx, Some(input.asked_at), Box::pin(render::run(&self.deps, &input))).await)?;
        if let RenderAnswer::Nothing(closed) = &rendered {
            measure::count_end(&self.deps.settings, &input.window.key, closed);
        }
        Ok(rendered)
    }

    /// Attempts to deliver the email once.
    ///
    /// # Errors
    /// If the store fails, a later attempt has begun, or a message cannot be rendered again: Temporal will
    /// retry. Or if the attempt was cancelled before it was committed.
    #[activity(definition = definitions::Send)]
    pub async fn send(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: SendDigestInput,
    ) -> Result<SendAnswer, ActivityError> {
        let sent = Box::pin(send::run(&self.deps, &input, ctx.cancelled()));
        let sent = activity_result(unless_ahead(&ctx, Some(input.asked_at), with_heartbeats(&ctx, sent)).await)?
            .into_activity()?;
        measure::count_attempt(&self.deps.settings, &input.window, &sent, Timestamp::now());
        Ok(sent)
    }

    /// Ends a digest dropped by the workflow.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Close)]
    pub async fn close(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: CloseDigestInput,
    ) -> Result<CloseAnswer, ActivityError> {
        let ending = activity_result(ledger::close(&self.deps, &input).await)?;
        measure::ended_with_events(&self.deps.settings, &input.window.key, &ending);
        Ok(ending)
    }

    /// Withdraws events.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Retract)]
    pub async fn retract(self: Arc<Self>, _ctx: ActivityContext, input: RetractInput) -> Result<(), ActivityError> {
        activity_result(ledger::retract(&self.deps, &input).await)
    }

    /// Returns an unsent digest to its workflow.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Reopen)]
    pub async fn reopen(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: ReopenInput,
    ) -> Result<ReopenAnswer, ActivityError> {
        activity_result(ledger::reopen(&self.deps, &input).await)
    }

    /// Records operators' commands in the audit trail.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Audit)]
    pub async fn audit(self: Arc<Self>, _ctx: ActivityContext, input: AuditInput) -> Result<(), ActivityError> {
        activity_result(ledger::audit(&self.deps, &input).await)
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
        activity_result(ledger::dead_letters(&self.deps, &input).await)
    }
}
