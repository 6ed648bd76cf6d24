//! Pages of what the ledger holds.

use async_trait::async_trait;
use tidings_model::records::{
    AuditRecord, DigestEvent, DigestFilter, DigestPlace, DigestRecord, EventPlace, Listed, Page,
};
use tracing::instrument;

use super::dialect::Dialect;
use super::{Sql, within_timeout};
use crate::{Listings, Result};

pub mod audit;
pub mod digests;
pub mod events;

#[async_trait]
impl<D: Dialect> Listings for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(tenant = filter.tenant), err(level = "debug"))]
    async fn list_digests(&self, filter: &DigestFilter) -> Result<Listed<DigestRecord, DigestPlace>> {
        within_timeout(async { Self::digests_page(&mut *self.reader.acquire().await?, filter).await }).await
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
}
