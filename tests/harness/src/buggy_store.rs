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
use serde_json::Value;
use temporalio_client::tonic::async_trait;
use temporalio_sdk::workflow_interceptors::{
    ContinueAsNewInput, ContinueAsNewResult, SyncWorkflowInterceptorContext, WorkflowInterceptor, WorkflowNext,
};
use tidings_model::{
    Content, Event, Key, MessageKey, Repetition, Retract,
    api_token::TokenRecord,
    breaker::VersionedBreaker,
    delivery_events::{LetterEmitted, Recorded, ReportRecord, Reported, RequestRecorded, WebhookRequest},
    inbox::{Depth, Found, Item, Lease, Waiting},
    installation::Installation,
    job::{Job, JobFilter, JobPlace, JobState, KeyResult},
    message::contract::{Retried, RetryInput},
    pause::{Pause, Paused, Scope},
    process::{FileId, Process},
    records::{
        Actor, AttemptEnd, AttemptRecord, AttemptStart, AuditEntry, AuditFilter, AuditPlace, AuditRecord, CapSpan,
        ClaimLimits, Claimed, Closing, Contents, Cursor, DeadLetterFilter, DeadLetterId, DeadLetterPlace,
        DeadLetterRecord, DigestEvent, DigestFilter, DigestPlace, DigestRecord, Emitted, Erased, EventPlace, Facts,
        FirstAttempt, HeldId, KeptLetter, KeptWebhookLetter, KeyPlace, KnownEvents, Listed, ListedRecipient, Message,
        MessageFilter, MessagePlace, MessageRecord, MovedRows, NameKind, Page, Part, Person, PersonId, Preferences,
        PreferencesPut, Reached, Reason, Recipient, RecipientChange, RecipientFilter, RecipientPlace, RefusalRecord,
        RenderedClaim, RowPlace, Shown, StoredName, Suppression, SuppressionFilter, SuppressionPlace, WaitingMessage,
        WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace, WebhookLetterRecord, Wish, Withdrawn,
    },
    report::{Counts, Question},
    retention::{ArchiveRecord, Cutoff, Purged, RetractExpiry},
    settings::FormerNames,
    statistics::{self, LedgerStatistics, ReportedByKind, Suppressed, Undelivered},
    step::{AuditInput, Closed, DeadLettersInput, Ending, ReopenInput, Resumed, Returned, Window},
    subscription::{DeadNotice, Notice, Replayed, RetiredNotices, Settled, Subscription, SubscriptionState},
    troubled_run::{DueRun, FoundRun, Resolution, RunId, Swept, Trouble},
};
use tidings_store::{
    Attempts, AuditTrail, Breakers, Claims, Directory, Erasure, Generations, Health, Inbox, Installations, Jobs,
    Ledger, ListedRun, Listings, Names, Notices, Outbox, Pauses, People, Reports, Result, Retention, Retries, Sqlite,
    Statistics, StoredToken, Suppressions, Tokens, TroubledRuns, archive::Archive, pseudonym::Pseudonyms,
};
use tidings_workflows::CarriedState;
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

