use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Event, Key, MessageKey,
    records::{Actor, Listed, Message, MessageFilter, MessagePlace, MessageRecord, Withdrawn},
    step::{Closed, Window},
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

    /// Takes events out of a digest whose message waits: those that a retract covers, those of categories that are `off`, and `seen`
    /// ones. They go where a claim puts them. The message must be made again: until then no attempt passes the dot. `None`: the digest
    /// has an end, or an attempt has passed the dot, and nothing changes.
    async fn withdraw(
        &self,
        window: &Window,
        off: &BTreeSet<String>,
        seen: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<Option<Withdrawn>>;

    /// Takes other content of an event into a digest whose message waits, as [`Ledger::stash`](crate::Ledger::stash) does. The message must
    /// be made again: until then no attempt passes the dot. `false`: no message that waits has other content under the event's id, and
    /// nothing changes.
    async fn take_content(&self, key: &Key, event: &Event, now: Timestamp) -> Result<bool>;

    /// Replaces a message that waits, under its `Message-ID`, and fences attempts that are under way. Another address or other bytes are
    /// audited with this reason. `epoch` is that of [`Withdrawn`], before the events of a digest were read, or of
    /// [`waiting_message`](Self::waiting_message). Returns the epoch of the new message. `None`: the message has another epoch, it or its
    /// digest has an end, or an attempt has passed the dot, and nothing changes.
    async fn remake_message(&self, message: &Message, epoch: u64, why: &str, now: Timestamp) -> Result<Option<u64>>;

    /// Notes since when a message that waits cannot be made again, because its recipient or its digest type is unknown. `None`: it can.
    async fn note_missing(&self, message: Uuid, since: Option<Timestamp>) -> Result<()>;

    /// Reads the Message-ID of the first message of a thread before the one of this window. Messages that were not sent, and will not
    /// be, do not count.
    async fn first_of_thread(&self, thread: Uuid, window: &Window) -> Result<Option<String>>;

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

    /// Reads a message that can be made again, with its epoch: it has no end, and no attempt has passed the dot.
    async fn waiting_message(&self, message: Uuid) -> Result<Option<(Message, u64)>>;

    /// Reads the bytes of a tenant's message; `None` if the tenant has no such message, or no longer.
    async fn message_bytes(&self, tenant: &str, message: Uuid) -> Result<Option<Vec<u8>>>;

    /// Lists messages, the latest first.
    async fn messages(&self, filter: &MessageFilter) -> Result<Listed<MessageRecord, MessagePlace>>;
}
