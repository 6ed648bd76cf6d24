//! The audit trail as operators read it.

use jiff::Timestamp;
use sqlx::query_as;
use tidings_model::records::{Actor, AuditRecord, DigestRecord};
use uuid::Uuid;

use super::super::Sql;
use super::super::columns::row;
use super::super::dialect::Dialect;
use crate::Result;

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

impl<D: Dialect> Sql<D> {
    pub(super) async fn entries_of_digest(
        connection: &mut D::Connection,
        digest: &DigestRecord,
    ) -> Result<Vec<AuditRecord>> {
        let rows = query_as(OF_DIGEST)
            .bind(&digest.key.tenant)
            .bind(&digest.key.digest_type)
            .bind(&digest.key.user)
            .bind(digest.digest_id.to_string())
            .bind(digest.opened_at.as_millisecond())
            .bind(digest.closed_at.map_or(i64::MAX, Timestamp::as_millisecond));
        let rows: Vec<AuditRow> = rows.fetch_all(connection).await?;
        Ok(rows.into_iter().map(AuditRecord::from).collect())
    }
}

row! {
/// Columns of the statements above.
pub struct AuditRow {
    audit_id: i64,
    acted_at: Timestamp,
    tenant: String,
    digest_type: String,
    user_id: String,
    digest_id: Option<Uuid>,
    message: Option<Uuid>,
    actor: Actor,
    action: String,
    why: String,
}
}

impl From<AuditRow> for AuditRecord {
    fn from(row: AuditRow) -> Self {
        let AuditRow { audit_id, acted_at, tenant, digest_type, user_id, digest_id, message, actor, action, why } = row;
        Self { audit_id, at: acted_at, tenant, digest_type, user: user_id, digest_id, message, actor, action, why }
    }
}