/// Implements a trait of the store by its calls to the real one.
macro_rules! forward {
    ($subject:ident { $(fn $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+ }) => {
        #[async_trait]
        impl $subject for BuggyStore {
            $(async fn $method(&self, $($argument: $type),*) -> Result<$answer> {
                self.store.$method($($argument),*).await
            })+
        }
    };
}

#[async_trait]
impl Ledger for BuggyStore {
    async fn known_events(
        &self,
        key: &Key,
        event_ids: &[String],
        contents: &[Content],
        open: Option<Uuid>,
    ) -> Result<KnownEvents> {
        match self.bug {
            Bug::NoDeduplication => Ok(KnownEvents::default()),
            _ => self.store.known_events(key, event_ids, contents, open).await,
        }
    }

    async fn refuse_contents(&self, key: &Key, refused: &[(String, Content)], now: Timestamp) -> Result<()> {
        self.store.refuse_contents(key, refused, now).await
    }

    async fn repetitions(&self, events: &[(Key, String, Content)]) -> Result<Vec<Option<Repetition>>> {
        self.store.repetitions(events).await
    }

    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()> {
        match self.bug {
            Bug::RetractForgotten => Ok(()),
            _ => self.store.put_retracts(key, retracts, now).await,
        }
    }

    async fn reach(&self, retracts: &[(Key, Retract)], now: Timestamp) -> Result<Vec<Reached>> {
        self.store.reach(retracts, now).await
    }

    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64> {
        self.store.stash(window, events, delivering, now).await
    }

    async fn close(&self, closing: Closing<'_>) -> Result<Ending> {
        self.store.close(closing).await
    }

    async fn exclude(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending> {
        self.store.exclude(closing, delivering).await
    }

    async fn returned(&self, key: &Key) -> Result<Option<Returned>> {
        self.store.returned(key).await
    }

    async fn returned_event(&self, key: &Key) -> Result<Option<Event>> {
        self.store.returned_event(key).await
    }

    async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        self.store.digest(digest_id).await
    }

    async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>> {
        self.store.digests(key, limit).await
    }
}

#[async_trait]
impl Attempts for BuggyStore {
    async fn begin_attempt(
        &self,
        message: Uuid,
        relay: &str,
        reply_time: Duration,
        now: Timestamp,
    ) -> Result<AttemptStart> {
        self.store.begin_attempt(message, relay, reply_time, now).await
    }

    async fn facts_for_attempt(&self, key: &Key, message: Uuid) -> Result<(Facts, Option<WaitingMessage>)> {
        self.store.facts_for_attempt(key, message).await
    }

    async fn first_past_the_dot(&self, first: &FirstAttempt, now: Timestamp) -> Result<bool> {
        self.store.first_past_the_dot(first, now).await
    }

    async fn end_first_attempt(&self, first: &FirstAttempt, end: &AttemptEnd, now: Timestamp) -> Result<()> {
        self.store.end_first_attempt(first, end, now).await
    }

    async fn past_the_dot(&self, message: Uuid, number: u32, now: Timestamp) -> Result<bool> {
        self.store.past_the_dot(message, number, now).await
    }

    async fn end_attempt(&self, message: Uuid, number: u32, end: &AttemptEnd, now: Timestamp) -> Result<()> {
        if self.bug == Bug::OutcomeNotRecorded && !self.struck.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.store.end_attempt(message, number, end, now).await
    }

    async fn attempts(&self, message: Uuid) -> Result<Vec<AttemptRecord>> {
        self.store.attempts(message).await
    }
}

#[async_trait]
impl Breakers for BuggyStore {
    async fn breakers(&self) -> Result<BTreeMap<String, VersionedBreaker>> {
        self.store.breakers().await
    }

    async fn put_breaker(
        &self,
        relay: &str,
        breaker: &VersionedBreaker,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<bool> {
        let put = self.store.put_breaker(relay, breaker, entry, now).await;
        if self.bug == Bug::LateAnswers {
            sleep(Duration::from_millis(20)).await;
        }
        put
    }

    async fn refusals(&self, relay: &str, limit: u32) -> Result<Vec<RefusalRecord>> {
        self.store.refusals(relay, limit).await
    }
}

forward! { Directory {
    fn change_recipients(changes: &[RecipientChange], now: Timestamp) -> Vec<PersonId>;
    fn count_recipients(tenant: &str) -> u64;
    fn keep_answer(person: &PersonId, recipient: Option<&Recipient>, now: Timestamp) -> ();
    fn put_preferences(key: &Key, preferences: &Preferences, expected: Option<u64>, entry: &AuditEntry) -> PreferencesPut;
    fn put_wishes(wishes: &[Wish], now: Timestamp, why: &str) -> Option<Vec<Key>>;
    fn put_consent(key: &Key, consent: bool, entry: &AuditEntry) -> ();
    fn facts(key: &Key) -> Facts;
} }

forward! { People {
    fn recipients(filter: &RecipientFilter) -> Listed<ListedRecipient, RecipientPlace>;
    fn strangers(people: &BTreeSet<PersonId>) -> BTreeSet<PersonId>;
    fn directory_rows(page: &Page<RecipientPlace>) -> Listed<Recipient, RecipientPlace>;
    fn chosen_zones(page: &Page<KeyPlace>) -> Listed<(Key, String), KeyPlace>;
    fn count_zones(tenant: Option<&str>) -> Vec<(String, u64)>;
    fn person(person: &PersonId) -> Person;
    fn held(key: &Key, addresses: &BTreeSet<String>, part: Part, page: &Page<RowPlace>) -> Listed<Value, RowPlace>;
} }

forward! { Erasure {
    fn pseudonyms() -> Pseudonyms;
    fn own_addresses(person: &PersonId, addresses: &BTreeSet<String>) -> BTreeSet<String>;
    fn erasable(person: &PersonId, types: &BTreeSet<String>, addresses: &BTreeSet<String>) -> Erased;
    fn erase_addresses(person: &PersonId, addresses: &BTreeSet<String>) -> Erased;
    fn erase_digests(key: &Key, now: Timestamp) -> Erased;
    fn erase_messages(person: &PersonId, addresses: &BTreeSet<String>, page: &Page<RowPlace>, now: Timestamp) -> (Erased, Option<Cursor<RowPlace>>);
    fn erase_choices(person: &PersonId, types: &BTreeSet<String>) -> Erased;
    fn erase_recipient(person: &PersonId) -> Erased;
} }

forward! { Generations {
    fn link_owner(person: &PersonId, generation: u64) -> Option<PersonId>;
    fn raise_generation(person: &PersonId) -> ();
    fn begin_move(from: &PersonId, to: &PersonId, entry: &AuditEntry) -> bool;
    fn held_ids(person: &PersonId) -> Vec<HeldId>;
    fn forget_ids(person: &PersonId) -> ();
    fn was_moved(from: &PersonId, to: &PersonId, since: Timestamp) -> bool;
    fn move_person(from: &PersonId, to: &PersonId, types: &BTreeSet<String>, now: Timestamp) -> MovedRows;
    fn users(tenant: &str, after: &str, limit: u32) -> Vec<String>;
    fn users_of_workflows(tenant: &str) -> BTreeSet<String>;
} }

forward! { Suppressions {
    fn suppress(suppression: &Suppression) -> ();
    fn put_suppressions(suppressions: &[Suppression], entry: &AuditEntry) -> u64;
    fn lift(tenant: &str, address: &str, reason: Option<Reason>, entry: &AuditEntry) -> Vec<Reason>;
    fn suppressions(filter: &SuppressionFilter) -> Listed<Suppression, SuppressionPlace>;
    fn suppressed(tenant: &str, address: &str) -> Vec<Reason>;
} }

forward! { Claims {
    fn facts_for_claim(window: &Window) -> (Facts, bool);
    fn window_events(window: &Window, most: u32) -> Vec<String>;
    fn claim_rendered(claim: RenderedClaim<'_>) -> bool;
    fn claim(window: &Window, events: &[Event], limits: &ClaimLimits<'_>, now: Timestamp) -> Claimed;
    fn capped_from(key: &Key, cap: CapSpan) -> Option<Timestamp>;
    fn preview(window: &Window, events: &[Event], off: &BTreeSet<String>, shown: Shown<'_>) -> Contents;
    fn contents(window: &Window, shown: Shown<'_>) -> Contents;
} }

forward! { Outbox {
    fn put_message(message: &Message, tells_of: Option<u64>) -> bool;
    fn shrink_message(message: &Message, number: u32) -> bool;
    fn withdraw(window: &Window, off: &BTreeSet<String>, seen: &BTreeSet<String>, now: Timestamp) -> Option<Withdrawn>;
    fn take_content(key: &Key, event: &Event, now: Timestamp) -> bool;
    fn remake_message(message: &Message, epoch: u64, why: &str, now: Timestamp) -> Option<u64>;
    fn waiting_message(message: Uuid) -> Option<(Message, u64)>;
    fn note_missing(message: Uuid, since: Option<Timestamp>) -> ();
    fn first_of_thread(thread: Uuid, window: &Window) -> Option<String>;
    fn close_message(key: &MessageKey, closed: &Closed, by: Actor, now: Timestamp) -> Option<Closed>;
    fn message(message: Uuid) -> Option<MessageRecord>;
    fn message_bytes(tenant: &str, message: Uuid) -> Option<Vec<u8>>;
    fn messages(filter: &MessageFilter) -> Listed<MessageRecord, MessagePlace>;
} }

forward! { Reports {
    fn put_delivery_event(event: &Reported, soft_bounces: u32, now: Timestamp) -> Option<Recorded>;
    fn put_webhook_request(request: &WebhookRequest, soft_bounces: u32, now: Timestamp) -> RequestRecorded;
    fn emit_webhook_letter(id: &WebhookLetterId, events: &[Reported], soft_bounces: u32, entry: &AuditEntry) -> LetterEmitted;
    fn forget_reading(tenant: &str, message: Uuid) -> ();
    fn count_unsubscribed(message: Uuid) -> ();
    fn delivery_events(message: Uuid) -> Vec<ReportRecord>;
} }

forward! { Retries {
    fn reopen(input: &ReopenInput, now: Timestamp) -> Resumed;
    fn retry_message(input: &RetryInput, now: Timestamp) -> Retried;
} }

forward! { AuditTrail {
    fn audit(input: &AuditInput) -> ();
    fn put_dead_letters(input: &DeadLettersInput, now: Timestamp) -> ();
    fn mark_emitted(id: &DeadLetterId, keys: &BTreeSet<Key>, entry: &AuditEntry) -> Option<Emitted>;
} }

forward! { Pauses {
    fn pause(scope: &Scope, messages: bool, paused: &Paused) -> Pause;
    fn resume(scope: &Scope, entry: &AuditEntry) -> Option<Pause>;
    fn pauses(all: bool, now: Timestamp) -> Vec<Pause>;
    fn pause_of_messages(tenant: &str) -> Option<Paused>;
} }

forward! { Listings {
    fn list_digests(filter: &DigestFilter) -> Listed<DigestRecord, DigestPlace>;
    fn digest_of(tenant: Option<&str>, digest_id: Uuid) -> Option<DigestRecord>;
    fn digest_events(digest: &DigestRecord, page: &Page<EventPlace>) -> Listed<DigestEvent, EventPlace>;
    fn audit_of_digest(digest: &DigestRecord) -> Vec<AuditRecord>;
    fn audit_entries(filter: &AuditFilter) -> Listed<AuditRecord, AuditPlace>;
    fn dead_letters(filter: &DeadLetterFilter) -> Listed<DeadLetterRecord, DeadLetterPlace>;
    fn dead_letter(tenant: Option<&str>, id: &DeadLetterId) -> Option<KeptLetter>;
    fn webhook_letters(filter: &WebhookLetterFilter) -> Listed<WebhookLetterRecord, WebhookLetterPlace>;
    fn webhook_letter(id: &WebhookLetterId) -> Option<KeptWebhookLetter>;
} }

forward! { Statistics {
    fn statistics(scope: &statistics::Scope) -> LedgerStatistics;
    fn undelivered(most: u32, now: Timestamp) -> Vec<Undelivered>;
    fn refused_contents(since: Timestamp) -> u64;
    fn reported(after: Timestamp, until: Timestamp) -> Vec<ReportedByKind>;
    fn report(question: &Question) -> Vec<(String, Counts)>;
    fn suppressed_addresses(most: u32) -> Vec<Suppressed>;
} }

forward! { Tokens {
    fn put_token(token: &StoredToken, entry: &AuditEntry) -> ();
    fn token(id: &str) -> Option<StoredToken>;
    fn tokens(tenant: Option<&str>) -> Vec<TokenRecord>;
    fn revoke_token(id: &str, entry: &AuditEntry) -> Option<TokenRecord>;
    fn token_used(id: &str, now: Timestamp) -> ();
} }

forward! { Inbox {
    fn receive(items: Arc<[Item]>, now: Timestamp) -> ();
    fn waiting_keys(after: &str, limit: u32) -> Vec<Found>;
    fn lease(holder: Uuid, keys: &[Key], now: Timestamp) -> Vec<(Key, Lease)>;
    fn waiting(key: &Key, limit: u32) -> Vec<Waiting>;
    fn forwarded(holder: Uuid, key: &Key, items: &[i64], lease: Lease, now: Timestamp) -> ();
    fn depth() -> Depth;
    fn replay(tenant: Option<&str>, since: Timestamp, now: Timestamp) -> u64;
    fn forget_leases(now: Timestamp) -> ();
} }

forward! { Notices {
    fn subscribe(subscriptions: &[Subscription], forgets: bool) -> ();
    fn retire_notices(now: Timestamp) -> Vec<RetiredNotices>;
    fn newest_notices() -> Vec<(String, i64)>;
    fn ready_notices(subscription: &str, limit: u32, now: Timestamp) -> Vec<Notice>;
    fn next_notice(subscription: &str, now: Timestamp) -> Option<Timestamp>;
    fn settle_notices(subscription: &str, settled: &Settled, now: Timestamp) -> u64;
    fn replay_notices(subscription: &str, since: Timestamp, which: Replayed, entry: &AuditEntry) -> Option<u64>;
    fn dead_notices(subscription: &str, limit: u32) -> Vec<DeadNotice>;
    fn subscriptions(most: u32) -> Vec<SubscriptionState>;
} }

forward! { TroubledRuns {
    fn lease_sweep(holder: Uuid, now: Timestamp) -> Option<Swept>;
    fn end_sweep(holder: Uuid, swept: Swept, now: Timestamp) -> ();
    fn put_ended_runs(runs: &[FoundRun], task_queue: &str, now: Timestamp) -> ();
    fn put_open_runs(runs: &[FoundRun], are_all: bool, task_queue: &str, now: Timestamp) -> ();
    fn due_runs(limit: u32, now: Timestamp) -> Vec<DueRun>;
    fn recoveries(workflow_id: &str, since: Timestamp) -> u64;
    fn list_run(id: &RunId, by: Option<&str>, why: &str, again_at: Option<Timestamp>) -> ();
    fn resolve_run(run: &FoundRun, task_queue: &str, resolution: Resolution, entry: Option<&AuditEntry>, now: Timestamp) -> ();
    fn resolved_runs(workflow_id: &str) -> BTreeSet<String>;
    fn troubled_runs(tenant: Option<&str>, limit: u32) -> Vec<ListedRun>;
    fn count_troubled_runs(tenant: Option<&str>) -> Vec<(Trouble, u64, Timestamp)>;
    fn forget_runs(before: Timestamp, limit: u32) -> ();
} }

forward! { Installations {
    fn installation() -> Option<Installation>;
    fn put_installation(identity: Uuid, replace: bool) -> Installation;
    fn beat(from: Uuid, to: Uuid, now: Timestamp) -> bool;
    fn keep_zone_release(release: &str) -> ();
    fn zone_release() -> String;
    fn clock() -> Timestamp;
    fn file() -> Option<FileId>;
    fn put_process(process: &Process) -> ();
    fn remove_process(id: Uuid) -> ();
    fn forget_processes(before: Timestamp) -> ();
    fn processes() -> Vec<Process>;
    fn keep_upkeep(at: Timestamp) -> ();
    fn upkeep_at() -> Option<Timestamp>;
} }

forward! { Names {
    fn put_names(names: &FormerNames, tables: &BTreeMap<NameKind, BTreeSet<String>>) -> ();
    fn same_person(person: &PersonId) -> Vec<PersonId>;
    fn stored_names() -> Vec<StoredName>;
    fn names_in_use() -> Vec<(NameKind, String)>;
} }

forward! { Jobs {
    fn use_idempotency_key(id: Uuid, content_sha256: &str, now: Timestamp) -> bool;
    fn post_job(job: &Job) -> Option<Job>;
    fn job(tenant: Option<&str>, id: Uuid) -> Option<Job>;
    fn jobs(filter: &JobFilter) -> Listed<Job, JobPlace>;
    fn job_results(id: Uuid, page: &Page<String>) -> Listed<KeyResult, String>;
    fn cancel_job(id: Uuid, entry: &AuditEntry) -> Option<Job>;
    fn lease_job(holder: Uuid, now: Timestamp) -> Option<Job>;
    fn add_job_keys(id: Uuid, holder: Uuid, keys: &[Key], is_last: bool, now: Timestamp) -> bool;
    fn send_job_keys(id: Uuid, holder: Uuid, limit: u32, now: Timestamp) -> Option<Vec<Key>>;
    fn end_job_keys(id: Uuid, results: &[KeyResult], now: Timestamp) -> ();
    fn end_job(id: Uuid, holder: Uuid, state: JobState, problem: &str, now: Timestamp) -> ();
    fn give_job_back(id: Uuid, holder: Uuid) -> ();
    fn forget_job(before: Timestamp) -> bool;
} }

forward! { Health {
    fn ping() -> ();
    fn ping_writing() -> ();
} }

forward! { Retention {
    fn purge(cutoff: Cutoff, limit: u32, archive: Option<&Archive>, expiries: &[RetractExpiry], now: Timestamp) -> Purged;
    fn keys_of_old_retracts(before: Timestamp, limit: u32, now: Timestamp) -> Vec<Key>;
    fn expired(cutoff: Cutoff) -> u64;
    fn archives() -> Vec<ArchiveRecord>;
    fn remember_archive(archive: &Archive, now: Timestamp) -> ();
    fn archive_failed(archive: &Archive, why: &str, now: Timestamp) -> ();
    fn forget_archive(folder: &str, entry: &AuditEntry) -> bool;
} }

/// Continues as new without handing anything over.
pub struct Forgetful;

impl WorkflowInterceptor for Forgetful {
    fn continue_as_new(
        &self,
        _: SyncWorkflowInterceptorContext,
        mut input: ContinueAsNewInput,
        next: WorkflowNext<'static, ContinueAsNewInput, ContinueAsNewResult>,
    ) -> ContinueAsNewResult {
        if let Some(carried) = input.input_mut::<CarriedState>() {
            *carried = CarriedState::default();
        }
        next.run(input)
    }
}
