//! Steps of a digest: the input and the answer of each activity, side by side, one file a step.
//!
//! Workflows fill the inputs, activities give the answers. Both are workflow history, so no address and no body is in them.

mod audit;
mod claim;
mod close;
mod dead_letter;
mod pause;
mod plan;
mod render;
mod reopen;
mod retract;
mod returned;
mod send;
mod stash;

pub use audit::{AuditInput, Note};
pub use claim::{ClaimAnswer, ClaimInput};
pub use close::{CloseInput, Ending};
pub use dead_letter::DeadLettersInput;
pub use pause::PauseWait;
pub use plan::{Joined, Limited, Plan, PlanInput, Signs};
pub use render::{RenderInput, Rendered, TooLarge};
pub use reopen::{ReopenInput, Resumed};
pub use retract::RetractInput;
pub use returned::Returned;
pub use send::{ReplyCode, SendInput, Sent, UnrecordedEnd};
pub use stash::{StashInput, Stashed};
