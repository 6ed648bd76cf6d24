//! A single message: one e-mail that a service hands over under an idempotency key.

pub mod command;
pub mod contract;
mod key;

pub use key::MessageKey;
