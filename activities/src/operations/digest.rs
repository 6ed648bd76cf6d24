//! A digest with everything that the ledger and the outbox hold about it (rule 36).

use serde::Serialize;
use tidings_model::{
    delivery_events::ReportRecord,
    records::{AttemptRecord, AuditRecord, DigestEvent, DigestRecord, EventPlace, Listed, MessageRecord, Page},
};
use tidings_store::{Result, Store};
use uuid::Uuid;

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
) -> Result<Option<Story>> {
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
