//! The relays' breakers. A change names the revision that it was made of: of two at once, one loses and looks again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Key,
    breaker::{Breaker, Cause, Kept, Open, Probe},
    records::AuditEntry,
};
use uuid::Uuid;

use super::{Dialect, Sql, columns::row, no_nul, statements};
use crate::Result;

row! {
/// Columns of [`RELAYS`](statements::RELAYS).
struct RelayRow {
    name: String,
    revision: u64,
    failures: u32,
    failing_since: Option<Timestamp>,
    sent: u32,
    bounced: u32,
    cause: Option<Cause>,
    why: Option<String>,
    opened_at: Option<Timestamp>,
    /// Empty where the breaker stays open until an operator closes it.
    until_at: Option<Timestamp>,
    times: u32,
    probe_message: Option<Uuid>,
    probe_until: Option<Timestamp>,
}
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn read_breakers(&self) -> Result<BTreeMap<String, Kept>> {
        let rows: Vec<RelayRow> = query_as(statements::RELAYS).fetch_all(&self.reader).await?;
        Ok(rows.into_iter().map(kept).collect())
    }

    pub(super) async fn write_breaker(
        &self,
        name: &str,
        Kept { revision, breaker }: &Kept,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<bool> {
        let open = breaker.open.as_ref();
        let probe = open.and_then(|open| open.probe.as_ref());
        let mut tx = self.write().await?;
        let done = query(statements::PUT_RELAY)
            .bind(name.to_owned())
            .bind(i64::try_from(*revision).unwrap_or(i64::MAX))
            .bind(i64::from(breaker.failures))
            .bind(milliseconds(breaker.failing_since))
            .bind(i64::from(breaker.sent))
            .bind(i64::from(breaker.bounced))
            .bind(open.map_or("closed", |_| "open").to_owned())
            .bind(open.map(|open| open.cause.name().to_owned()).unwrap_or_default())
            .bind(open.map(|open| no_nul(&open.why)).unwrap_or_default())
            .bind(milliseconds(open.map(|open| open.since)))
            .bind(milliseconds(open.map(|open| open.until).filter(|until| *until < Timestamp::MAX)))
            .bind(i64::from(open.map_or(0, |open| open.times)))
            .bind(probe.map(|probe| probe.message.to_string()).unwrap_or_default())
            .bind(milliseconds(probe.map(|probe| probe.until)))
            .bind(now.as_millisecond())
            .execute(&mut *tx)
            .await?;
        let put = D::rows(&done) > 0;
        if let (true, Some(entry)) = (put, entry) {
            Self::audit_relay(&mut tx, name, entry).await?;
        }
        tx.commit().await?;
        Ok(put)
    }

    /// No key's business: the audit entry has no tenant, and the relay stands in the action.
    async fn audit_relay(connection: &mut D::Connection, name: &str, entry: &AuditEntry) -> Result<()> {
        let key = Key { tenant: String::new(), digest_type: String::new(), user: String::new() };
        let action = format!("{} {name}", entry.action);
        Self::audit(connection, &key, None, &AuditEntry { action, ..entry.clone() }).await
    }
}

/// 0 where there is none.
fn milliseconds(at: Option<Timestamp>) -> i64 {
    at.map_or(0, Timestamp::as_millisecond)
}

fn kept(row: RelayRow) -> (String, Kept) {
    let probe = row.probe_message.zip(row.probe_until).map(|(message, until)| Probe { message, until });
    let open = row.cause.zip(row.opened_at).map(|(cause, since)| Open {
        cause,
        why: row.why.unwrap_or_default(),
        since,
        until: row.until_at.unwrap_or(Timestamp::MAX),
        times: row.times,
        probe,
    });
    let RelayRow { failures, failing_since, sent, bounced, .. } = row;
    let breaker = Breaker { open, failures, failing_since, sent, bounced };
    (row.name, Kept { revision: row.revision, breaker })
}
