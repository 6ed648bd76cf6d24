//! Pages of what the ledger holds.

use tidings_model::records::{
    AuditFilter, AuditPlace, AuditRecord, DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord,
    DigestEvent, DigestFilter, DigestPlace, DigestRecord, EventPlace, KeptLetter, KeptWebhookLetter, Listed, Page,
    WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace, WebhookLetterRecord,
};
use uuid::Uuid;

use crate::{Result, sql::calls};

pub mod audit;
pub mod dead_letters;
pub mod digests;
pub mod events;
pub mod webhook_letters;

calls! {
    /// Pages of what the ledger holds, for operators (rule 36). No row has an address.
    pub trait Listings {
        /// Lists digests, the latest window first. Each filter reads an index.
        #[span(tenant = filter.tenant)]
        async fn list_digests(&self, filter: &DigestFilter) -> Result<Listed<DigestRecord, DigestPlace>>;

        /// Reads a digest of a tenant, or of any.
        #[span(tenant, digest = %digest_id)]
        async fn digest_of(&self, tenant: Option<&str>, digest_id: Uuid) -> Result<Option<DigestRecord>>;

        /// Lists the events of a digest by the time at which they occurred, and those that its claim excluded.
        #[span(digest = %digest.digest_id)]
        async fn digest_events(
            &self,
            digest: &DigestRecord,
            page: &Page<EventPlace>,
        ) -> Result<Listed<DigestEvent, EventPlace>>;

        /// Lists the audit entries about a digest, the earliest first: those with its id, and commands to its key and pauses over the
        /// key while the digest had no end. At most 500.
        #[span(digest = %digest.digest_id)]
        async fn audit_of_digest(&self, digest: &DigestRecord) -> Result<Vec<AuditRecord>>;

        /// Lists audit entries, the latest first.
        #[span(tenant = filter.tenant)]
        async fn audit_entries(&self, filter: &AuditFilter) -> Result<Listed<AuditRecord, AuditPlace>>;

        /// Lists dead letters, the latest first.
        #[span(tenant = filter.tenant)]
        async fn dead_letters(&self, filter: &DeadLetterFilter) -> Result<Listed<DeadLetterRecord, DeadLetterPlace>>;

        /// Reads a dead letter of a tenant, or of any, with what is kept of its payload. The payload may contain addresses.
        #[span(tenant, letter = %id)]
        async fn dead_letter(&self, tenant: Option<&str>, id: &DeadLetterId) -> Result<Option<KeptLetter>>;

        /// Lists dead letters of webhooks, the latest first.
        async fn webhook_letters(
            &self,
            filter: &WebhookLetterFilter,
        ) -> Result<Listed<WebhookLetterRecord, WebhookLetterPlace>>;

        /// Reads a webhook's dead letter with what is kept of it.
        #[span(letter = %id)]
        async fn webhook_letter(&self, id: &WebhookLetterId) -> Result<Option<KeptWebhookLetter>>;
    }
}
