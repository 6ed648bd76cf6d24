//! The audit trail as operators read it.

use jiff::Timestamp;
use sqlx::query;
use tidings_model::records::{Actor, AuditFilter, AuditPlace, AuditRecord, Cursor, DigestRecord, Listed};

use crate::{
    Result,
    sql::{Sql, columns::record, dialect::Dialect},
};

macro_rules! audit_columns {
    () => {
        "SELECT audit_id, acted_at, tenant, digest_type, user_id, digest_id, message, actor, action, why FROM audit "
    };
}

/// Tenant, digest type, user, `$4` digest. Commands to the key, and pauses over the key, from `$5` until `$6`.
pub const OF_DIGEST: &str = concat!(
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

/// `$1` tenant, `$2` digest type, `$3` user, `$4` actor, `$5` action; each may be empty, except where the way in needs it. From `$6`
/// until before `$7`. After the time `$8` and the number `$9`; `$10` limit.
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

pub const ALL: &str =
    entries!("($1 = '' OR tenant = $1) AND ($2 = '' OR digest_type = $2) AND ($3 = '' OR user_id = $3)", "acted_at");
// A sum keeps the planner from the index by age, which leads past all other entries.
pub const OF_KEY: &str = entries!("tenant = $1 AND digest_type = $2 AND user_id = $3", "acted_at + 0");

impl<D: Dialect> Sql<D> {
    pub(super) async fn audit_entries(&self, filter: &AuditFilter) -> Result<Listed<AuditRecord, AuditPlace>> {
        let AuditFilter { tenant, digest_type, user, actor, action, since, until, page } = filter;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let (after_at, after_id) =
            page.after.as_ref().map_or((i64::MAX, 0), |Cursor((at, id))| (at.as_millisecond(), *id));
        let of_key = tenant.is_some() && digest_type.is_some() && user.is_some();
        let rows = query(if of_key { OF_KEY } else { ALL })
            .bind(text(tenant))
            .bind(text(digest_type))
            .bind(text(user))
            .bind(actor.as_ref().map_or("", Actor::as_str).to_owned())
            .bind(text(action))
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(after_at)
            .bind(after_id)
            .bind(page.rows_to_read());
        let rows = rows.try_map(Self::to_record).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(page.listed(rows, |last: &AuditRecord| (last.at, last.audit_id)))
    }

    pub(super) async fn audit_of_digest(&self, digest: &DigestRecord) -> Result<Vec<AuditRecord>> {
        let rows = query(OF_DIGEST)
            .bind(&digest.key.tenant)
            .bind(&digest.key.digest_type)
            .bind(&digest.key.user)
            .bind(digest.digest_id.to_string())
            .bind(digest.opened_at.as_millisecond())
            .bind(digest.closed_at.map_or(i64::MAX, Timestamp::as_millisecond));
        Ok(rows.try_map(Self::to_record).fetch_all(&mut *self.reader.acquire().await?).await?)
    }
}

record!(row => AuditRecord {
    audit_id, at = "acted_at", tenant, digest_type, user = "user_id", digest_id, message, actor, action, why,
});
