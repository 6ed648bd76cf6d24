//! Operators' pauses. An empty tenant or digest type in a row stands for all of them.

use super::columns::row;
use super::dialect::Dialect;
use super::names::{names, tenants};
use super::{Sql, no_nul, or_zero, within_timeout};
use crate::{Pauses, Result};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::Key;
use tidings_model::pause::{Pause, PauseEnd, Paused, Scope};
use tidings_model::records::AuditEntry;
use tracing::instrument;
use uuid::Uuid;

/// `$1` tenant, `$2` digest type, `$3` now.
pub const LAPSE: &str = concat!(
    "WITH",
    names!(),
    "
UPDATE pauses SET ended_at = until_at, ended_by = 'tidings', ended_why = 'the time of the pause was over'
WHERE (tenant, digest_type) IN (SELECT tenant, digest_type FROM names) AND ended_at IS NULL AND until_at <= $3"
);

/// Changes no row whose terms are the same.
pub const PAUSE: &str = "
INSERT INTO pauses (pause_id, tenant, digest_type, messages, paused_at, paused_by, why, until_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, NULLIF($8, 0))
ON CONFLICT (tenant, digest_type) WHERE ended_at IS NULL DO UPDATE SET messages = excluded.messages,
    paused_at = excluded.paused_at, paused_by = excluded.paused_by, why = excluded.why, until_at = excluded.until_at
WHERE pauses.messages <> excluded.messages OR pauses.paused_by <> excluded.paused_by OR pauses.why <> excluded.why
   OR COALESCE(pauses.until_at, 0) <> COALESCE(excluded.until_at, 0)";

/// `$1` tenant, `$2` digest type. The scope's own first, then those that it has under other names.
pub const OPEN_PAUSES: &str = concat!(
    "WITH",
    names!(),
    "
SELECT pause_id, tenant, digest_type, messages, paused_at, paused_by, why, until_at, ended_at, ended_by, ended_why
FROM pauses WHERE (tenant, digest_type) IN (SELECT tenant, digest_type FROM names) AND ended_at IS NULL
ORDER BY CASE WHEN tenant = $1 AND digest_type = $2 THEN 0 ELSE 1 END, paused_at, pause_id"
);

/// `$1` true for all, `$2` now.
pub const PAUSES: &str = "
SELECT pause_id, tenant, digest_type, messages, paused_at, paused_by, why, until_at, ended_at, ended_by, ended_why
FROM pauses WHERE $1 OR ended_at IS NULL AND (until_at IS NULL OR until_at > $2)
ORDER BY paused_at DESC, tenant, digest_type, pause_id";

/// `$1` pause, `$2` now, `$3` operator, `$4` reason.
pub const RESUME: &str =
    "UPDATE pauses SET ended_at = $2, ended_by = $3, ended_why = $4 WHERE pause_id = $1 AND ended_at IS NULL";

