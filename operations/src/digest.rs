//! Operations on one digest: history (rule 36), preview (rule 32), reopening and retracts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use tidings_client::{CommandError, WorkflowCommands};
use tidings_model::{
    Key, Retract,
    command::DuePreview,
    delivery_events::ReportRecord,
    records::{
        AttemptRecord, AuditRecord, DigestEvent, DigestRecord, EventPlace, ListPage, MessageRecord, PageRequest,
        RetractEffect, RetractReach,
    },
    settings::FormerNames,
    step::ClaimInput,
    window::DigestOutcome,
};
use tidings_services::{StepError, StepServices};
use tidings_store::Store;
use uuid::Uuid;

use crate::preview::{self, EmailPreview, PreviewOverrides};

/// A digest and its history.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DigestStory))]
pub struct DigestStory {
    pub digest: DigestRecord,
    /// How the deadline was planned, step by step. Empty while the window is open.
    pub plan: Vec<String>,
    /// A page of the events.
    #[cfg_attr(feature = "openapi", schema(value_type = DigestEvents))]
    pub events: ListPage<DigestEvent, EventPlace>,
    /// Commands and pauses which affected this digest.
    pub audit: Vec<AuditRecord>,
    /// `None` if the digest has no message, or retention has deleted it.
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
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// Returns `None` if this tenant has no such digest. Without `addresses`, omits the address and any text which
/// may quote it.
///
/// # Errors
/// If the store fails.
pub async fn digest_story(
    store: &dyn Store,
    tenant: Option<&str>,
    digest_id: Uuid,
    events: &PageRequest<EventPlace>,
    addresses: bool,
) -> tidings_store::Result<Option<DigestStory>> {
    let Some(digest) = store.digest_of(tenant, digest_id).await? else { return Ok(None) };
    let mut story = DigestStory {
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

impl DigestStory {
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

#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Render(#[from] StepError),
}

/// Renders the key's open window with these overrides. `None` if none is open.
///
/// # Errors
/// See [`PreviewError`].
pub async fn preview_window(
    commands: &WorkflowCommands,
    deps: &StepServices,
    key: &Key,
    instead: &PreviewOverrides<'_>,
) -> Result<Option<(DuePreview, EmailPreview)>, PreviewError> {
    let Some(due) = commands.digest(key).due_window().await? else { return Ok(None) };
    let DuePreview { window, events, limits, .. } = due.clone();
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
    let preview = preview::render_preview(deps, &input, instead).await?;
    Ok(Some((due, preview)))
}

/// The message as we would send it now, with its window.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewView {
    pub digest_id: Uuid,
    pub due_at: Timestamp,
    /// Events counted in the message.
    pub events: u64,
    /// Events beyond the first page, not yet in the message.
    pub more: u64,
    /// Why no message would be sent.
    pub not_sent_because: Option<String>,
    /// Without a subject, text and HTML, no event would be left to send.
    pub subject: Option<String>,
    pub text: Option<String>,
    pub html: Option<String>,
}

impl PreviewView {
    #[must_use]
    pub fn new(due: &DuePreview, preview: EmailPreview) -> Self {
        let EmailPreview { mail, events, not_sent_because } = preview;
        let DuePreview { window, more, .. } = due;
        let (subject, parts) = mail.map(|mail| (mail.subject, (mail.text, mail.html))).unzip();
        let (text, html) = parts.unzip();
        Self {
            digest_id: window.digest_id,
            due_at: window.due_at,
            events,
            more: *more,
            not_sent_because,
            subject,
            text,
            html,
        }
    }
}

const DIGESTS: u32 = 10;

pub const OUTCOMES: [DigestOutcome; 4] =
    [DigestOutcome::Dropped, DigestOutcome::Failed, DigestOutcome::Ambiguous, DigestOutcome::Unknown];

/// Returns the key's latest digest with an outcome.
///
/// # Errors
/// If the store fails.
pub async fn latest_ended(store: &dyn Store, key: &Key) -> tidings_store::Result<Option<DigestRecord>> {
    let digests = store.digests(key, DIGESTS).await?;
    Ok(digests.into_iter().find(|digest| digest.closed.is_some()))
}

/// Like [`latest_ended`], but looks under each name of the key.
///
/// # Errors
/// If the store fails.
pub async fn latest_under_each_name(
    store: &dyn Store,
    names: &FormerNames,
    key: &Key,
) -> tidings_store::Result<Option<DigestRecord>> {
    let mut found: Option<DigestRecord> = None;
    for name in names.all_keys(key) {
        found = found.into_iter().chain(latest_ended(store, &name).await?).max_by_key(|digest| digest.opened_at);
    }
    Ok(found)
}

/// Only the workflow with the key's name at the time of the digest can reopen it. Falls back to the current
/// name.
///
/// # Errors
/// If the store fails.
pub async fn name_of(store: &dyn Store, names: &FormerNames, key: &Key, digest_id: Uuid) -> tidings_store::Result<Key> {
    let found = store.digest(digest_id).await?.map(|digest| digest.key);
    let today = names.key_today(key);
    Ok(found.filter(|found| names.key_today(found) == today).unwrap_or(today))
}

#[must_use]
pub fn can_be_reopened(digest: &DigestRecord) -> bool {
    digest.closed.as_ref().is_some_and(|closed| OUTCOMES.contains(&closed.outcome))
}

/// Finds the retracted events and keeps them out of pending messages. The keys' workflows also need the
/// retracts, for events not in the ledger yet. `now` should be before they received these, so events of an
/// alert's next firing stay.
///
/// # Errors
/// If the store fails.
pub async fn take_back(
    store: &dyn Store,
    retracts: &[(Key, Retract)],
    now: Timestamp,
) -> tidings_store::Result<Vec<RetractEffect>> {
    let reached = store.retract_reach(retracts, now).await?;
    let mut waiting: BTreeMap<&Key, Vec<Retract>> = BTreeMap::new();
    for ((key, retract), _) in
        retracts.iter().zip(&reached).filter(|(_, reached)| reached.reach == RetractReach::Waiting)
    {
        waiting.entry(key).or_default().push(retract.clone().with_until(now));
    }
    if waiting.is_empty() {
        return Ok(reached);
    }
    for (key, retracts) in waiting {
        store.put_retracts(key, &retracts, now).await?;
    }
    // An attempt may have been committed in the meantime.
    store.retract_reach(retracts, now).await
}
