//! Relays' circuit breakers. Each change gives the revision it replaces, so of two concurrent changes one
//! fails.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    breaker::{BreakerProbe, CircuitBreaker, OpenState, RefusalHistory, VersionedBreaker},
    records::{AuditEntry, RefusalRecord},
};

use crate::{
    Result, StoreError,
    sql::{
        SqlStore, calls,
        columns::{RowRecord as _, column, record, text_column},
        dialect::Dialect,
        no_nul, or_zero,
    },
};

calls! {
    pub trait BreakerStore {
        /// Reads the breakers by name: the relay's, or `RELAY/TENANT`. A breaker without history is absent.
        async fn breakers(&self) -> Result<BTreeMap<String, VersionedBreaker>>;

        /// Stores a breaker if the stored revision is `breaker.revision - 1`, and audits the change if
        /// `entry` is given. Returns `false` if another worker changed the breaker first.
        #[span(relay)]
        async fn put_breaker(
            &self,
            relay: &str,
            breaker: &VersionedBreaker,
            entry: Option<&AuditEntry>,
            now: Timestamp,
        ) -> Result<bool>;

        /// The latest replies that refused a message, latest first.
        #[span(relay)]
        async fn refusals(&self, relay: &str, limit: u32) -> Result<Vec<RefusalRecord>>;
    }
}

pub const BREAKERS: &str = "
SELECT name, revision, failures, failing_since, sent, bounced, taken, complained, cause, why, opened_at, until_at, times,
       probe_message, probe_until, refusals
FROM relays";

/// Writes nothing unless the new revision is the row's next one.
pub const PUT_BREAKER: &str = "
INSERT INTO relays (name, revision, failures, failing_since, sent, bounced, state, cause, why, opened_at, until_at, times,
                    probe_message, probe_until, changed_at, taken, complained, refusals)
VALUES ($1, $2, $3, NULLIF($4, 0), $5, $6, $7, NULLIF($8, ''), NULLIF($9, ''), NULLIF($10, 0), NULLIF($11, 0), $12,
        NULLIF($13, ''), NULLIF($14, 0), $15, $16, $17, $18)
ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, failures = excluded.failures,
    failing_since = excluded.failing_since, sent = excluded.sent, bounced = excluded.bounced, state = excluded.state,
    cause = excluded.cause, why = excluded.why, opened_at = excluded.opened_at, until_at = excluded.until_at,
    times = excluded.times, probe_message = excluded.probe_message, probe_until = excluded.probe_until,
    changed_at = excluded.changed_at, taken = excluded.taken, complained = excluded.complained,
    refusals = excluded.refusals
WHERE relays.revision = excluded.revision - 1";

/// For operators only, because it scans all stored attempts.
pub const REFUSALS: &str = "
SELECT message, ended_at, phase, class, reply FROM attempts
WHERE relay = $1 AND ended_at IS NOT NULL AND class <> 'sent' AND phase IS NOT NULL AND reply <> ''
ORDER BY ended_at DESC, message, number DESC LIMIT $2";

impl<D: Dialect> SqlStore<D> {
    async fn breakers(&self) -> Result<BTreeMap<String, VersionedBreaker>> {
        let breakers = query(BREAKERS).try_map(|row| Ok((column(&row, "name")?, VersionedBreaker::read::<D>(&row)?)));
        let breakers = breakers.fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(breakers.into_iter().collect())
    }

    async fn put_breaker(
        &self,
        name: &str,
        VersionedBreaker { revision, breaker }: &VersionedBreaker,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<bool> {
        let open = breaker.open.as_ref();
        let probe = open.and_then(|open| open.probe.as_ref());
        let refusals = match &breaker.refusals {
            nothing if *nothing == RefusalHistory::default() => String::new(),
            refusals => serde_json::to_string(refusals).map_err(|error| StoreError::Broken(error.to_string()))?,
        };
        let mut tx = self.begin_write().await?;
        let done = query(PUT_BREAKER)
            .bind(name.to_owned())
            .bind(i64::try_from(*revision).unwrap_or(i64::MAX))
            .bind(i64::from(breaker.failures))
            .bind(or_zero(breaker.failing_since))
            .bind(i64::from(breaker.sent))
            .bind(i64::from(breaker.bounced))
            .bind(open.map_or("closed", |_| "open").to_owned())
            .bind(open.map(|open| open.cause.name().to_owned()).unwrap_or_default())
            .bind(open.map(|open| no_nul(&open.why)).unwrap_or_default())
            .bind(or_zero(open.map(|open| open.since)))
            .bind(or_zero(open.map(|open| open.until).filter(|until| *until < Timestamp::MAX)))
            .bind(i64::from(open.map_or(0, |open| open.times)))
            .bind(probe.map(|probe| probe.message.to_string()).unwrap_or_default())
            .bind(or_zero(probe.map(|probe| probe.until)))
            .bind(now.as_millisecond())
            .bind(i64::from(breaker.taken))
            .bind(i64::from(breaker.complained))
            .bind(refusals)
            .execute(&mut *tx)
            .await?;
        let put = D::changed_rows(&done) > 0;
        if let (true, Some(entry)) = (put, entry) {
            let action = format!("{} {name}", entry.action);
            Self::audit_tenant(&mut tx, "", &AuditEntry { action, ..entry.clone() }).await?;
        }
        tx.commit().await?;
        Ok(put)
    }

    async fn refusals(&self, relay: &str, limit: u32) -> Result<Vec<RefusalRecord>> {
        let statement = query(REFUSALS).bind(relay.to_owned()).bind(i64::from(limit));
        self.read_records(statement).await
    }
}

record!(row => VersionedBreaker { revision, breaker: CircuitBreaker::read::<D>(row)? });

record!(row => CircuitBreaker {
    open: read_open::<D>(row)?,
    failures,
    failing_since,
    sent,
    bounced,
    taken,
    complained,
    // A later version may store this in another format. We then start empty; it should not stop a relay.
    refusals: serde_json::from_str(&column::<_, String>(row, "refusals")?).unwrap_or_default(),
});

fn read_open<D: Dialect>(row: &D::Row) -> sqlx::Result<Option<OpenState>> {
    let (cause, since): (Option<_>, Option<_>) = (column(row, "cause")?, column(row, "opened_at")?);
    let Some((cause, since)) = cause.zip(since) else { return Ok(None) };
    let (message, until): (Option<_>, Option<_>) = (column(row, "probe_message")?, column(row, "probe_until")?);
    Ok(Some(OpenState {
        cause,
        why: text_column(row, "why")?,
        since,
        until: column::<_, Option<_>>(row, "until_at")?.unwrap_or(Timestamp::MAX),
        times: column(row, "times")?,
        probe: message.zip(until).map(|(message, until)| BreakerProbe { message, until }),
    }))
}

record!(row => RefusalRecord { message, at = "ended_at", phase, class, reply });
