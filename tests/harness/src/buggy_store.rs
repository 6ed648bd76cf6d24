//! Parts of Tidings with one bug each. The checker must find every bug.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use temporalio_client::tonic::async_trait;
use temporalio_sdk::workflow_interceptors::{
    ContinueAsNewInput, ContinueAsNewResult, SyncWorkflowInterceptorContext, WorkflowInterceptor, WorkflowNext,
};
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
use tidings_store::{Result, Sqlite, Store, archive::Archive};
use tidings_workflows::Carried;
use tokio::time::sleep;
use uuid::Uuid;

/// The bug of a [`BuggyStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The store does not record the end of the first attempt.
    OutcomeNotRecorded,
    /// The store treats every event as new.
    NoDeduplication,
    /// The store forgets a retract that comes before its event.
    RetractForgotten,
    /// The store delays its answer to a written breaker. The store is correct; the delay shows what a paused process
    /// sees.
    LateAnswers,
}

/// A store with a bug.
pub struct BuggyStore {
    store: Arc<Sqlite>,
    bug: Bug,
    struck: AtomicBool,
}

impl BuggyStore {
    /// Adds the bug to a store.
    #[must_use]
    pub const fn new(store: Arc<Sqlite>, bug: Bug) -> Self {
        Self { store, bug, struck: AtomicBool::new(false) }
    }
}

#[async_trait]
impl Store for BuggyStore {
    async fn known_events(&self, key: &Key, event_ids: &[String], open: Option<Uuid>) -> Result<Vec<String>> {
        match self.bug {
            Bug::NoDeduplication => Ok(Vec::new()),
            _ => self.store.known_events(key, event_ids, open).await,
        }
    }

    async fn end_attempt(&self, message: Uuid, number: u32, end: &AttemptEnd, now: Timestamp) -> Result<()> {
        if self.bug == Bug::OutcomeNotRecorded && !self.struck.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.store.end_attempt(message, number, end, now).await
    }

    async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<()> {
        self.store.put_recipients(recipients, now).await
    }

    async fn put_preferences(&self, key: &Key, preferences: &Preferences, entry: &AuditEntry) -> Result<u64> {
        self.store.put_preferences(key, preferences, entry).await
    }

    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()> {
        if self.bug == Bug::RetractForgotten {
            return Ok(());
        }
        self.store.put_retracts(key, retracts, now).await
    }

    async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()> {
        self.store.put_consent(key, consent, entry).await
    }

    async fn suppress(&self, suppression: &Suppression) -> Result<()> {
        self.store.suppress(suppression).await
    }

    async fn suppressions(&self, filter: &SuppressionFilter) -> Result<Vec<Suppression>> {
        self.store.suppressions(filter).await
    }

    async fn lift(
        &self,
        tenant: &str,
        address: &str,
        reason: Option<Reason>,
        entry: &AuditEntry,
    ) -> Result<Vec<Reason>> {
        self.store.lift(tenant, address, reason, entry).await
    }

    async fn facts(&self, key: &Key) -> Result<Facts> {
        self.store.facts(key).await
    }

    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64> {
        self.store.stash(window, events, delivering, now).await
    }

    async fn claim(&self, window: &Window, events: &[Event], terms: &Terms<'_>, now: Timestamp) -> Result<Claimed> {
        self.store.claim(window, events, terms, now).await
    }

    async fn preview(
        &self,
        window: &Window,
        events: &[Event],
        off: &BTreeSet<String>,
        max_groups: u32,
    ) -> Result<Contents> {
        self.store.preview(window, events, off, max_groups).await
    }

    async fn reopen(&self, input: &ReopenInput, now: Timestamp) -> Result<Resumed> {
        self.store.reopen(input, now).await
    }

    async fn contents(&self, window: &Window, max_groups: u32) -> Result<Contents> {
        self.store.contents(window, max_groups).await
    }

    async fn close(&self, closing: Closing<'_>) -> Result<Ending> {
        self.store.close(closing).await
    }

    async fn set_aside(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending> {
        self.store.set_aside(closing, delivering).await
    }

    async fn put_message(&self, message: &Message, tells_of: Option<u64>) -> Result<bool> {
        self.store.put_message(message, tells_of).await
    }

    async fn shrink_message(&self, message: &Message, number: u32) -> Result<bool> {
        self.store.shrink_message(message, number).await
    }

    async fn begin_attempt(&self, message: Uuid, relay: &str, now: Timestamp) -> Result<Begun> {
        self.store.begin_attempt(message, relay, now).await
    }

    async fn message(&self, message: Uuid) -> Result<Option<MessageRecord>> {
        self.store.message(message).await
    }

    async fn messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>> {
        self.store.messages(filter).await
    }

    async fn attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>> {
        self.store.attempts(message).await
    }

    async fn suppressed(&self, tenant: &str, address: &str) -> Result<Vec<Reason>> {
        self.store.suppressed(tenant, address).await
    }

    async fn put_delivery_event(
        &self,
        event: &Reported,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Option<Recorded>> {
        self.store.put_delivery_event(event, soft_bounces, now).await
    }

    async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>> {
        self.store.delivery_events(message).await
    }

    async fn close_message(
        &self,
        key: &MessageKey,
        closed: &Closed,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Closed>> {
        self.store.close_message(key, closed, by, now).await
    }

    async fn retry_message(&self, input: &RetryInput, now: Timestamp) -> Result<Retried> {
        self.store.retry_message(input, now).await
    }

    async fn past_the_dot(&self, message: Uuid, number: u32, now: Timestamp) -> Result<bool> {
        self.store.past_the_dot(message, number, now).await
    }

    async fn audit(&self, input: &AuditInput) -> Result<()> {
        self.store.audit(input).await
    }

    async fn bury(&self, input: &BuryInput, now: Timestamp) -> Result<()> {
        self.store.bury(input, now).await
    }

    async fn breakers(&self) -> Result<BTreeMap<String, Kept>> {
        self.store.breakers().await
    }

    async fn put_breaker(&self, name: &str, kept: &Kept, entry: Option<&AuditEntry>, now: Timestamp) -> Result<bool> {
        let put = self.store.put_breaker(name, kept, entry, now).await;
        if self.bug == Bug::LateAnswers {
            sleep(Duration::from_millis(20)).await;
        }
        put
    }

    async fn purge(&self, cutoff: Cutoff, limit: u32, archive: Option<&Archive>, now: Timestamp) -> Result<Purged> {
        self.store.purge(cutoff, limit, archive, now).await
    }

    async fn expired(&self, cutoff: Cutoff) -> Result<u64> {
        self.store.expired(cutoff).await
    }

    async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        self.store.digest(digest_id).await
    }

    async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>> {
        self.store.digests(key, limit).await
    }
}

/// Continues as new without handing anything over.
pub struct Forgetful;

impl WorkflowInterceptor for Forgetful {
    fn continue_as_new(
        &self,
        _: SyncWorkflowInterceptorContext,
        mut input: ContinueAsNewInput,
        next: WorkflowNext<'static, ContinueAsNewInput, ContinueAsNewResult>,
    ) -> ContinueAsNewResult {
        if let Some(carried) = input.input_mut::<Carried>() {
            *carried = Carried::default();
        }
        next.run(input)
    }
}
