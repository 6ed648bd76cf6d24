use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Content, Event, Key, Repetition, Retract,
    records::{Closing, DigestRecord, KnownEvents, Reached},
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
    ///
    /// `contents` has the content of each, or nothing, if a former workflow asks. Other content of an event that is in no message yet is
    /// not known: a later write takes it in. Nor is what occurred after the event was retracted. Changes nothing.
    async fn known_events(
        &self,
        key: &Key,
        event_ids: &[String],
        contents: &[Content],
        open: Option<Uuid>,
    ) -> Result<KnownEvents>;

    /// Records that other content came under ids of events that are over. Of several contents of an id the latest stays.
    async fn refuse_contents(&self, key: &Key, refused: &[(String, Content)], now: Timestamp) -> Result<()>;

    /// What each of the events is, as far as the ledger knows its id from a digest that has a message or an end. Changes nothing.
    async fn repetitions(&self, events: &[(Key, String, Content)]) -> Result<Vec<Option<Repetition>>>;

    /// Writes a page of events under the window's digest, which stays open. Known event ids are left alone, unless the event is in no
    /// message yet: then other content is [merged](Event::merge) into it. An event that occurred after its retract is written anew.
    ///
    /// Adopts the events of orphaned digests that have one of these events, except for the digest `delivering`, which is in
    /// delivery.
    ///
    /// Returns the number of events, from the first on, that the ledger has now ([`Ending::taken`]). A digest with a message or
    /// an end takes none: later events belong to a later window.
    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64>;

    /// Retracts events. A retract removes an event from its digest at the next claim, and also covers events that come later and
    /// occurred before. A retract by id covers the event that the ledger has; without one, what occurred until `now`. One with a time of
    /// its own covers nothing that occurred later, however often it is put. Of several retracts of one entity or id the latest time stays.
    /// From then on no attempt passes the dot with a retracted event: an attempt that is under way is fenced, and
    /// the next one finds the message to be made again.
    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()>;

    /// Reads what each of the retracts reaches as the ledger is now. For a retract by entity, digests that ended more than a day ago
    /// do not count.
    async fn reach(&self, retracts: &[(Key, Retract)], now: Timestamp) -> Result<Vec<Reached>>;

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
