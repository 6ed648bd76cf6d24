use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key,
    records::{AuditEntry, Facts, PersonId, Preferences, PreferencesPut, Recipient, RecipientChange, Wish},
};

use crate::Result;

/// Recipients, their preferences and their consent.
#[async_trait]
pub trait Directory: Send + Sync + 'static {
    /// Adds or replaces recipients, as [`change_recipients`](Self::change_recipients) does.
    async fn put_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<Vec<PersonId>> {
        let changes: Vec<_> = recipients.iter().cloned().map(RecipientChange::from).collect();
        self.change_recipients(&changes, now).await
    }

    /// Adds or changes recipients. What a change does not say stays. The last entry of a recipient counts. A change of the zone raises
    /// [`Facts::revision`]. Returns the people whose zone changed, except for new ones.
    async fn change_recipients(&self, changes: &[RecipientChange], now: Timestamp) -> Result<Vec<PersonId>>;

    /// The number of people whom the directory has of a tenant.
    async fn count_recipients(&self, tenant: &str) -> Result<u64>;

    /// Keeps what a team's own directory answered about a person: the recipient, or `None` for a person whom it does not have. A
    /// row that an import put stays then. A repeated call changes nothing but [`Facts::answered_at`].
    async fn keep_answer(&self, person: &PersonId, recipient: Option<&Recipient>, now: Timestamp) -> Result<()>;

    /// Replaces a key's preferences if [`Facts::revision`] is `expected`; `None` replaces them whatever it is. A change raises the
    /// revision by one and is audited. Preferences that are stored already change nothing and never conflict, so that a repeated
    /// call answers like the first.
    async fn put_preferences(
        &self,
        key: &Key,
        preferences: &Preferences,
        expected: Option<u64>,
        entry: &AuditEntry,
    ) -> Result<PreferencesPut>;

    /// Carries out all wishes of a recipient in one transaction, and audits each change. Returns the
    /// keys whose preferences or consent changed, or `None` and writes nothing if one of them is no longer as the recipient saw it. A
    /// wish that is true already changes nothing and never conflicts, so that a repeated call answers like the first.
    async fn put_wishes(&self, wishes: &[Wish], now: Timestamp, why: &str) -> Result<Option<Vec<Key>>>;

    /// Records the recipient's consent to a digest type. A change is audited.
    async fn put_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()>;

    /// All facts about a key that plan and admission need, in one round trip.
    async fn facts(&self, key: &Key) -> Result<Facts>;
}
