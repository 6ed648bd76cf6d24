//! In a row, an empty tenant or digest type means all.

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    Key,
    pause::{Pause, PauseDetails, PauseEnd, PauseScope},
    records::AuditEntry,
};
use uuid::Uuid;

use crate::{
    Result,
    names::{names, tenants},
    sql::{
        SqlStore, calls,
        columns::{column, record},
        dialect::Dialect,
        no_nul, or_zero,
    },
};

calls! {
    /// Operators' pauses of tenants and digest types. [`Facts`](tidings_model::records::KeyFacts) includes
    /// the pause that applies to a key.
    pub trait PauseStore {
        /// Pauses a scope and returns the pause now active. A scope has at most one: another command replaces
        /// its terms and keeps its id. Equal terms change nothing. A change is audited.
        #[span(scope = %scope, messages)]
        async fn pause(&self, scope: &PauseScope, messages: bool, paused: &PauseDetails) -> Result<Pause>;

        /// Ends and audits the pause for exactly this scope, under any name. Returns it, or `None` if there
        /// is no active one.
        #[span(scope = %scope)]
        async fn resume(&self, scope: &PauseScope, entry: &AuditEntry) -> Result<Option<Pause>>;

        #[span(all)]
        async fn pauses(&self, all: bool, now: Timestamp) -> Result<Vec<Pause>>;

        /// The longest pause covering the tenant's single messages. May have expired.
        #[span(tenant)]
        async fn pause_of_messages(&self, tenant: &str) -> Result<Option<PauseDetails>>;
    }
}

pub const LAPSE: &str = concat!(
    "WITH",
    names!(),
    "
UPDATE pauses SET ended_at = until_at, ended_by = 'tidings', ended_why = 'the time of the pause was over'
WHERE (tenant, digest_type) IN (SELECT tenant, digest_type FROM names) AND ended_at IS NULL AND until_at <= $3"
);

pub const PAUSE: &str = "
INSERT INTO pauses (pause_id, tenant, digest_type, messages, paused_at, paused_by, why, until_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, NULLIF($8, 0))
ON CONFLICT (tenant, digest_type) WHERE ended_at IS NULL DO UPDATE SET messages = excluded.messages,
    paused_at = excluded.paused_at, paused_by = excluded.paused_by, why = excluded.why, until_at = excluded.until_at
WHERE pauses.messages <> excluded.messages OR pauses.paused_by <> excluded.paused_by OR pauses.why <> excluded.why
   OR COALESCE(pauses.until_at, 0) <> COALESCE(excluded.until_at, 0)";

pub const OPEN_PAUSES: &str = concat!(
    "WITH",
    names!(),
    "
SELECT pause_id, tenant, digest_type, messages, paused_at, paused_by, why, until_at, ended_at, ended_by, ended_why
FROM pauses WHERE (tenant, digest_type) IN (SELECT tenant, digest_type FROM names) AND ended_at IS NULL
ORDER BY CASE WHEN tenant = $1 AND digest_type = $2 THEN 0 ELSE 1 END, paused_at, pause_id"
);

pub const PAUSES: &str = "
SELECT pause_id, tenant, digest_type, messages, paused_at, paused_by, why, until_at, ended_at, ended_by, ended_why
FROM pauses WHERE $1 OR ended_at IS NULL AND (until_at IS NULL OR until_at > $2)
ORDER BY paused_at DESC, tenant, digest_type, pause_id";

pub const RESUME: &str =
    "UPDATE pauses SET ended_at = $2, ended_by = $3, ended_why = $4 WHERE pause_id = $1 AND ended_at IS NULL";

pub const PAUSE_OF_MESSAGES: &str = concat!(
    "
SELECT paused_by, why, paused_at, until_at FROM pauses
WHERE ended_at IS NULL AND messages AND (tenant = '' OR tenant IN (SELECT tenant FROM ",
    tenants!(),
    " t))
ORDER BY COALESCE(until_at, 9223372036854775807) DESC, paused_at, pause_id LIMIT 1"
);

impl<D: Dialect> SqlStore<D> {
    async fn pause(&self, scope: &PauseScope, messages: bool, paused: &PauseDetails) -> Result<Pause> {
        let PauseDetails { by, why, since, until } = paused;
        let (tenant, digest_type) = scope_columns(scope);
        let mut tx = self.begin_write().await?;
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
        if D::changed_rows(&done) > 0 {
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
        for other in open {
            Self::end_pause(&mut tx, &other, *since, by, why).await?;
        }
        tx.commit().await?;
        Ok(pause)
    }

    async fn resume(&self, scope: &PauseScope, entry: &AuditEntry) -> Result<Option<Pause>> {
        let (tenant, digest_type) = scope_columns(scope);
        let mut tx = self.begin_write().await?;
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
    }

    async fn pauses(&self, all: bool, now: Timestamp) -> Result<Vec<Pause>> {
        let statement = query(PAUSES).bind(all).bind(now.as_millisecond());
        self.read_records(statement).await
    }

    async fn pause_of_messages(&self, tenant: &str) -> Result<Option<PauseDetails>> {
        let statement = query(PAUSE_OF_MESSAGES).bind(tenant.to_owned());
        self.read_record(statement).await
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn open_pauses(connection: &mut D::Connection, scope: &PauseScope) -> Result<Vec<Pause>> {
        let (tenant, digest_type) = scope_columns(scope);
        let open = query(OPEN_PAUSES).bind(tenant).bind(digest_type);
        Ok(open.try_map(Self::to_record).fetch_all(connection).await?)
    }

    async fn end_pause(
        connection: &mut D::Connection,
        pause: &Pause,
        at: Timestamp,
        by: &str,
        why: &str,
    ) -> Result<bool> {
        let statement = query(RESUME).bind(pause.id.to_string()).bind(at.as_millisecond());
        let done = statement.bind(no_nul(by)).bind(no_nul(why)).execute(connection).await?;
        Ok(D::changed_rows(&done) > 0)
    }

    async fn audit_scope(connection: &mut D::Connection, scope: &PauseScope, entry: &AuditEntry) -> Result<()> {
        let (tenant, digest_type) = scope_columns(scope);
        let key = Key { tenant, digest_type, user: String::new() };
        Self::audit_change(connection, &key, None, entry).await
    }
}

fn scope_columns(scope: &PauseScope) -> (String, String) {
    (scope.tenant.clone().unwrap_or_default(), scope.digest_type.clone().unwrap_or_default())
}

record!(row => Pause {
    id = "pause_id",
    scope: PauseScope { tenant: scope_part(column(row, "tenant")?), digest_type: scope_part(column(row, "digest_type")?) },
    messages,
    paused: PauseDetails::read::<D>(row)?,
    ended: match (column(row, "ended_at")?, column(row, "ended_by")?, column(row, "ended_why")?) {
        (Some(at), Some(by), Some(why)) => Some(PauseEnd { at, by, why }),
        _ => None,
    },
});

record!(row => PauseDetails { by = "paused_by", why, since = "paused_at", until = "until_at" });

fn scope_part(part: String) -> Option<String> {
    Some(part).filter(|part| !part.is_empty())
}
