//! The last openings and clicks of recipients, by key. The digest type's `adapt` asks for them.

use sqlx::query;
use tidings_model::{
    delivery_events::{Kind, Report},
    records::{MessageRecord, Origin},
};
use uuid::Uuid;

use crate::{
    Result,
    reports::is_erased,
    sql::{Sql, dialect::Dialect},
};

/// Key `$1` to `$3`, `$4` the time of a person's, or 0, `$5` the time of one that may be a person's.
pub const PUT_READING: &str = "
INSERT INTO readings (tenant, digest_type, user_id, read_at, sign_at) VALUES ($1, $2, $3, NULLIF($4, 0), $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET
    read_at = CASE WHEN readings.read_at IS NULL OR excluded.read_at > readings.read_at
              THEN COALESCE(excluded.read_at, readings.read_at) ELSE readings.read_at END,
    sign_at = CASE WHEN excluded.sign_at > readings.sign_at THEN excluded.sign_at ELSE readings.sign_at END";

/// `$1` tenant, `$2` message.
pub const FORGET_READING: &str = "
DELETE FROM readings WHERE (tenant, digest_type, user_id) IN
    (SELECT tenant, digest_type, user_id FROM messages
     WHERE id = $2 AND tenant = $1 AND digest_id IS NOT NULL AND erased_at IS NULL)";

impl<D: Dialect> Sql<D> {
    /// Keeps the time of an opening or a click of a digest, unless a machine made it or the recipient was erased.
    pub(crate) async fn put_reading(
        connection: &mut D::Connection,
        message: &MessageRecord,
        report: &Report,
    ) -> Result<()> {
        let Origin::Digest(key) = &message.origin else { return Ok(()) };
        let by_a_machine = report.machine == Some(true) || !matches!(report.kind, Kind::Opened | Kind::Clicked);
        if by_a_machine || is_erased(message) {
            return Ok(());
        }
        let at = report.occurred_at.as_millisecond();
        let by_a_person = if report.machine == Some(false) { at } else { 0 };
        let put = query(PUT_READING).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        put.bind(by_a_person).bind(at).execute(connection).await?;
        Ok(())
    }

    /// Forgets what the recipient of a message opened and clicked of the message's key.
    pub(crate) async fn delete_reading(connection: &mut D::Connection, tenant: &str, message: Uuid) -> Result<()> {
        let forget = query(FORGET_READING).bind(tenant.to_owned()).bind(message.to_string());
        forget.execute(connection).await?;
        Ok(())
    }
}
