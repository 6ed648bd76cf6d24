//! The workflow of single messages: what happens to a message once it is in the outbox.

mod activities;
mod close;
mod retry;
pub mod send;

use tidings_model::step::{Closed, Outcome};

pub use activities::MessageActivities;

/// The end of a workflow that was started without a message.
fn missing() -> Closed {
    Closed { outcome: Outcome::Failed, why: "the outbox has no such message".to_owned() }
}
