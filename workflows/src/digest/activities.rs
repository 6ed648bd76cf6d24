//! The activities by name, as the workflow calls them. `tidings-activities` implements these definitions.
#![expect(clippy::missing_errors_doc, reason = "the implementations in `tidings-activities` document their errors")]

use temporalio_common::ActivityError;
use temporalio_macros::activity_definitions;
use tidings_model::step::{
    AuditInput, ClaimAnswer, ClaimInput, CloseInput, DeadLettersInput, Ending, Plan, PlanInput, RenderInput, Rendered,
    ReopenInput, Resumed, RetractInput, SendInput, Sent, StashInput, Stashed,
};

/// See each input in [`contract`](tidings_model::step).
pub struct DigestActivities;

#[activity_definitions]
impl DigestActivities {
    #[activity(name = "plan")]
    pub fn plan(_: PlanInput) -> Result<Plan, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "stash")]
    pub fn stash(_: StashInput) -> Result<Stashed, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "load")]
    pub fn claim(_: ClaimInput) -> Result<ClaimAnswer, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "render")]
    pub fn render(_: RenderInput) -> Result<Rendered, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "send")]
    pub fn send(_: SendInput) -> Result<Sent, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "close")]
    pub fn close(_: CloseInput) -> Result<Ending, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "retract")]
    pub fn retract(_: RetractInput) -> Result<(), ActivityError> {
        unimplemented!()
    }

    #[activity(name = "reopen")]
    pub fn reopen(_: ReopenInput) -> Result<Resumed, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "audit")]
    pub fn audit(_: AuditInput) -> Result<(), ActivityError> {
        unimplemented!()
    }

    #[activity(name = "bury")]
    pub fn dead_letters(_: DeadLettersInput) -> Result<(), ActivityError> {
        unimplemented!()
    }
}

/// The definitions, for `#[activity(definition = ...)]`.
pub mod definitions {
    pub use super::digest_activities::{Audit, Claim, Close, DeadLetters, Plan, Render, Reopen, Retract, Send, Stash};
}
