use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    MessageKey,
    records::{Actor, Listed, Message, MessageFilter, MessagePlace, MessageRecord},
    step::Closed,
};
use uuid::Uuid;

use crate::Result;

/// Messages, each with its final bytes. A *single* message belongs to no digest.
#[async_trait]
pub trait Outbox: Send + Sync + 'static {
    /// Stores a message, unless its digest is closed. The first write of an id wins.
    ///
    /// `tells_of` is the number of events that the message was made of. Returns `false` and stores nothing if the digest has
    /// another number of events by now.
    async fn put_message(&self, message: &Message, tells_of: Option<u64>) -> Result<bool>;

    /// Replaces a message by a smaller one after the relay of attempt `number` found it too large. A repeated call for the same
    /// attempt changes nothing. Returns `false` if the message was replaced before for another attempt, is not smaller, or may
    /// have arrived, or if the attempt is not the latest or has another end.
    async fn shrink_message(&self, message: &Message, number: u32) -> Result<bool>;

    /// Ends a single message, and audits that. Fences the attempt that is under way. The end is ambiguous if that attempt is past
    /// the dot. The first recorded end stays. Returns that end, or `None` for an unknown message.
    async fn close_message(
        &self,
        key: &MessageKey,
        closed: &Closed,
        by: Actor,
        now: Timestamp,
    ) -> Result<Option<Closed>>;

    /// Reads a message of a digest or a single one.
    async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>>;

    /// Reads the bytes of a tenant's message; `None` if the tenant has no such message, or no longer.
    async fn message_bytes(&self, tenant: &str, message: Uuid) -> Result<Option<Vec<u8>>>;

    /// Lists messages, the latest first.
    async fn messages(&self, filter: &MessageFilter) -> Result<Listed<MessageRecord, MessagePlace>>;
}
