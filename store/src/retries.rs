use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    message::contract::{Retried, RetryInput},
    step::{ReopenInput, Resumed},
};

use crate::Result;

/// Another try for a digest or a message, by order of an operator (rule 30).
///
/// Both methods fence the attempt that is under way, and audit the order once. They refuse if another end stays, if nothing is
/// left to send, and if the recipient may have the message already, unless the order allows a second copy.
#[async_trait]
pub trait Retries: Send + Sync + 'static {
    /// Reopens a digest that ended as dropped, failed, ambiguous or unknown, or that has no end. The digest keeps its id and its
    /// events. A window without a claim ends as skipped if all its events are retracted.
    async fn reopen(&self, input: &ReopenInput, now: Timestamp) -> Result<Resumed>;

    /// Queues a single message again that failed, was cancelled, is ambiguous or has no end.
    async fn retry_message(&self, input: &RetryInput, now: Timestamp) -> Result<Retried>;
}
