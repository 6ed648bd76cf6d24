//! The deterministic part of Tidings: workflows for digests, messages, retention and subscriptions.
//!
//! Nothing here may read a clock, draw random numbers or do I/O; `clippy.toml` forbids this.

pub mod activities;
pub mod digest;
mod driver;
mod inbound;
pub mod message;
pub mod retention;
pub mod subscription;
#[cfg(test)]
mod tests;

pub use digest::{
    DeliveryStatus, Digest, DigestEnd, DigestStage, DigestStatus, DigestSummary, PAGE_BYTES, PAGE_EVENTS, RunInput,
};
pub use inbound::{CarriedState, CommandArgument, IgnoredPayload, InboundSignal, UnreadableState};
pub use message::Message;
pub use retention::RetentionRun;
pub use subscription::Deliveries;
