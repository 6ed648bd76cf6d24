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

use super::{Dialect, Sql, no_nul, number, statements, time};
use crate::{Error, Result};

/// Name, revision; failures, since; sent, bounced; cause, why, opened, until, times; the message that tries it, until.
type Row = (
    String,
    i64,
    i64,
    Option<i64>,
    i64,
    i64,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    i64,
    Option<String>,
    Option<i64>,
);

impl<D: Dialect> Sql<D> {
    pub(super) async fn read_breakers(&self) -> Result<BTreeMap<String, Kept>> {
        let rows: Vec<Row> = query_as(statements::RELAYS).fetch_all(&self.reader).await?;
        rows.into_iter().map(kept).collect()
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

fn kept(row: Row) -> Result<(String, Kept)> {
    let (name, revision, failures, failing_since, sent, bounced, cause, why, opened, until, times, probe, trying) = row;
    let at = |milliseconds: Option<i64>| milliseconds.map(time).transpose();
    let open = match (cause, at(opened)?) {
        (Some(cause), Some(since)) => {
            let probe = match (probe, at(trying)?) {
                (Some(message), Some(until)) => Some(Probe { message: uuid(&message)?, until }),
                _ => None,
            };
            let cause = Cause::ALL.into_iter().find(|known| known.name() == cause);
            let cause = cause.ok_or_else(|| Error::Broken(format!("the cause of relay {name} in the store")))?;
            let until = at(until)?.unwrap_or(Timestamp::MAX);
            Some(Open { cause, why: why.unwrap_or_default(), since, until, times: number(times)?, probe })
        }
        _ => None,
    };
    let breaker = Breaker {
        open,
        failures: number(failures)?,
        failing_since: at(failing_since)?,
        sent: number(sent)?,
        bounced: number(bounced)?,
    };
    Ok((name, Kept { revision: number(revision)?, breaker }))
}

fn uuid(text: &str) -> Result<Uuid> {
    text.parse().map_err(|error| Error::Broken(format!("a message that tries a relay: {error}")))
}
