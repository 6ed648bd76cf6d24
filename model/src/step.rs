//! The steps of a digest: each activity's input and output.
//!
//! Workflow history keeps both, so they never contain addresses or message bodies.

mod claim;
mod ledger;
mod plan;
mod send;

pub use claim::{ClaimAnswer, ClaimInput};
pub use ledger::{
    AuditInput, AuditNote, CloseAnswer, CloseDigestInput, DeadLettersInput, ReopenAnswer, ReopenInput, RetractInput,
    ReturnedEvents, StashAnswer, StashInput,
};
pub use plan::{DeadlineInputs, EventOrigin, ExhaustedLimit, PauseWait, Plan, PlanInput};
pub use send::{RenderAnswer, RenderInput, ReplyCode, SendAnswer, SendDigestInput, TooLarge, UnrecordedEnd};
