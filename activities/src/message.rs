//! The workflow of single messages: what happens to a message once it is in the outbox.

mod activities;
mod close;
mod retry;
pub mod send;

pub use activities::MessageActivities;

use tidings_model::contract::{Closed, Outcome};

/// The end of a workflow that was started without a message.
fn missing() -> Closed {
    Closed { outcome: Outcome::Failed, why: "the outbox has no such message".to_owned() }
}
