//! A single message: one e-mail that a service hands over under an idempotency key. Its workflow delivers the message from the
//! outbox as a digest's does, but collects nothing.

pub mod activities;
mod state;
mod status;
mod workflow;

pub use status::{Stage, Status};
pub use workflow::Message;
