//! The activities of the message workflow by name. `tidings-activities` implements these definitions.
#![expect(clippy::missing_errors_doc, reason = "the implementations in `tidings-activities` document their errors")]

use temporalio_common::ActivityError;
use temporalio_macros::activity_definitions;
use tidings_model::{
    message::contract::{Attempted, CloseInput, Retried, RetryInput, SendInput},
    window::Closed,
};

/// See each input in [`message::contract`](tidings_model::message::contract).
pub struct MessageActivities;

#[activity_definitions]
impl MessageActivities {
    #[activity(name = "message_send")]
    pub fn send(_: SendInput) -> Result<Attempted, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "message_close")]
    pub fn close(_: CloseInput) -> Result<Closed, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "message_retry")]
    pub fn retry(_: RetryInput) -> Result<Retried, ActivityError> {
        unimplemented!()
    }
}

/// The definitions, for `#[activity(definition = ...)]`.
pub mod definitions {
    pub use super::message_activities::{Close, Retry, Send};
}
