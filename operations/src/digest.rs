//! Operations on one digest: its story (rule 36), its preview (rule 32), what a reopen means, and events that are taken back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use tidings_client::{CommandError, Commands};
use tidings_model::{
    Key, Retract,
    command::Due,
    delivery_events::ReportRecord,
    records::{
        AttemptRecord, AuditRecord, DigestEvent, DigestRecord, EventPlace, Listed, MessageRecord, Page, Reach, Reached,
    },
    settings::FormerNames,
    step::ClaimInput,
    window::Outcome,
};
use tidings_services::{Deps, Error};
use tidings_store::Store;
use uuid::Uuid;

use crate::preview::{self, Instead, Preview};

/// A digest and its story.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DigestStory))]
pub struct Story {
    pub digest: DigestRecord,
    /// The steps that led to the time, in words. Empty while the window is open.
    pub plan: Vec<String>,
    /// A page of the events.
    #[cfg_attr(feature = "openapi", schema(value_type = DigestEvents))]
    pub events: Listed<DigestEvent, EventPlace>,
    /// The commands and pauses that reached the digest.
    pub audit: Vec<AuditRecord>,
    /// `None`: the digest has no message, or retention has deleted the message.
    pub message: Option<MessageRecord>,
    pub attempts: Vec<AttemptRecord>,
    pub delivery_events: Vec<ReportRecord>,
}

/// A page of a digest's events.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the schema of a page, whose cursor is a text")]
struct DigestEvents {
    rows: Vec<DigestEvent>,
    /// The cursor of the next page, if more rows follow.
    next: Option<String>,
}

/// Reads a digest's story; `None` if the ledger does not know the digest, or not as one of this tenant. Only with `addresses` the story has the address and the
/// texts of providers and operators, which may quote the address.
///
/// # Errors
/// The store cannot answer.
pub async fn story(
    store: &dyn Store,
    tenant: Option<&str>,
    digest_id: Uuid,
    events: &Page<EventPlace>,
    addresses: bool,
) -> tidings_store::Result<Option<Story>> {
    let Some(digest) = store.digest_of(tenant, digest_id).await? else { return Ok(None) };
    let mut story = Story {
        plan: digest.plan_steps().map(str::to_owned).collect(),
        events: store.digest_events(&digest, events).await?,
        audit: store.audit_of_digest(&digest).await?,
        message: store.message(digest_id).await?,
        attempts: store.attempts(digest_id).await?,
        delivery_events: store.delivery_events(digest_id).await?,
        digest,
    };
    if !addresses {
        story.forget_addresses();
    }
    Ok(Some(story))
}

impl Story {
    fn forget_addresses(&mut self) {
        if let Some(message) = &mut self.message {
            message.envelope_to.clear();
        }
        for told in &mut self.delivery_events {
            told.report.diagnostic.clear();
        }
        for entry in &mut self.audit {
            entry.forget_addresses();
        }
    }
}

/// A preview that failed.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The workflow did not answer.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The message cannot be made.
    #[error(transparent)]
    Render(#[from] Error),
}

/// Asks the key's workflow for its open window, and renders the window with these looks; `None` if no window is open.
///
/// # Errors
/// See [`PreviewError`].
pub async fn preview(
    commands: &Commands,
    deps: &Deps,
    key: &Key,
    instead: &Instead<'_>,
) -> Result<Option<(Due, Preview)>, PreviewError> {
    let Some(due) = commands.digest(key).due().await? else { return Ok(None) };
    let Due { window, events, limits, .. } = due.clone();
    let input = ClaimInput {
        asked_at: Timestamp::now(),
        window,
        events,
        flushed: true,
        urgent: false,
        revision: 0,
        planned: None,
        due_at: None,
        limits,
        undo: None,
        released: false,
        limit_ended_at: None,
        unknown_since: None,
    };
    let preview = preview::preview(deps, &input, instead).await?;
    Ok(Some((due, preview)))
}

