//! Pages of what the ledger holds.

use async_trait::async_trait;
use tidings_model::records::{
    AuditFilter, AuditPlace, AuditRecord, DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord,
    DigestEvent, DigestFilter, DigestPlace, DigestRecord, EventPlace, KeptLetter, KeptWebhookLetter, Listed, Page,
    WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace, WebhookLetterRecord,
};
use tracing::instrument;
use uuid::Uuid;

use super::dialect::Dialect;
use super::{Sql, within_timeout};
use crate::{Listings, Result};

pub mod audit;
pub mod dead_letters;
pub mod digests;
pub mod events;
pub mod webhook_letters;

#[async_trait]
impl<D: Dialect> Listings for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(tenant = filter.tenant), err(level = "debug"))]
    async fn list_digests(&self, filter: &DigestFilter) -> Result<Listed<DigestRecord, DigestPlace>> {
        within_timeout(async { Self::digests_page(&mut *self.reader.acquire().await?, filter).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(tenant, digest = %digest_id), err(level = "debug"))]
    async fn digest_of(&self, tenant: Option<&str>, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        within_timeout(async { Self::one_digest(&mut *self.reader.acquire().await?, tenant, digest_id).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(digest = %digest.digest_id), err(level = "debug"))]
    async fn digest_events(
        &self,
        digest: &DigestRecord,
        page: &Page<EventPlace>,
    ) -> Result<Listed<DigestEvent, EventPlace>> {
        within_timeout(async { Self::events_page(&mut *self.reader.acquire().await?, digest, page).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(digest = %digest.digest_id), err(level = "debug"))]
    async fn audit_of_digest(&self, digest: &DigestRecord) -> Result<Vec<AuditRecord>> {
        within_timeout(async { Self::entries_of_digest(&mut *self.reader.acquire().await?, digest).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(tenant = filter.tenant), err(level = "debug"))]
    async fn audit_entries(&self, filter: &AuditFilter) -> Result<Listed<AuditRecord, AuditPlace>> {
        within_timeout(async { Self::entries_page(&mut *self.reader.acquire().await?, filter).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(tenant = filter.tenant), err(level = "debug"))]
    async fn dead_letters(&self, filter: &DeadLetterFilter) -> Result<Listed<DeadLetterRecord, DeadLetterPlace>> {
        within_timeout(async { Self::letters_page(&mut *self.reader.acquire().await?, filter).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(tenant, letter = %id), err(level = "debug"))]
    async fn dead_letter(&self, tenant: Option<&str>, id: &DeadLetterId) -> Result<Option<KeptLetter>> {
        within_timeout(async { Self::kept_letter(&mut *self.reader.acquire().await?, tenant, id).await }).await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn webhook_letters(
        &self,
        filter: &WebhookLetterFilter,
    ) -> Result<Listed<WebhookLetterRecord, WebhookLetterPlace>> {
        within_timeout(async { Self::webhook_letters_page(&mut *self.reader.acquire().await?, filter).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(letter = %id), err(level = "debug"))]
    async fn webhook_letter(&self, id: &WebhookLetterId) -> Result<Option<KeptWebhookLetter>> {
        within_timeout(async { Self::kept_webhook_letter(&mut *self.reader.acquire().await?, id).await }).await
    }
}
