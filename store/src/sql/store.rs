//! [`Store`], method by method, each within its time.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::query_as;
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
use tokio::time::timeout;
use uuid::Uuid;

use super::{Dialect, Sql, ledger::Takes, rows::DigestRow, statements};
use crate::{Result, Store, archive::Archive};

/// How long a call may take: four waits for a lock. A database whose host is gone after it took a statement sends nothing any
/// more, and TCP has nothing to resend, so that nobody would notice.
const PATIENCE: Duration = Duration::from_mins(2);

async fn within<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let silent = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {PATIENCE:?}"));
    timeout(PATIENCE, call).await.unwrap_or_else(|_| Err(sqlx::Error::Io(silent()).into()))
}

#[async_trait]
impl<D: Dialect> Store for Sql<D> {
    async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<()> {
        within(self.write_recipients(recipients, now)).await
    }

    async fn put_preferences(&self, key: &Key, preferences: &Preferences, entry: &AuditEntry) -> Result<u64> {
        within(self.write_preferences(key, preferences, entry)).await
    }

    async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()> {
        within(self.write_consent(key, consent, entry)).await
    }

    async fn suppress(&self, suppression: &Suppression) -> Result<()> {
        within(async { Self::write_suppression(&mut *self.writer.acquire().await?, suppression).await }).await
    }

    async fn suppressions(&self, filter: &SuppressionFilter) -> Result<Vec<Suppression>> {
        within(self.read_suppressions(filter)).await
    }

    async fn lift(
        &self,
        tenant: &str,
        address: &str,
        reason: Option<Reason>,
        entry: &AuditEntry,
    ) -> Result<Vec<Reason>> {
        within(self.lift_suppression(tenant, address, reason, entry)).await
    }

    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()> {
        within(self.write_retracts(key, retracts, now)).await
    }

    async fn facts(&self, key: &Key) -> Result<Facts> {
        within(self.read_facts(key)).await
    }

    async fn known_events(&self, key: &Key, event_ids: &[String], open: Option<Uuid>) -> Result<Vec<String>> {
        within(self.read_known(key, event_ids, open)).await
    }

    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64> {
        within(async {
            let mut tx = self.write().await?;
            let mut digest = Self::collect(&mut tx, window, events, None, now).await?;
            digest.elsewhere.retain(|id| Some(*id) != delivering);
            Self::adopt(&mut tx, window, &digest, None, now).await?;
            tx.commit().await?;
            Ok(digest.taken)
        })
        .await
    }

    async fn claim(&self, window: &Window, events: &[Event], terms: &Terms<'_>, now: Timestamp) -> Result<Claimed> {
        within(self.claim_window(window, events, terms, now)).await
    }

    async fn preview(
        &self,
        window: &Window,
        events: &[Event],
        off: &BTreeSet<String>,
        max_groups: u32,
    ) -> Result<Contents> {
        within(self.read_preview(window, events, off, max_groups)).await
    }

    async fn contents(&self, window: &Window, max_groups: u32) -> Result<Contents> {
        within(self.read_contents(window, max_groups)).await
    }

    async fn close(&self, closing: Closing<'_>) -> Result<Ending> {
        within(self.close_window(closing, Takes::All)).await
    }

    async fn set_aside(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending> {
        within(self.close_window(closing, Takes::TheseFromAllBut(delivering))).await
    }

    async fn reopen(&self, input: &ReopenInput, now: Timestamp) -> Result<Resumed> {
        within(self.reopen_digest(input, now)).await
    }

    async fn put_message(&self, message: &Message, tells_of: Option<u64>) -> Result<bool> {
        within(self.write_message(message, tells_of)).await
    }

    async fn shrink_message(&self, message: &Message, number: u32) -> Result<bool> {
        within(self.replace_message(message, number)).await
    }

    async fn begin_attempt(&self, message: Uuid, relay: &str, now: Timestamp) -> Result<Begun> {
        within(self.start_attempt(message, relay, now)).await
    }

    async fn past_the_dot(&self, message: Uuid, number: u32, now: Timestamp) -> Result<bool> {
        within(self.pass_the_dot(message, number, now)).await
    }

    async fn end_attempt(&self, message: Uuid, number: u32, end: &AttemptEnd, now: Timestamp) -> Result<()> {
        within(self.finish_attempt(message, number, end, now)).await
    }

    async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>> {
        within(self.read_message(message)).await
    }

    async fn messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>> {
        within(self.read_messages(filter)).await
    }

    async fn attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>> {
        within(self.read_attempts(message)).await
    }

    async fn suppressed(&self, tenant: &str, address: &str) -> Result<Vec<Reason>> {
        within(self.read_suppressed(tenant, address)).await
    }

    async fn put_delivery_event(
        &self,
        event: &Reported,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Option<Recorded>> {
        within(self.write_delivery_event(event, soft_bounces, now)).await
    }

    async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>> {
        within(self.read_delivery_events(message)).await
    }

    async fn close_message(
        &self,
        key: &MessageKey,
        closed: &Closed,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Closed>> {
        within(self.close_single(key, closed, by, now)).await
    }

    async fn retry_message(&self, input: &RetryInput, now: Timestamp) -> Result<Retried> {
        within(self.retry_single(input, now)).await
    }

    async fn audit(&self, input: &AuditInput) -> Result<()> {
        within(self.write_notes(input)).await
    }

    async fn bury(&self, input: &BuryInput, now: Timestamp) -> Result<()> {
        within(self.write_letters(input, now)).await
    }

    async fn breakers(&self) -> Result<BTreeMap<String, Kept>> {
        within(self.read_breakers()).await
    }

    async fn put_breaker(&self, name: &str, kept: &Kept, entry: Option<&AuditEntry>, now: Timestamp) -> Result<bool> {
        within(self.write_breaker(name, kept, entry, now)).await
    }

    async fn purge(&self, cutoff: Cutoff, limit: u32, archive: Option<&Archive>, now: Timestamp) -> Result<Purged> {
        within(self.purge_batch(cutoff, limit, archive, now)).await
    }

    async fn expired(&self, cutoff: Cutoff) -> Result<u64> {
        // Nobody but a person waits for it, and it takes as long as there are rows.
        self.count_expired(cutoff).await
    }

    async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        within(async {
            let row: Option<DigestRow> =
                query_as(statements::DIGEST).bind(digest_id.to_string()).fetch_optional(&self.reader).await?;
            Ok(row.map(DigestRecord::from))
        })
        .await
    }

    async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>> {
        within(async {
            let statement = query_as(statements::DIGESTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            let found: Vec<DigestRow> = statement.bind(i64::from(limit)).fetch_all(&self.reader).await?;
            Ok(found.into_iter().map(DigestRecord::from).collect())
        })
        .await
    }
}
