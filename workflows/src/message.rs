//! A single message: one e-mail that a service hands over under an idempotency key. Its workflow delivers it, as a digest's
//! does, from the outbox on; nobody waits for it to collect anything.

pub mod activities;
mod state;
mod status;
mod workflow;

pub use status::Status;
pub use workflow::Message;
