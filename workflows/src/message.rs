//! A single message: one e-mail that a service hands over under an idempotency key. Its workflow delivers it, as a digest's
//! does, from the outbox on; nobody waits for it to collect anything.

pub mod activities;
pub mod command;
pub mod contract;
mod key;
mod state;
mod status;
mod workflow;

pub use key::MessageKey;
pub use status::Status;
pub use workflow::Message;
