use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Event, Key,
    records::{CapSpan, ClaimLimits, Claimed, Contents, Facts, RenderedClaim, Shown},
    step::Window,
};

use crate::Result;

/// The step from a due window to a digest with contents.
#[async_trait]
pub trait Claims: Send + Sync + 'static {
    /// Reads the facts about the key of a due window, and `true` if the window is *fresh*: the ledger has no digest of it, and of
    /// the key neither a returned event nor a retract, and the key has one name.
    async fn facts_for_claim(&self, window: &Window) -> Result<(Facts, bool)>;

    /// Reads the ids of the events that the ledger has of a window: stashed ones, and those that the key's failed digests returned. At
    /// most this number, the latest first.
    async fn window_events(&self, window: &Window, most: u32) -> Result<Vec<String>>;

    /// Makes a fresh window a digest and stores its message, in one transaction. Returns `false` and writes nothing if the window
    /// is not fresh any more, or if the ledger has one of its events.
    async fn claim_rendered(&self, claim: RenderedClaim<'_>) -> Result<bool>;

    /// Makes a window a digest, in one transaction.
    ///
    /// Writes `events` as [`Ledger::stash`](crate::Ledger::stash) does. Adds the events that the key's failed digests returned,
    /// also if the digest has no others. Excludes events that are retracted, of a category that is off, seen, too old or too few. Excluded events
    /// go to a digest of their own for each kind, which ends as skipped.
    ///
    /// Over the recipient's cap the call writes nothing. A digest of the key counts from its [slot](ClaimLimits::slot_at) or else its claim on,
    /// and one of another digest type from its claim, unless it ends without an email. Two simultaneous claims never pass the cap together.
    ///
    /// A digest with a message or an end stays unchanged.
    async fn claim(
        &self,
        window: &Window,
        events: &[Event],
        limits: &ClaimLimits<'_>,
        now: Timestamp,
    ) -> Result<Claimed>;

    /// The time from which the oldest of as many digests as the cap allows counts, by what is claimed now. `None`: the recipient had fewer
    /// in the span. Locks nothing: a claim checks again.
    async fn capped_from(&self, key: &Key, cap: CapSpan) -> Result<Option<Timestamp>>;

    /// The contents that a claim would give. Changes nothing.
    async fn preview(
        &self,
        window: &Window,
        events: &[Event],
        off: &BTreeSet<String>,
        shown: Shown<'_>,
    ) -> Result<Contents>;

    /// The contents of a digest: the `shown` groups, and sums of all. Groups rank by the priority of their category, then by number
    /// of events, then by latest event, then by (category, `entity_type`, `entity_id`) in byte order (rule 19). Sums stop at the limits of an `i64`.
    async fn contents(&self, window: &Window, shown: Shown<'_>) -> Result<Contents>;
}
