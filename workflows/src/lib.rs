//! The deterministic part of Tidings: the workflows of digests, messages, retention and
//! subscriptions.
//!
//! Nothing here reads a clock, draws a random number or does I/O; `clippy.toml` forbids it.

mod carried;
mod command_argument;
pub mod digest;
mod driver;
#[cfg(test)]
mod entries;
mod inbound;
pub mod message;
pub mod retention;
pub mod subscription;

pub use carried::{CarriedState, UnreadableState};
pub use command_argument::CommandArgument;
pub use digest::{Delivery, Digest, Ended, PAGE_BYTES, PAGE_EVENTS, RunInput, Stage, Status, Summary, activities};
pub use inbound::{Ignored, Inbound};
pub use message::Message;
pub use retention::RetentionRun;
pub use subscription::Deliveries;