/// A message as it would go out now, with its window.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewView {
    pub digest_id: Uuid,
    pub due_at: Timestamp,
    /// Events that the message counts.
    pub events: u64,
    /// Events beyond a page, which are not in the message yet.
    pub more: u64,
    /// The reason why no message would be sent.
    pub but: Option<String>,
    /// Without a subject, a text and HTML no event would be left to send.
    pub subject: Option<String>,
    pub text: Option<String>,
    pub html: Option<String>,
}

impl PreviewView {
    /// Makes the view of a window and its message.
    #[must_use]
    pub fn new(due: &Due, preview: Preview) -> Self {
        let Preview { mail, events, but } = preview;
        let Due { window, more, .. } = due;
        let (subject, parts) = mail.map(|mail| (mail.subject, (mail.text, mail.html))).unzip();
        let (text, html) = parts.unzip();
        Self { digest_id: window.digest_id, due_at: window.due_at, events, more: *more, but, subject, text, html }
    }
}

/// Ended digests of a key among which the latest is searched.
const DIGESTS: u32 = 10;

/// The outcomes of digests that can be reopened.
pub const OUTCOMES: [Outcome; 4] = [Outcome::Dropped, Outcome::Failed, Outcome::Ambiguous, Outcome::Unknown];

/// Returns the latest digest of the key that has an end.
///
/// # Errors
/// The store cannot answer.
pub async fn latest(store: &dyn Store, key: &Key) -> tidings_store::Result<Option<DigestRecord>> {
    let digests = store.digests(key, DIGESTS).await?;
    Ok(digests.into_iter().find(|digest| digest.closed.is_some()))
}

/// Returns the latest digest with an end under any name of the key.
///
/// # Errors
/// The store cannot answer.
pub async fn latest_under_each_name(
    store: &dyn Store,
    names: &FormerNames,
    key: &Key,
) -> tidings_store::Result<Option<DigestRecord>> {
    let mut found: Option<DigestRecord> = None;
    for name in names.keys(key) {
        found = found.into_iter().chain(latest(store, &name).await?).max_by_key(|digest| digest.opened_at);
    }
    Ok(found)
}

/// Returns the name of the key that has the digest: only its workflow reopens it. A digest that the store does not know is of today's.
///
/// # Errors
/// The store cannot answer.
pub async fn name_of(store: &dyn Store, names: &FormerNames, key: &Key, digest_id: Uuid) -> tidings_store::Result<Key> {
    let found = store.digest(digest_id).await?.map(|digest| digest.key);
    let today = names.today(key);
    Ok(found.filter(|found| names.today(found) == today).unwrap_or(today))
}

/// Reports that a digest ended in a way that a reopen may undo.
#[must_use]
pub fn can_be_reopened(digest: &DigestRecord) -> bool {
    digest.closed.as_ref().is_some_and(|closed| OUTCOMES.contains(&closed.outcome))
}

/// Reads what the retracts reach, and keeps messages that wait from going out with a retracted event. The workflows of the keys need the
/// retracts as well, for events that the ledger does not have. `now` is a time before they got them: what an alert's next firing brought
/// to the ledger meanwhile stays.
///
/// # Errors
/// The store cannot answer.
pub async fn take_back(
    store: &dyn Store,
    retracts: &[(Key, Retract)],
    now: Timestamp,
) -> tidings_store::Result<Vec<Reached>> {
    let reached = store.reach(retracts, now).await?;
    let mut waiting: BTreeMap<&Key, Vec<Retract>> = BTreeMap::new();
    for ((key, retract), _) in retracts.iter().zip(&reached).filter(|(_, reached)| reached.reach == Reach::Waiting) {
        waiting.entry(key).or_default().push(retract.clone().until(now));
    }
    if waiting.is_empty() {
        return Ok(reached);
    }
    for (key, retracts) in waiting {
        store.put_retracts(key, &retracts, now).await?;
    }
    // An attempt may have passed the dot before.
    store.reach(retracts, now).await
}
