//! The audit trail and the dead letters.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    Key, MessageKey,
    records::{Actor, AuditEntry, DeadLetterId, DeadLetterRecord, Emitted},
    step::{AuditInput, DeadLettersInput, Note},
    window::Closed,
};
use uuid::Uuid;

use crate::{
    Result,
    listings::dead_letters::{ANY_WORKFLOW, ONE, letter_number},
    sql::{
        Sql, calls,
        dialect::{Dialect, Variants},
        json, no_nul,
    },
};

calls! {
    /// Commands of operators, and signals that could not be decoded.
    pub trait AuditTrail {
        /// Records commands of operators, once each.
        #[span(key = %input.key)]
        async fn audit(&self, input: &AuditInput) -> Result<()>;

        /// Records dead letters, once each.
        #[span(workflow = %input.workflow_id, run = %input.run_id)]
        async fn put_dead_letters(&self, input: &DeadLettersInput, now: Timestamp) -> Result<()>;

        /// Records that an operator emitted a dead letter again, with an audit entry for each of the keys. The first call counts:
        /// a later one changes nothing and returns the first emission. If retention has deleted the letter meanwhile, only the
        /// entries are recorded.
        #[span(letter = %id)]
        async fn mark_emitted(
            &self,
            id: &DeadLetterId,
            keys: &BTreeSet<Key>,
            entry: &AuditEntry,
        ) -> Result<Option<Emitted>>;
    }
}

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

impl<D: Dialect> Sql<D> {
    async fn audit(&self, AuditInput { key, notes }: &AuditInput) -> Result<()> {
        let mut tx = self.write().await?;
        for Note { at, by, action, why } in notes.iter().cloned() {
            Self::audit_once(&mut tx, key, None, &AuditEntry { at, actor: by.into(), action, why }).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn put_dead_letters(&self, input: &DeadLettersInput, now: Timestamp) -> Result<()> {
        let mut letters = input.letters.clone();
        for letter in &mut letters {
            letter.reason = no_nul(&letter.reason);
            letter.encoding = no_nul(&letter.encoding);
            letter.message_type = letter.message_type.as_deref().map(no_nul);
        }
        let statement = query(D::pick(PUT_DEAD_LETTERS)).bind(no_nul(&input.workflow_id)).bind(no_nul(&input.run_id));
        statement.bind(json(&letters)?).bind(now.as_millisecond()).execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn mark_emitted(
        &self,
        id: &DeadLetterId,
        keys: &BTreeSet<Key>,
        entry: &AuditEntry,
    ) -> Result<Option<Emitted>> {
        let seq = letter_number(id);
        let mut tx = self.write().await?;
        let mark = query(MARK_EMITTED).bind(&id.run_id).bind(seq).bind(entry.at.as_millisecond());
        let marked = mark.bind(no_nul(entry.actor.as_str())).execute(&mut *tx).await?;
        if D::rows(&marked) == 0 {
            let letter = query(ONE).bind(&id.run_id).bind(seq).bind(ANY_WORKFLOW.to_owned());
            let letter: Option<DeadLetterRecord> = letter.try_map(Self::to_record).fetch_optional(&mut *tx).await?;
            let earlier = letter.and_then(|letter| letter.emitted);
            if earlier.is_some() {
                return Ok(earlier);
            }
        }
        for key in keys {
            Self::audit_change(&mut tx, key, None, entry).await?;
        }
        tx.commit().await?;
        Ok(None)
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
