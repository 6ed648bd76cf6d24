//! The store: what Tidings remembers outside of Temporal. Directory, preferences, consent, suppressions, the ledger
//! of digests and events, the outbox with its attempts, dead letters, audit.
//!
//! One trait, two implementations ([`Sqlite`] and [`Postgres`]), one conformance suite that runs against both.
//! Every method is idempotent: after a crash or a lost answer the caller calls it again.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Event, Key, MessageKey, Retract,
    breaker::Kept,
    contract::{AuditInput, BuryInput, Closed, Ending, ReopenInput, Resumed, Window},
    delivery_events::{Recorded, ReportRecord, Reported},
    message::contract::{Retried, RetryInput},
    records::{
        AttemptEnd, AttemptRecord, AuditEntry, Begun, Claimed, Closing, Contents, DigestRecord, Facts, Message,
        MessageFilter, MessageRecord, Preferences, Reason, Recipient, Suppression, SuppressionFilter, Terms,
    },
    retention::{Cutoff, Purged},
};
use uuid::Uuid;

use crate::archive::Archive;

pub mod archive;
#[cfg(test)]
mod conformance;
mod error;
mod sql;

pub use sql::{Postgres, Sqlite};

/// The store cannot answer now, or never will.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Connection, lock, disk: another attempt may succeed.
    #[error("the store is unavailable: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// The database is not what this version expects, or a row cannot be read.
    #[error("{0}")]
    Broken(String),
    /// What is to be deleted cannot be archived, and stays.
    #[error(transparent)]
    Archive(#[from] archive::Error),
}

/// Shorthand of this module's methods.
pub type Result<T> = std::result::Result<T, Error>;

