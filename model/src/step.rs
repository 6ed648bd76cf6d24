//! The steps of a digest: input and output of each activity, side by side.
//!
//! Both end up in workflow history, so they should not contain addresses or message bodies.

mod claim;
mod ledger;
mod plan;
mod send;

pub use claim::{ClaimAnswer, ClaimInput};
pub use ledger::{
    AuditInput, CloseInput, DeadLettersInput, Ending, Note, ReopenInput, Resumed, RetractInput, Returned, StashInput,
    Stashed,
};
pub use plan::{Joined, Limited, PauseWait, Plan, PlanInput, Signs};
pub use send::{RenderInput, Rendered, ReplyCode, SendInput, Sent, TooLarge, UnrecordedEnd};
