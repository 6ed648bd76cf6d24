//! The workflow of single messages: what happens to a message once it is in the outbox.

mod activities;
mod close;
pub(crate) mod remake;
mod retry;
pub mod send;

pub use activities::MessageActivities;
