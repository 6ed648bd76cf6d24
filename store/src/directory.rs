use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key,
    records::{AuditEntry, Facts, Preferences, Recipient},
};

use crate::Result;

/// Recipients, their preferences and their consent.
#[async_trait]
pub trait Directory: Send + Sync + 'static {
    /// Adds or replaces recipients. The last entry of a recipient counts. A change of the zone raises [`Facts::revision`].
    async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<()>;

    /// Replaces a key's preferences and returns their revision. Equal preferences change nothing. A change raises the revision by
    /// one and is audited.
    async fn put_preferences(&self, key: &Key, preferences: &Preferences, entry: &AuditEntry) -> Result<u64>;

    /// Records the recipient's consent to a digest type. A change is audited.
    async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()>;

    /// All facts about a key that plan and admission need, in one round trip.
    async fn facts(&self, key: &Key) -> Result<Facts>;
}
