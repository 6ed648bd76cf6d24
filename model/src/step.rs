//! Steps of a digest: the input and the answer of each activity, side by side.
//!
//! Workflows fill the inputs, activities give the answers. Both are workflow history, so no address and no body is in them.

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
