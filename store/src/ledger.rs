use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Event, Key, Retract,
    records::{Closing, DigestRecord},
    step::{Ending, Returned, Window},
};
use uuid::Uuid;

use crate::Result;

/// Digests, their events and their ends.
///
/// A digest is *orphaned* if it has no end and no attempt, and its window opened before the one that asks. Its workflow task was
/// lost, and the same events came again. The later window adopts its events, and the orphan ends as skipped.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Returns the known ones of `event_ids`, in the order given. A key knows an event if its digest has an end or is `open`.
    /// A digest without an end may stem from a lost workflow task. That workflow asks again, and its events must be new then.
    async fn known_events(&self, key: &Key, event_ids: &[String], open: Option<Uuid>) -> Result<Vec<String>>;

    /// Writes a page of events under the window's digest, which stays open. Known event ids are left alone.
    ///
    /// Adopts the events of orphaned digests that have one of these events, except for the digest `delivering`, which is in
    /// delivery.
    ///
    /// Returns the number of events, from the first on, that the ledger has now ([`Ending::taken`]). A digest with a message or
    /// an end takes none: later events belong to a later window.
    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64>;

    /// Retracts events. A retract removes an event from its digest at the next claim, and also covers events that come later.
    /// Of several retracts of one entity the latest `until` stays.
    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()>;

    /// Ends a digest in one transaction with its `events`, which are written as [`Ledger::stash`] does, and an audit entry.
    ///
    /// With `return_events` the events join the key's next claim, unless they were returned twice before (rule 25). The end of a
    /// window that was not claimed takes the events that wait for one. The first recorded end stays. Returns that end. A repeated
    /// call may bring more events for the same end.
    async fn close(&self, closing: Closing<'_>) -> Result<Ending>;

    /// Ends a digest that takes a part of a window's events, as [`Ledger::close`] does. From an orphaned digest it adopts these
    /// events only, and from the digest `delivering` none.
    async fn exclude(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending>;

    /// The events of the key that failed digests returned, and that wait for its next claim. Of these it has at least one.
    async fn returned(&self, key: &Key) -> Result<Option<Returned>>;

    /// The first of the events that [`Ledger::returned`] counts.
    async fn returned_event(&self, key: &Key) -> Result<Option<Event>>;

    /// Reads a digest.
    async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>>;

    /// Lists a key's digests, the latest first.
    async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>>;
}
