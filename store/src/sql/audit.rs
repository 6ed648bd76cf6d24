//! The audit trail and the dead letters.

use super::dialect::{Dialect, Variants};
use super::listings::dead_letters::{ANY_WORKFLOW, LetterRow, ONE, letter_number};
use super::{Sql, json, no_nul, within_timeout};
use crate::{AuditTrail, Result};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{query, query_as};
use std::collections::BTreeSet;
use tidings_model::records::{Actor, AuditEntry, DeadLetterId, DeadLetterRecord, Emitted};
use tidings_model::step::{AuditInput, Closed, DeadLettersInput, Note};
use tidings_model::{Key, MessageKey};
use tracing::instrument;
use uuid::Uuid;

pub const AUDIT: &str = "
INSERT INTO audit (tenant, digest_type, user_id, digest_id, acted_at, actor, action, why)
VALUES ($1, $2, $3, NULLIF($4, ''), $5, $6, $7, $8)";

/// The same command of the same operator in the same millisecond is the same.
pub const AUDIT_ONCE: &str = "
INSERT INTO audit (tenant, digest_type, user_id, digest_id, acted_at, actor, action, why)
SELECT $1, $2, $3, NULLIF($4, ''), $5, $6, $7, $8
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND acted_at = $5
                  AND COALESCE(digest_id, '') = $4 AND actor = $6 AND action = $7 AND why = $8)";

/// The same command of the same operator in the same millisecond is the same.
pub const AUDIT_MESSAGE_ONCE: &str = "
INSERT INTO audit (tenant, digest_type, user_id, message, acted_at, actor, action, why)
SELECT $1, '', '', $2, $3, $4, $5, $6
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND digest_type = '' AND user_id = '' AND acted_at = $3
                  AND message = $2 AND actor = $4 AND action = $5 AND why = $6)";

/// `$1` workflow id, `$2` run id, `$3` JSON array of letters, `$4` now.
pub const PUT_DEAD_LETTERS: Variants = Variants {
    sqlite: "
INSERT INTO dead_letters (workflow_id, run_id, seq, reason, encoding, message_type, size, sha256, head, buried_at)
SELECT $1, $2, value->>'seq', value->>'reason', value->>'encoding', value->>'message_type', value->>'size',
       value->>'sha256', value->>'head', $4
FROM jsonb_each($3) WHERE TRUE ON CONFLICT DO NOTHING",
    postgres: "
INSERT INTO dead_letters (workflow_id, run_id, seq, reason, encoding, message_type, size, sha256, head, buried_at)
SELECT $1, $2, (value->>'seq')::bigint, value->>'reason', value->>'encoding', value->>'message_type',
       (value->>'size')::bigint, value->>'sha256', value->>'head', $4
FROM jsonb_array_elements($3::jsonb) ON CONFLICT DO NOTHING",
};

/// `$1` run, `$2` number, `$3` now, `$4` operator. The first emission stays.
pub const MARK_EMITTED: &str =
    "UPDATE dead_letters SET emitted_at = $3, emitted_by = $4 WHERE run_id = $1 AND seq = $2 AND emitted_at IS NULL";

#[async_trait]
impl<D: Dialect> AuditTrail for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn audit(&self, AuditInput { key, notes }: &AuditInput) -> Result<()> {
        within_timeout(async {
            let mut tx = self.write().await?;
            for Note { at, by, action, why } in notes.iter().cloned() {
                Self::audit_once(&mut tx, key, None, &AuditEntry { at, actor: by.into(), action, why }).await?;
            }
            Ok(tx.commit().await?)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(workflow = %input.workflow_id, run = %input.run_id), err(level = "debug"))]
    async fn put_dead_letters(&self, input: &DeadLettersInput, now: Timestamp) -> Result<()> {
        within_timeout(async {
            let mut letters = input.letters.clone();
            for letter in &mut letters {
                letter.reason = no_nul(&letter.reason);
                letter.encoding = no_nul(&letter.encoding);
                letter.message_type = letter.message_type.as_deref().map(no_nul);
            }
            let statement =
                query(D::pick(PUT_DEAD_LETTERS)).bind(no_nul(&input.workflow_id)).bind(no_nul(&input.run_id));
            statement
                .bind(json(&letters)?)
                .bind(now.as_millisecond())
                .execute(&mut *self.writer.acquire().await?)
                .await?;
            Ok(())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(letter = %id), err(level = "debug"))]
    async fn mark_emitted(
        &self,
        id: &DeadLetterId,
        keys: &BTreeSet<Key>,
        entry: &AuditEntry,
    ) -> Result<Option<Emitted>> {
        within_timeout(async {
            let seq = letter_number(id);
            let mut tx = self.write().await?;
            let mark = query(MARK_EMITTED).bind(&id.run_id).bind(seq).bind(entry.at.as_millisecond());
            let marked = mark.bind(no_nul(entry.actor.as_str())).execute(&mut *tx).await?;
            if D::rows(&marked) == 0 {
                let letter = query_as(ONE).bind(&id.run_id).bind(seq).bind(ANY_WORKFLOW.to_owned());
                let row: Option<LetterRow> = letter.fetch_optional(&mut *tx).await?;
                let earlier = row.and_then(|row| DeadLetterRecord::from(row).emitted);
                if earlier.is_some() {
                    return Ok(earlier);
                }
            }
            for key in keys {
                Self::audit_change(&mut tx, key, None, entry).await?;
            }
            tx.commit().await?;
            Ok(None)
        })
        .await
    }
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn audit_change(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Option<Uuid>,
        entry: &AuditEntry,
    ) -> Result<()> {
        Self::write_audit(connection, AUDIT, key, digest_id, entry).await
    }

    /// Records a repeated command only once.
    pub(super) async fn audit_once(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Option<Uuid>,
        entry: &AuditEntry,
    ) -> Result<()> {
        Self::write_audit(connection, AUDIT_ONCE, key, digest_id, entry).await
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
            .bind(no_nul(entry.actor.as_str()))
            .bind(no_nul(&entry.action))
            .bind(no_nul(&entry.why))
            .execute(connection)
            .await?;
        Ok(())
    }

    /// The audit trail's entry of an end that did not come from a delivery.
    pub(super) async fn audit_close(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Uuid,
        closed: &Closed,
        actor: Actor,
        now: Timestamp,
    ) -> Result<()> {
        let why = format!("{}: {}", closed.outcome.name(), closed.why);
        let entry = AuditEntry { at: now, actor, action: "close".into(), why };
        Self::audit_change(connection, key, Some(digest_id), &entry).await
    }

    pub(super) async fn audit_single(
        connection: &mut D::Connection,
        key: &MessageKey,
        entry: AuditEntry,
    ) -> Result<()> {
        query(AUDIT_MESSAGE_ONCE)
            .bind(key.tenant.clone())
            .bind(key.message_id().to_string())
            .bind(entry.at.as_millisecond())
            .bind(no_nul(entry.actor.as_str()))
            .bind(entry.action)
            .bind(no_nul(&entry.why))
            .execute(connection)
            .await?;
        Ok(())
    }
}