/// `$1` tenant.
pub const PAUSE_OF_MESSAGES: &str = concat!(
    "
SELECT paused_by, why, paused_at, until_at FROM pauses
WHERE ended_at IS NULL AND messages AND (tenant = '' OR tenant IN (SELECT tenant FROM ",
    tenants!(),
    " t))
ORDER BY COALESCE(until_at, 9223372036854775807) DESC, paused_at, pause_id LIMIT 1"
);

#[async_trait]
impl<D: Dialect> Pauses for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(scope = %scope, messages), err(level = "debug"))]
    async fn pause(&self, scope: &Scope, messages: bool, paused: &Paused) -> Result<Pause> {
        within_timeout(async {
            let Paused { by, why, since, until } = paused;
            let (tenant, digest_type) = columns(scope);
            let mut tx = self.write().await?;
            let lapse = query(LAPSE).bind(tenant.clone()).bind(digest_type.clone()).bind(since.as_millisecond());
            lapse.execute(&mut *tx).await?;
            let done = query(PAUSE)
                .bind(Uuid::new_v4().to_string())
                .bind(tenant)
                .bind(digest_type)
                .bind(messages)
                .bind(since.as_millisecond())
                .bind(no_nul(by))
                .bind(no_nul(why))
                .bind(or_zero(*until))
                .execute(&mut *tx)
                .await?;
            if D::rows(&done) > 0 {
                let until = until.map(|until| format!(" (until {until:.0})")).unwrap_or_default();
                let messages = if messages { " (with single messages)" } else { "" };
                let entry = AuditEntry {
                    at: *since,
                    actor: by.clone().into(),
                    action: "pause".into(),
                    why: format!("{why}{until}{messages}"),
                };
                Self::audit_scope(&mut tx, scope, &entry).await?;
            }
            let mut open = Self::open_pauses(&mut tx, scope).await?.into_iter();
            let pause = open.next().ok_or(sqlx::Error::RowNotFound)?;
            // The new terms are those of every name.
            for other in open {
                Self::end_pause(&mut tx, &other, *since, by, why).await?;
            }
            tx.commit().await?;
            Ok(pause)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(scope = %scope), err(level = "debug"))]
    async fn resume(&self, scope: &Scope, entry: &AuditEntry) -> Result<Option<Pause>> {
        within_timeout(async {
            let (tenant, digest_type) = columns(scope);
            let mut tx = self.write().await?;
            query(LAPSE).bind(tenant).bind(digest_type).bind(entry.at.as_millisecond()).execute(&mut *tx).await?;
            let AuditEntry { at, actor, why, .. } = entry;
            let mut ended = None;
            for pause in Self::open_pauses(&mut tx, scope).await? {
                if Self::end_pause(&mut tx, &pause, *at, actor.as_str(), why).await? && ended.is_none() {
                    Self::audit_scope(&mut tx, scope, entry).await?;
                    let end = PauseEnd { at: *at, by: actor.to_string(), why: why.clone() };
                    ended = Some(Pause { ended: Some(end), ..pause });
                }
            }
            tx.commit().await?;
            Ok(ended)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(all), err(level = "debug"))]
    async fn pauses(&self, all: bool, now: Timestamp) -> Result<Vec<Pause>> {
        within_timeout(async {
            let statement = query_as(PAUSES).bind(all).bind(now.as_millisecond());
            let rows: Vec<PauseRow> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(rows.into_iter().map(Pause::from).collect())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(tenant), err(level = "debug"))]
    async fn pause_of_messages(&self, tenant: &str) -> Result<Option<Paused>> {
        within_timeout(async {
            let statement = query_as(PAUSE_OF_MESSAGES).bind(tenant.to_owned());
            let row: Option<PausedRow> = statement.fetch_optional(&mut *self.reader.acquire().await?).await?;
            Ok(row.map(Paused::from))
        })
        .await
    }
}

impl<D: Dialect> Sql<D> {
    async fn open_pauses(connection: &mut D::Connection, scope: &Scope) -> Result<Vec<Pause>> {
        let (tenant, digest_type) = columns(scope);
        let rows: Vec<PauseRow> = query_as(OPEN_PAUSES).bind(tenant).bind(digest_type).fetch_all(connection).await?;
        Ok(rows.into_iter().map(Pause::from).collect())
    }

    /// Reports if the pause was in force.
    async fn end_pause(
        connection: &mut D::Connection,
        pause: &Pause,
        at: Timestamp,
        by: &str,
        why: &str,
    ) -> Result<bool> {
        let statement = query(RESUME).bind(pause.id.to_string()).bind(at.as_millisecond());
        let done = statement.bind(no_nul(by)).bind(no_nul(why)).execute(connection).await?;
        Ok(D::rows(&done) > 0)
    }

    async fn audit_scope(connection: &mut D::Connection, scope: &Scope, entry: &AuditEntry) -> Result<()> {
        let (tenant, digest_type) = columns(scope);
        let key = Key { tenant, digest_type, user: String::new() };
        Self::audit_change(connection, &key, None, entry).await
    }
}

/// The scope as its two columns.
fn columns(scope: &Scope) -> (String, String) {
    (scope.tenant.clone().unwrap_or_default(), scope.digest_type.clone().unwrap_or_default())
}

row! {
/// Columns of [`PAUSES`].
pub struct PauseRow {
    pause_id: Uuid,
    tenant: String,
    digest_type: String,
    messages: bool,
    paused_at: Timestamp,
    paused_by: String,
    why: String,
    until_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    ended_by: Option<String>,
    ended_why: Option<String>,
}
}

row! {
/// Columns of [`PAUSE_OF_MESSAGES`].
pub struct PausedRow {
    paused_by: String,
    why: String,
    paused_at: Timestamp,
    until_at: Option<Timestamp>,
}
}

impl From<PauseRow> for Pause {
    fn from(row: PauseRow) -> Self {
        let part = |part: String| Some(part).filter(|part| !part.is_empty());
        let end = row.ended_at.zip(row.ended_by).zip(row.ended_why);
        Self {
            id: row.pause_id,
            scope: Scope { tenant: part(row.tenant), digest_type: part(row.digest_type) },
            messages: row.messages,
            paused: Paused { by: row.paused_by, why: row.why, since: row.paused_at, until: row.until_at },
            ended: end.map(|((at, by), why)| PauseEnd { at, by, why }),
        }
    }
}

impl From<PausedRow> for Paused {
    fn from(row: PausedRow) -> Self {
        Self { by: row.paused_by, why: row.why, since: row.paused_at, until: row.until_at }
    }
}
