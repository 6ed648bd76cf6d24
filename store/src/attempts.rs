use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key,
    records::{AttemptEnd, AttemptRecord, AttemptStart, Facts, FirstAttempt, WaitingMessage},
};
use uuid::Uuid;

use crate::Result;

/// Attempts to deliver a message, and the fence between them (rules 24 to 27).
///
/// Only the latest attempt of a message may send. To begin an attempt fences every earlier one: a fenced attempt can neither
/// send the final dot nor end the message.
#[async_trait]
pub trait Attempts: Send + Sync + 'static {
    /// Reads the facts about a key and, if its digest's message has no end and no attempt has passed the dot, the message.
    /// A first attempt needs no [`begin_attempt`](Self::begin_attempt).
    async fn facts_for_attempt(&self, key: &Key, message: Uuid) -> Result<(Facts, Option<WaitingMessage>)>;

    /// Records a first attempt that is about to send the final dot. Returns `false` if another attempt was recorded before, or if
    /// the message has an end or another epoch: the dot must not be sent. The same attempt may ask again.
    async fn first_past_the_dot(&self, first: &FirstAttempt, now: Timestamp) -> Result<bool>;

    /// Records a first attempt that ended before the final dot, with its end. Changes nothing where
    /// [`first_past_the_dot`](Self::first_past_the_dot) would return `false`.
    async fn end_first_attempt(&self, first: &FirstAttempt, end: &AttemptEnd, now: Timestamp) -> Result<()>;

    /// Begins an attempt: fences every earlier attempt, takes the next number and returns the stored bytes.
    ///
    /// While an earlier attempt without an end has been past the dot for less than `reply_time`, the reply to it may still come:
    /// [`AttemptStart::AwaitsReply`], and nothing changes. After that time it becomes ambiguous.
    async fn begin_attempt(
        &self,
        message: Uuid,
        relay: &str,
        reply_time: Duration,
        now: Timestamp,
    ) -> Result<AttemptStart>;

    /// Records that an attempt is about to send the final dot. Returns `false` if the attempt is fenced or the message has an end:
    /// the dot must not be sent. The same attempt may ask again.
    async fn past_the_dot(&self, message: Uuid, number: u32, now: Timestamp) -> Result<bool>;

    /// Records the end of an attempt. The first end counts.
    ///
    /// A late answer to a fenced attempt is kept in its row and changes nothing else, unless it is a success: a success ends a
    /// message without an end, so that the recipient gets no second email (rule 26). A success always sets
    /// [`Facts::last_sent_at`](tidings_model::records::Facts::last_sent_at).
    async fn end_attempt(&self, message: Uuid, number: u32, end: &AttemptEnd, now: Timestamp) -> Result<()>;

    /// Lists the attempts of a message in their order.
    async fn attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>>;
}
