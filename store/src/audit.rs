//! The audit trail and the dead letters.

use std::collections::BTreeSet;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Key, MessageKey,
    records::{
        AuditActor, AuditEntry, AuditFilter, AuditPlace, AuditRecord, DeadLetterFilter, DeadLetterId, DeadLetterPlace,
        DeadLetterRecord, DigestRecord, EmissionRecord, KeptLetter, ListPage, PageCursor,
    },
    step::{AuditInput, AuditNote, DeadLettersInput},
    window::WindowEnd,
    without_addresses,
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    sql::{
        SqlStore, calls,
        columns::{column, record},
        dialect::{Dialect, StatementVariants},
        no_nul, to_json,
    },
};

calls! {
    pub trait AuditTrail {
        #[span(key = %input.key)]
        async fn record_audit(&self, input: &AuditInput) -> Result<()>;

        #[span(workflow = %input.workflow_id, run = %input.run_id)]
        async fn put_dead_letters(&self, input: &DeadLettersInput, now: Timestamp) -> Result<()>;

        /// Records a dead letter's re-emission, with an audit entry per key. A later call returns the first
        /// emission. If retention has deleted the letter, this only writes the audit entries.
        #[span(letter = %id)]
        async fn mark_emitted(
            &self,
            id: &DeadLetterId,
            keys: &BTreeSet<Key>,
            entry: &AuditEntry,
        ) -> Result<Option<EmissionRecord>>;
    }
}

pub const AUDIT: &str = "
INSERT INTO audit (tenant, digest_type, user_id, digest_id, acted_at, actor, action, why)
VALUES ($1, $2, $3, NULLIF($4, ''), $5, $6, $7, $8)";

/// Operator, command and millisecond identify an entry.
pub const AUDIT_ONCE: &str = "
INSERT INTO audit (tenant, digest_type, user_id, digest_id, acted_at, actor, action, why)
SELECT $1, $2, $3, NULLIF($4, ''), $5, $6, $7, $8
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND acted_at = $5
                  AND COALESCE(digest_id, '') = $4 AND actor = $6 AND action = $7 AND why = $8)";

pub const AUDIT_MESSAGE_ONCE: &str = "
INSERT INTO audit (tenant, digest_type, user_id, message, acted_at, actor, action, why)
SELECT $1, '', '', $2, $3, $4, $5, $6
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE tenant = $1 AND digest_type = '' AND user_id = '' AND acted_at = $3
                  AND message = $2 AND actor = $4 AND action = $5 AND why = $6)";

