//! Steps of a digest: the input and the answer of each activity, side by side, one file a step.
//!
//! Workflows fill the inputs, activities give the answers. Both are workflow history, so no address and no body is in them.

mod audit;
mod claim;
mod close;
mod dead_letter;
pub(crate) mod outcome;
mod pause;
mod plan;
pub(crate) mod planned;
mod render;
mod reopen;
mod retract;
mod returned;
mod send;
mod stash;
pub(crate) mod window;

pub use audit::{AuditInput, Note};
pub use claim::{ClaimAnswer, ClaimInput};
pub use close::{CloseInput, Ending};
pub use dead_letter::{DeadLetter, DeadLettersInput};
pub use outcome::{Closed, Outcome};
pub use pause::PauseWait;
pub use plan::{DeadlineBasis, Joined, Limited, Plan, PlanInput, Signs};
pub use planned::{Planned, THEN};
pub use render::{RenderInput, Rendered, TooLarge};
pub use reopen::{ReopenInput, Resumed};
pub use retract::RetractInput;
pub use returned::Returned;
pub use send::{ReplyCode, SendInput, Sent, UnrecordedEnd};
pub use stash::{StashInput, Stashed};
pub use window::Window;
