//! People, what they chose, and whom not to mail.

use std::collections::BTreeMap;

use sqlx::{query, query_as};
use tidings_workflows::{Key, contract::AuditInput, limits::BATCH_EVENTS};
use uuid::Uuid;

use super::{
    Dialect, Sql, json, no_nul, number,
    rows::{self, FactsRow, RecipientRow},
    statements,
};
use crate::store::{AuditEntry, Facts, Preferences, Recipient, Result, Suppression};

impl<D: Dialect> Sql<D> {
    pub(super) async fn write_recipients(&self, recipients: &[Recipient]) -> Result<()> {
        // One statement cannot replace a row twice: of one person's entries the last counts.
        let last: BTreeMap<_, _> = recipients.iter().map(|r| ((&r.tenant, &r.user), r)).collect();
        let rows: Vec<_> = last.into_values().map(row).collect();
        let mut tx = self.write().await?;
        for page in rows.chunks(BATCH_EVENTS) {
            query(D::PUT_RECIPIENTS).bind(json(&page)?).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn write_preferences(&self, key: &Key, preferences: &Preferences) -> Result<u64> {
        let statement = query_as(D::PUT_PREFERENCES).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let (revision,): (i64,) = statement.bind(json(preferences)?).fetch_one(&self.writer).await?;
        number(revision)
    }

    pub(super) async fn write_consent(&self, key: &Key, consent: bool, entry: &AuditEntry) -> Result<()> {
        let mut tx = self.write().await?;
        let statement = query(statements::PUT_CONSENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let done = statement.bind(consent).bind(entry.at.as_millisecond()).execute(&mut *tx).await?;
        if D::rows(&done) > 0 {
            Self::audit(&mut tx, key, None, entry).await?;
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn audit(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Option<Uuid>,
        entry: &AuditEntry,
    ) -> Result<()> {
        query(statements::AUDIT)
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
        for note in notes {
            query(statements::AUDIT_ONCE)
                .bind(&key.tenant)
                .bind(&key.digest_type)
                .bind(&key.user)
                .bind(note.at.as_millisecond())
                .bind(no_nul(&note.by))
                .bind(no_nul(&note.action))
                .bind(no_nul(&note.why))
                .execute(&mut *tx)
                .await?;
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn write_suppression(connection: &mut D::Connection, suppression: &Suppression) -> Result<()> {
        query(statements::SUPPRESS)
            .bind(&suppression.tenant)
            .bind(suppression.address.to_lowercase())
            .bind(&suppression.reason)
            .bind(no_nul(&suppression.detail))
            .bind(suppression.at.as_millisecond())
            .execute(connection)
            .await?;
        Ok(())
    }

    pub(super) async fn read_facts(&self, key: &Key) -> Result<Facts> {
        let statement = query_as(statements::FACTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let row: FactsRow = statement.fetch_one(&self.reader).await?;
        rows::facts(key, row)
    }
}

/// Case is folded here and not in SQL: the databases disagree beyond ASCII.
fn row(recipient: &Recipient) -> RecipientRow<'_> {
    RecipientRow { recipient, address_lower: recipient.address.to_lowercase() }
}