pub const PUT_DEAD_LETTERS: StatementVariants = StatementVariants {
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

pub const MARK_EMITTED: &str =
    "UPDATE dead_letters SET emitted_at = $3, emitted_by = $4 WHERE run_id = $1 AND seq = $2 AND emitted_at IS NULL";

impl<D: Dialect> SqlStore<D> {
    async fn record_audit(&self, AuditInput { key, notes }: &AuditInput) -> Result<()> {
        let mut tx = self.begin_write().await?;
        for AuditNote { at, by, action, why } in notes.iter().cloned() {
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
        let statement =
            query(D::pick_variant(PUT_DEAD_LETTERS)).bind(no_nul(&input.workflow_id)).bind(no_nul(&input.run_id));
        statement
            .bind(to_json(&letters)?)
            .bind(now.as_millisecond())
            .execute(&mut *self.writer.acquire().await?)
            .await?;
        Ok(())
    }

    async fn mark_emitted(
        &self,
        id: &DeadLetterId,
        keys: &BTreeSet<Key>,
        entry: &AuditEntry,
    ) -> Result<Option<EmissionRecord>> {
        let seq = letter_number(id);
        let mut tx = self.begin_write().await?;
        let mark = query(MARK_EMITTED).bind(&id.run_id).bind(seq).bind(entry.at.as_millisecond());
        let marked = mark.bind(no_nul(entry.actor.as_str())).execute(&mut *tx).await?;
        if D::changed_rows(&marked) == 0 {
            let letter = query(DEAD_LETTER).bind(&id.run_id).bind(seq).bind(ANY_WORKFLOW.to_owned());
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

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn audit_change(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Option<Uuid>,
        entry: &AuditEntry,
    ) -> Result<()> {
        Self::write_audit(connection, AUDIT, key, digest_id, entry).await
    }

    /// Audits a command without a key. An empty tenant means all tenants, or none.
    pub(super) async fn audit_tenant(connection: &mut D::Connection, tenant: &str, entry: &AuditEntry) -> Result<()> {
        let key = Key { tenant: tenant.to_owned(), digest_type: String::new(), user: String::new() };
        Self::audit_change(connection, &key, None, entry).await
    }

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

    pub(super) async fn audit_close(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Uuid,
        closed: &WindowEnd,
        actor: AuditActor,
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

macro_rules! audit_columns {
    () => {
        "SELECT audit_id, acted_at, tenant, digest_type, user_id, digest_id, message, actor, action, why FROM audit "
    };
}

/// Commands on the key, and pauses covering it, from `$5` until `$6`.
pub const ENTRIES_OF_DIGEST: &str = concat!(
    audit_columns!(),
    "WHERE digest_id = $4 UNION ALL ",
    audit_columns!(),
    "WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND acted_at >= $5 AND acted_at <= $6 AND digest_id IS NULL
     UNION ALL ",
    audit_columns!(),
    "WHERE tenant IN ($1, '') AND digest_type IN ($2, '') AND user_id = '' AND acted_at >= $5 AND acted_at <= $6
       AND digest_id IS NULL AND message IS NULL AND action IN ('pause', 'resume')
     ORDER BY acted_at, audit_id LIMIT 500"
);

/// `$1` tenant, `$2` digest type, `$3` user, `$4` actor, `$5` action; each may be empty, unless the index in
/// use needs it. From `$6` until before `$7`. After the time `$8` and the number `$9`; `$10` limit.
macro_rules! entries {
    ($way_in:literal, $acted_at:literal) => {
        concat!(
            audit_columns!(),
            "WHERE ",
            $way_in,
            " AND ($4 = '' OR actor = $4)
              AND ($5 = '' OR action = $5 OR substr(action, 1, length($5) + 1) = $5 || ' ') AND ",
            $acted_at,
            " >= $6 AND ",
            $acted_at,
            " < $7 AND (",
            $acted_at,
            ", audit_id) < ($8, $9) ORDER BY ",
            $acted_at,
            " DESC, audit_id DESC LIMIT $10"
        )
    };
}

pub const ENTRIES: &str =
    entries!("($1 = '' OR tenant = $1) AND ($2 = '' OR digest_type = $2) AND ($3 = '' OR user_id = $3)", "acted_at");
// `+ 0` keeps the planner from choosing the index by age, which would scan all other entries.
pub const ENTRIES_OF_KEY: &str = entries!("tenant = $1 AND digest_type = $2 AND user_id = $3", "acted_at + 0");

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn audit_entries(&self, filter: &AuditFilter) -> Result<ListPage<AuditRecord, AuditPlace>> {
        let AuditFilter { tenant, digest_type, user, actor, action, since, until, page } = filter;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let (after_at, after_id) =
            page.after.as_ref().map_or((i64::MAX, 0), |PageCursor((at, id))| (at.as_millisecond(), *id));
        let of_key = tenant.is_some() && digest_type.is_some() && user.is_some();
        let rows = query(if of_key { ENTRIES_OF_KEY } else { ENTRIES })
            .bind(text(tenant))
            .bind(text(digest_type))
            .bind(text(user))
            .bind(actor.as_ref().map_or("", AuditActor::as_str).to_owned())
            .bind(text(action))
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(after_at)
            .bind(after_id)
            .bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        Ok(page.build_page(rows, |last: &AuditRecord| (last.at, last.audit_id)))
    }

    pub(super) async fn audit_of_digest(&self, digest: &DigestRecord) -> Result<Vec<AuditRecord>> {
        let rows = query(ENTRIES_OF_DIGEST)
            .bind(&digest.key.tenant)
            .bind(&digest.key.digest_type)
            .bind(&digest.key.user)
            .bind(digest.digest_id.to_string())
            .bind(digest.opened_at.as_millisecond())
            .bind(digest.closed_at.map_or(i64::MAX, Timestamp::as_millisecond));
        self.read_records(rows).await
    }
}

record!(row => AuditRecord {
    audit_id, at = "acted_at", tenant, digest_type, user = "user_id", digest_id, message, actor, action, why,
});

macro_rules! letter_columns {
    () => {
        "SELECT workflow_id, run_id, seq, reason, encoding, message_type, size, sha256, buried_at, emitted_at, emitted_by
         FROM dead_letters "
    };
}

/// `$1` workflow ids. Buried from `$2` until before `$3`. After the time `$4`, the run `$5` and the number `$6`; `$7` limit.
macro_rules! letters {
    ($of_workflows:literal) => {
        concat!(
            letter_columns!(),
            "WHERE ",
            $of_workflows,
            " AND buried_at >= $2 AND buried_at < $3 AND (buried_at, run_id, seq) < ($4, $5, $6)
              ORDER BY buried_at DESC, run_id DESC, seq DESC LIMIT $7"
        )
    };
}

/// `*` in `$1` matches any text. Note that SQLite uses GLOB here, because its LIKE ignores case.
pub const OF_WORKFLOWS: StatementVariants = StatementVariants {
    sqlite: letters!("workflow_id GLOB $1"),
    postgres: letters!("workflow_id LIKE replace(replace(replace($1, '%', '!%'), '_', '!_'), '*', '%') ESCAPE '!'"),
};
pub const OF_WORKFLOW: &str = letters!("workflow_id = $1");

pub const ANY_WORKFLOW: &str = "";

pub const DEAD_LETTER: &str =
    concat!(letter_columns!(), "WHERE run_id = $1 AND seq = $2 AND substr(workflow_id, 1, length($3)) = $3");

pub const DEAD_LETTER_HEAD: &str = "SELECT head FROM dead_letters WHERE run_id = $1 AND seq = $2";

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
    ) -> Result<ListPage<DeadLetterRecord, DeadLetterPlace>> {
        let DeadLetterFilter { since, until, page, .. } = filter;
        let workflow_ids = filter.workflow_ids().unwrap_or_else(|| "*".to_owned());
        let after =
            page.after.as_ref().map(|PageCursor((at, run_id, seq))| (at.as_millisecond(), run_id.clone(), *seq));
        let (after_at, after_run, after_seq) = after.unwrap_or((i64::MAX, String::new(), 0));
        let statement = if workflow_ids.contains('*') { D::pick_variant(OF_WORKFLOWS) } else { OF_WORKFLOW };
        let rows = query(statement)
            .bind(workflow_ids)
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(after_at)
            .bind(after_run)
            .bind(i64::try_from(after_seq).unwrap_or(i64::MAX))
            .bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        Ok(page.build_page(rows, |last: &DeadLetterRecord| (last.buried_at, last.id.run_id.clone(), last.id.seq)))
    }

    pub(super) async fn dead_letter(&self, tenant: Option<&str>, id: &DeadLetterId) -> Result<Option<KeptLetter>> {
        let mut connection = self.reader.acquire().await?;
        let seq = letter_number(id);
        let row =
            query(DEAD_LETTER).bind(&id.run_id).bind(seq).bind(tenant.map(Key::workflow_ids_of).unwrap_or_default());
        let record = row.try_map(Self::to_record).fetch_optional(&mut *connection).await?;
        let Some(record) = record else { return Ok(None) };
        let head: Option<(String,)> =
            query_as(DEAD_LETTER_HEAD).bind(&id.run_id).bind(seq).fetch_optional(&mut *connection).await?;
        let Some((head,)) = head else { return Ok(None) };
        let not_base64 = |error| StoreError::Broken(format!("the payload of dead letter {id} is not base64: {error}"));
        Ok(Some(KeptLetter { record, head: BASE64_STANDARD.decode(head).map_err(not_base64)? }))
    }
}

/// Clamped to `i64`; no letter has a higher number.
pub fn letter_number(id: &DeadLetterId) -> i64 {
    i64::try_from(id.seq).unwrap_or(i64::MAX)
}

record!(row => DeadLetterRecord {
    id: DeadLetterId { run_id: column(row, "run_id")?, seq: column(row, "seq")? },
    workflow_id,
    buried_at,
    // Redacted because a field's name may be an address.
    reason: without_addresses(&column::<_, String>(row, "reason")?),
    encoding,
    message_type,
    size,
    sha256,
    emitted: read_emitted::<D>(row)?,
});

pub fn read_emitted<D: Dialect>(row: &D::Row) -> sqlx::Result<Option<EmissionRecord>> {
    let Some(at) = column(row, "emitted_at")? else { return Ok(None) };
    Ok(Some(EmissionRecord { at, by: column::<_, Option<String>>(row, "emitted_by")?.unwrap_or_default() }))
}
