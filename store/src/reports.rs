use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    delivery_events::{LetterEmitted, Recorded, ReportRecord, Reported, RequestRecorded, WebhookRequest},
    records::{AuditEntry, WebhookLetterId},
};
use uuid::Uuid;

use crate::Result;

/// Delivery events that providers report.
#[async_trait]
pub trait Reports: Send + Sync + 'static {
    /// Records a delivery event once, and applies its [effects](tidings_model::delivery_events::effects) in the same transaction.
    /// `soft_bounces` consecutive soft bounces suppress an address. Returns `None` if no relay, or not the one that reports, was given
    /// such a message of the tenant.
    async fn put_delivery_event(&self, event: &Reported, soft_bounces: u32, now: Timestamp)
    -> Result<Option<Recorded>>;

    /// Records everything that a request of a webhook has, in one transaction: its token, its events with their effects, and
    /// what cannot be used. A request that comes again changes nothing. A token that came with another body before refuses the
    /// whole request.
    async fn put_webhook_request(
        &self,
        request: &WebhookRequest,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<RequestRecorded>;

    /// Records the events of a webhook's dead letter with their effects, marks the letter as emitted, and audits that for each of the
    /// events' messages, in one transaction. The first call counts.
    async fn emit_webhook_letter(
        &self,
        id: &WebhookLetterId,
        events: &[Reported],
        soft_bounces: u32,
        entry: &AuditEntry,
    ) -> Result<LetterEmitted>;

    /// Forgets when the recipient of a digest last opened or clicked one of its key, because the reader objects to being counted.
    async fn forget_reading(&self, tenant: &str, message: Uuid) -> Result<()>;

    /// Counts a message as unsubscribed in the report: its recipient used its link. A repeated call changes nothing, and a deleted
    /// message is not counted.
    async fn count_unsubscribed(&self, message: Uuid) -> Result<()>;

    /// Lists the delivery events of a message by the time at which they happened.
    async fn delivery_events(&self, message: Uuid) -> Result<Vec<ReportRecord>>;
}