/// See the module.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Adds people to the directory, or replaces what it knows of them. Another zone counts in [`Facts::revision`].
    async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<()>;

    /// Replaces a key's preferences and returns their revision: one higher than the last, with an audit entry, unless they
    /// are the same.
    async fn put_preferences(&self, key: &Key, preferences: &Preferences, entry: &AuditEntry) -> Result<u64>;

    /// Records whether the key wants mail at all, with an audit entry when that is a change.
    async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()>;

    /// Takes events back: those without a mail at their next claim, and those that are still to come. Of the retracts
    /// about one entity the latest `until` stays.
    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()>;

    /// Records that a tenant must not mail an address, for this reason as for others; of each the earliest stays.
    async fn suppress(&self, suppression: &Suppression) -> Result<()>;

    /// Which addresses must not be mailed.
    async fn suppressions(&self, filter: &SuppressionFilter) -> Result<Vec<Suppression>>;

    /// Lets a tenant mail an address again, as far as this reason keeps it from that, or any. Answers with the reasons that
    /// there were; each is audited, without the address.
    async fn lift(
        &self,
        tenant: &str,
        address: &str,
        reason: Option<Reason>,
        entry: &AuditEntry,
    ) -> Result<Vec<Reason>>;

    /// All that plan and admission ask about a key, in one round trip. `tenant`'s address comparison ignores case.
    async fn facts(&self, key: &Key) -> Result<Facts>;

    /// Those of `event_ids` that the key's ledger has in digests that came to their end, or in the digest `open`; in the
    /// order given. What a digest without an end has may be the work of a workflow task that was lost: whoever made it
    /// asks again, and must find its events new.
    async fn known_events(&self, key: &Key, event_ids: &[String], open: Option<Uuid>) -> Result<Vec<String>>;

    /// Writes a page of events under the window's digest, which stays open. Ids that the ledger knows are left alone,
    /// but for those in a digest that was left behind: one without an end and without an attempt, whose window opened
    /// before this one. A workflow whose events come again has lost it, so that it ends as skipped, and all that it has
    /// is this digest's now. The digest that is on its way (`delivering`) is none of these.
    ///
    /// Answers with how many of the events, from the first on, are in the ledger now ([`Ending::taken`]). A digest that
    /// has a message or an end takes nothing: both may be the work of a workflow task that was lost, and what has come
    /// since belongs to a later window.
    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64>;

    /// Makes the window a digest, in one transaction: writes `events` like [`Store::stash`], takes over the events
    /// that the key's failed digests returned, unless it has none of its own, and answers with what is ours now. Events that a retract covers, and those
    /// of a category that is off, are set aside: each kind goes to a digest of its own that ends as skipped at once. A
    /// digest that has a message or is closed takes nothing over and sets nothing aside.
    ///
    /// Over the recipient's cap it writes nothing. Digests count from their claim on, unless they ended without a mail;
    /// of two claims at the same instant the second sees the first.
    async fn claim(&self, window: &Window, events: &[Event], terms: &Terms<'_>, now: Timestamp) -> Result<Claimed>;

    /// What a claim would make of the window, without a trace of having asked.
    async fn preview(
        &self,
        window: &Window,
        events: &[Event],
        off: &BTreeSet<String>,
        max_groups: u32,
    ) -> Result<Contents>;

    /// The digest's content, grouped, ranked, summed and cut to `max_groups` in SQL (rule 19: event count, then
    /// latest event, then (category, entity_type, entity_id) in byte order). Sums stop at what an i64 holds.
    async fn contents(&self, window: &Window, max_groups: u32) -> Result<Contents>;

    /// Ends a digest that has no end yet, in one transaction with its `events` (written like [`Store::stash`], and also
    /// where it has this end already: the answer may have been lost, and more have come) and an audit entry. With
    /// `return_events` they join the key's next claim. Answers with the end that the ledger holds, which is the first one
    /// recorded.
    async fn close(&self, closing: Closing<'_>) -> Result<Ending>;

    /// Ends a digest beside the window's as [`Store::close`] does, with a part of the window's events. From one that was left
    /// behind it takes over these events and no others, and from the one that is on its way, `delivering`, none.
    async fn set_aside(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending>;

    /// Takes up a digest again that ended as dropped, failed, ambiguous or unknown, or that has no end, with the events
    /// that it has and an audit entry. Fences the attempt that is under way. Refuses, and leaves everything as it is, where
    /// another end stays, where nothing is left to send, and where the recipient may have the mail, unless told that a
    /// second one does no harm. A window that was never claimed, and of which all was taken back, ends as skipped.
    async fn reopen(&self, input: &ReopenInput, now: Timestamp) -> Result<Resumed>;

    /// Puts a message in the outbox, unless it is of a digest that is closed. The first write wins, of a single one under
    /// its idempotency key. `tells_of`: events that the mail of a digest was made of; `false`, and nothing changes: the digest
    /// has another number of them by now.
    async fn put_message(&self, message: &Message, tells_of: Option<u64>) -> Result<bool>;

    /// Puts a smaller message in the place of one that the relay of attempt `number` finds too large. `false`: another one was
    /// put there before, or the attempt is not under way any more.
    async fn shrink_message(&self, message: &Message, number: u32) -> Result<bool>;

    /// Starts an attempt: takes the next attempt number, which fences every earlier attempt, and answers with the
    /// stored bytes. An earlier attempt that is past the dot and has no outcome is recorded as ambiguous.
    async fn begin_attempt(&self, message: Uuid, relay: &str, now: Timestamp) -> Result<Begun>;

    /// Records that attempt `number` is about to send the final dot. `false`: a later attempt has begun or the
    /// message has an end, and the dot must not be sent. The same attempt may ask again.
    async fn past_the_dot(&self, message: Uuid, number: u32, now: Timestamp) -> Result<bool>;

    /// Records how attempt `number` ended; the first end counts. A late answer to a fenced attempt is kept in its row,
    /// which stays ambiguous, and changes nothing else, with one exception: a success ends a message that has no end, so
    /// that the attempt that took over does not send a second mail (rule 26). A success always moves
    /// [`Facts::last_sent_at`], also where the digest had another end.
    async fn end_attempt(&self, message: Uuid, number: u32, end: &AttemptEnd, now: Timestamp) -> Result<()>;

    /// What the outbox says of a message, of a digest or a single one.
    async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>>;

    /// The latest messages that pass the filter.
    async fn messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>>;

    /// The attempts to deliver a message, in their order.
    async fn attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>>;

    /// Why a tenant must not mail an address, the first reason first; case does not matter.
    async fn suppressed(&self, tenant: &str, address: &str) -> Result<Vec<Reason>>;

    /// Records what a relay's provider reports of a message, once, and carries out what follows from it
    /// ([`delivery_events::effects`](tidings_model::delivery_events::effects)), in one transaction. `soft_bounces`: so many of them
    /// in a row suppress an address. `None`: no relay was given such a message of this tenant.
    async fn put_delivery_event(&self, event: &Reported, soft_bounces: u32, now: Timestamp)
    -> Result<Option<Recorded>>;

    /// What was reported of a message, in the order in which it happened.
    async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>>;

    /// Ends a single message that has no end yet, with an audit entry. Fences the attempt that is under way; where that was
    /// past the dot the end is ambiguous. Answers with the end that the outbox holds, which is the first one recorded;
    /// `None`: there is no such message. `by` is the operator who wants it; empty: Tidings itself.
    async fn close_message(
        &self,
        key: &MessageKey,
        closed: &Closed,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Closed>>;

    /// Takes up a single message again that failed, was cancelled or is ambiguous, or that has no end, with an audit entry.
    /// Fences the attempt that is under way. Refuses like [`Store::reopen`].
    async fn retry_message(&self, input: &RetryInput, now: Timestamp) -> Result<Retried>;

    /// Records commands in the audit trail, once each.
    async fn audit(&self, input: &AuditInput) -> Result<()>;

    /// Records signals that could not be decoded, once each.
    async fn bury(&self, input: &BuryInput, now: Timestamp) -> Result<()>;

    /// What is remembered of relays, by name. A relay that nothing happened to is missing.
    async fn breakers(&self) -> Result<BTreeMap<String, Kept>>;

    /// Remembers it of a relay, with an audit entry. `false`: somebody else has changed it since, so that its revision is
    /// no longer the one before this.
    async fn put_breaker(&self, name: &str, kept: &Kept, entry: Option<&AuditEntry>, now: Timestamp) -> Result<bool>;

    /// Takes one batch out of the store, in one transaction: archives at most `limit` rows, where there is an archive, and
    /// deletes them. What has no end yet, what waits for a claim, and a retract that may cover one of these is never
    /// touched, and what another call works on is left for later. Of two calls at once each has its own rows.
    async fn purge(&self, cutoff: Cutoff, limit: u32, archive: Option<&Archive>, now: Timestamp) -> Result<Purged>;

    /// How many rows [`Store::purge`] would delete, batch by batch.
    async fn expired(&self, cutoff: Cutoff) -> Result<u64>;

    /// What the ledger says of a digest.
    async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>>;

    /// The key's digests, latest first.
    async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>>;
}
