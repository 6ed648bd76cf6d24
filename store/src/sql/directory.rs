//! People, what they chose, and whom not to mail.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Key, Retract,
    contract::{AuditInput, Note},
    limits::BATCH_EVENTS,
    records::{AuditEntry, Facts, Preferences, Recipient},
};
use uuid::Uuid;

use super::{
    Dialect, Sql, json, no_nul, number,
    rows::{FactsRow, RecipientRow, RetractIdentity, RetractRow},
    statements,
    suppressions::folded,
};
use crate::Result;

impl<D: Dialect> Sql<D> {
    pub(super) async fn write_recipients(&self, recipients: &[Recipient], now: Timestamp) -> Result<()> {
        // One statement cannot replace a row twice: of one person's entries the last counts.
        let last: BTreeMap<_, _> = recipients.iter().map(|r| ((&r.tenant, &r.user), r)).collect();
        let rows: Vec<_> = last.into_values().map(row).collect();
        let mut tx = self.write().await?;
        for page in rows.chunks(BATCH_EVENTS) {
            query(D::PUT_RECIPIENTS).bind(json(&page)?).bind(now.as_millisecond()).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn write_preferences(
        &self,
        key: &Key,
        preferences: &Preferences,
        entry: &AuditEntry,
    ) -> Result<u64> {
        let Key { tenant, digest_type, user } = key;
        let mut tx = self.write().await?;
        let statement = query(D::PUT_PREFERENCES).bind(tenant).bind(digest_type).bind(user).bind(json(preferences)?);
        let done = statement.bind(entry.at.as_millisecond()).execute(&mut *tx).await?;
        if D::rows(&done) > 0 {
            Self::audit(&mut tx, key, None, entry).await?;
        }
        let statement = query_as(statements::REVISION).bind(tenant).bind(digest_type).bind(user);
        let (revision,): (i64,) = statement.fetch_one(&mut *tx).await?;
        tx.commit().await?;
        number(revision)
    }

    pub(super) async fn write_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()> {
        // One statement cannot change a row twice.
        let mut last = BTreeMap::new();
        for (identity, until_at) in retracts.iter().map(identity) {
            let until = last.entry(identity).or_insert(until_at);
            *until = (*until).max(until_at);
        }
        let rows: Vec<_> = last.into_iter().map(|(identity, until_at)| RetractRow { identity, until_at }).collect();
        let mut tx = self.write().await?;
        for page in rows.chunks(BATCH_EVENTS) {
            let statement = query(D::PUT_RETRACTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            statement.bind(json(&page)?).bind(now.as_millisecond()).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn write_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()> {
        let mut tx = self.write().await?;
        Self::change_consent(&mut tx, key, consent, Timestamp::MAX, entry).await?;
        Ok(tx.commit().await?)
    }

    /// Unless it changed after `since`.
    pub(super) async fn change_consent(
        connection: &mut D::Connection,
        key: &Key,
        consent: bool,
        since: Timestamp,
        entry: &AuditEntry,
    ) -> Result<()> {
        let statement = query(statements::PUT_CONSENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let statement = statement.bind(consent).bind(entry.at.as_millisecond()).bind(since.as_millisecond());
        if D::rows(&statement.execute(&mut *connection).await?) > 0 {
            Self::audit(connection, key, None, entry).await?;
        } else if consent {
            let again = query(statements::GRANTED_AGAIN).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            again.bind(entry.at.as_millisecond()).execute(connection).await?;
        }
        Ok(())
    }

    pub(super) async fn audit(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Option<Uuid>,
        entry: &AuditEntry,
    ) -> Result<()> {
        Self::write_audit(connection, statements::AUDIT, key, digest_id, entry).await
    }

    /// For what may be told again.
    pub(super) async fn audit_once(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Option<Uuid>,
        entry: &AuditEntry,
    ) -> Result<()> {
        Self::write_audit(connection, statements::AUDIT_ONCE, key, digest_id, entry).await
    }

    async fn write_audit(
        connection: &mut D::Connection,
        statement: &'static str,
        key: &Key,
        digest_id: Option<Uuid>,
        entry: &AuditEntry,
    ) -> Result<()> {
        query(statement)
            .bind(&key.tenant)
            .bind(&key.digest_type)
            .bind(&key.user)
            .bind(digest_id.map(|id| id.to_string()).unwrap_or_default())
            .bind(entry.at.as_millisecond())
            .bind(no_nul(&entry.actor))
            .bind(no_nul(&entry.action))
            .bind(no_nul(&entry.why))
            .execute(connection)
            .await?;
        Ok(())
    }

    pub(super) async fn write_notes(&self, AuditInput { key, notes }: &AuditInput) -> Result<()> {
        let mut tx = self.write().await?;
        for Note { at, by, action, why } in notes.iter().cloned() {
            Self::audit_once(&mut tx, key, None, &AuditEntry { at, actor: by, action, why }).await?;
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn read_facts(&self, key: &Key) -> Result<Facts> {
        let statement = query_as(statements::FACTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let row: FactsRow = statement.fetch_one(&self.reader).await?;
        Ok(row.facts(key))
    }
}

fn row(recipient: &Recipient) -> RecipientRow<'_> {
    RecipientRow { recipient, address_lower: folded(&recipient.address) }
}

/// What a retract is about, and until when in milliseconds; an id is taken back for all time.
fn identity(retract: &Retract) -> (RetractIdentity<'_>, i64) {
    match retract {
        Retract::Event(event_id) => {
            (RetractIdentity { event_id, ..RetractIdentity::default() }, Timestamp::MAX.as_millisecond())
        }
        Retract::Entity { category, entity_type, entity_id, until } => {
            (RetractIdentity { event_id: "", category, entity_type, entity_id }, until.as_millisecond())
        }
    }
}
