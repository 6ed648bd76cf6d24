//! Selects the rows a batch deletes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::{AssertSqlSafe, query, query::Query, query_as};
use tidings_model::retention::RetractExpiry;

use crate::{
    Result,
    attempts::ATTEMPTS,
    digest::{MESSAGE, MESSAGE_RECORD},
    lines::{self, ArchiveLine, DEAD_LETTERS, EVENTS, REPORTS, RETRACTS, TableLines, WEBHOOK_LETTERS},
    sql::{SqlStore, columns::row, dialect::Dialect, to_json},
};

/// Closed before `$1`, possibly with events. If a digest returned its events, either all of them wait for a
/// claim or none.
pub const OLD_DIGESTS: &str = "
SELECT d.digest_id FROM digests d
WHERE d.emptied_at IS NULL AND d.closed_at < $1
  AND (d.returned_at IS NULL
       OR NOT EXISTS (SELECT 1 FROM events e WHERE e.digest_id = d.digest_id AND e.returned_at IS NOT NULL))
ORDER BY d.closed_at, d.digest_id LIMIT $2";

pub const EVENTS_OF_DIGESTS: &str = "
SELECT {columns} FROM digests d JOIN events e ON e.digest_id = d.digest_id
WHERE e.returned_at IS NULL AND d.digest_id IN (SELECT value->>0 FROM {each})
ORDER BY d.closed_at, d.digest_id, e.event_id LIMIT $2";

pub const COUNT_OLD_EVENTS: &str = "
SELECT COUNT(*) FROM digests d JOIN events e ON e.digest_id = d.digest_id
WHERE d.emptied_at IS NULL AND d.closed_at < $1 AND e.returned_at IS NULL";

macro_rules! names_of_retract {
    () => {
        "(SELECT t.tenant, n.digest_type
          FROM (SELECT r.tenant AS tenant
                UNION ALL SELECT alias FROM aliases WHERE kind = 'tenant' AND name = r.tenant) t
          CROSS JOIN (SELECT r.digest_type AS digest_type
                      UNION ALL SELECT alias FROM aliases WHERE kind = 'digest' AND name = r.digest_type) n)"
    };
}

/// Retracted before `$1`. Keeps a retract if it may cover an event still here, under any name of its key. The
/// CROSS JOIN makes SQLite start on its left, so it finds digests by their whole key.
macro_rules! old_retracts {
    () => {
        concat!(
            " FROM retracts r
WHERE r.retracted_at < $1
  AND NOT EXISTS (SELECT 1 FROM ",
            names_of_retract!(),
            " k
                  CROSS JOIN digests d
                  WHERE d.tenant = k.tenant AND d.digest_type = k.digest_type AND d.user_id = r.user_id
                    AND d.opened_at <= r.retracted_at AND (d.closed_at IS NULL OR d.closed_at >= $1))
  AND NOT EXISTS (SELECT 1 FROM ",
            names_of_retract!(),
            " k
                  CROSS JOIN events e
                  WHERE e.tenant = k.tenant AND e.digest_type = k.digest_type AND e.user_id = r.user_id
                    AND e.returned_at IS NOT NULL)"
        )
    };
}

/// `$2` skips retracts found needed since then, `$3` limit.
pub const KEYS_OF_OLD_RETRACTS: &str = concat!(
    "SELECT DISTINCT r.tenant, r.digest_type, r.user_id",
    old_retracts!(),
    " AND COALESCE(r.needed_at, 0) <= $2 ORDER BY r.tenant, r.digest_type, r.user_id LIMIT $3"
);

pub const OLD_RETRACTS: &str = concat!(
    "SELECT {columns}",
    old_retracts!(),
    " AND r.tenant = $2 AND r.digest_type = $3 AND r.user_id = $4 AND r.retracted_at < $5
      ORDER BY r.retracted_at, r.event_id, r.category, r.entity_type, r.entity_id LIMIT $6"
);

/// Marks the key's retracts from before `$1`, but not from before `$5`, as needed at `$6`.
pub const NEED_RETRACTS: &str = "
UPDATE retracts SET needed_at = $6
WHERE retracted_at < $1 AND tenant = $2 AND digest_type = $3 AND user_id = $4 AND retracted_at >= $5";

pub const COUNT_OLD_RETRACTS: &str = concat!("SELECT COUNT(*)", old_retracts!());

pub const OLD_DEAD_LETTERS: &str = "
SELECT {columns} FROM dead_letters WHERE buried_at < $1 ORDER BY buried_at, workflow_id, run_id, seq LIMIT $2";

pub const OLD_WEBHOOK_LETTERS: &str = "
SELECT {columns} FROM webhook_dead_letters WHERE buried_at < $1 ORDER BY buried_at, relay, sha256 LIMIT $2";

pub const COUNT_OLD_DEAD_LETTERS: &str = "
SELECT (SELECT COUNT(*) FROM dead_letters WHERE buried_at < $1)
     + (SELECT COUNT(*) FROM webhook_dead_letters WHERE buried_at < $1)";

macro_rules! old_messages {
    () => {
        " FROM messages m
WHERE m.closed_at < $1
  AND NOT EXISTS (SELECT 1 FROM digests d WHERE d.digest_id = m.digest_id AND d.state <> 'closed')"
    };
}

pub const OLD_MESSAGES: &str =
    concat!("SELECT m.id, m.digest_id, m.closed_at", old_messages!(), " ORDER BY m.closed_at, m.id LIMIT $2");

pub const COUNT_OLD_MESSAGES: &str = concat!("SELECT COUNT(*)", old_messages!());

pub const CLOSED_AMONG: &str =
    "SELECT digest_id FROM digests WHERE state = 'closed' AND digest_id IN (SELECT value->>0 FROM {each})";

pub const OLD_REPORTS: &str = "
SELECT {columns} FROM delivery_events WHERE received_at < $1 ORDER BY received_at, message, event LIMIT $2";

pub const COUNT_OLD_REPORTS: &str = "SELECT COUNT(*) FROM delivery_events WHERE received_at < $1";

pub const OLD_FORWARDED: &str = "SELECT id FROM inbox WHERE forwarded_at < $1 ORDER BY forwarded_at, id LIMIT $2";

pub const COUNT_OLD_FORWARDED: &str = "SELECT COUNT(*) FROM inbox WHERE forwarded_at < $1";

pub const OLD_NOTICES: &str = "SELECT seq FROM notices WHERE ended_at < $1 ORDER BY ended_at, seq LIMIT $2";

pub const COUNT_OLD_NOTICES: &str = "SELECT COUNT(*) FROM notices WHERE ended_at < $1";

#[derive(Default)]
pub struct ExpiredBatch {
    pub keys: Vec<Value>,
    pub lines: Vec<String>,
    pub since: Timestamp,
    pub digests: Vec<Value>,
    pub visited: Vec<Value>,
    pub more: bool,
}

row! {
pub struct OldMessage {
    id: String,
    digest_id: Option<String>,
    closed_at: Timestamp,
}
}

impl<D: Dialect> SqlStore<D> {
    /// Takes whole digests as far as they fit. Skips digests with events waiting for the key's next claim.
    pub(crate) async fn old_events(
        connection: &mut D::Connection,
        before: Timestamp,
        limit: i64,
    ) -> Result<ExpiredBatch> {
        let digests = Self::skip_locked(OLD_DIGESTS);
        let digests = query_as(digests).bind(before.as_millisecond()).bind(limit);
        let digests: Vec<(String,)> = digests.fetch_all(&mut *connection).await?;
        let visited: Vec<_> = digests.into_iter().map(|(id,)| Value::from(vec![id])).collect();
        let rows =
            query(Self::expand_each(&EVENTS.select_columns(EVENTS_OF_DIGESTS))).bind(to_json(&visited)?).bind(limit);
        let rows = rows.try_map(|row| EVENTS.row_line::<D>(&row)).fetch_all(connection).await?;
        let full = |count: usize| i64::try_from(count).is_ok_and(|count| count >= limit);
        let mut retired =
            ExpiredBatch { more: full(visited.len()) || full(rows.len()), visited, ..ExpiredBatch::default() };
        for row in rows {
            let digest = Value::from(vec![row.json["digest_id"].clone()]);
            if retired.digests.last() != Some(&digest) {
                retired.digests.push(digest);
            }
            retired.push_line(row);
        }
        Ok(retired)
    }

    /// Takes the retracts named by the expiries, and marks these keys' others as needed now.
    pub(crate) async fn old_retracts(
        connection: &mut D::Connection,
        before: Timestamp,
        expiries: &[RetractExpiry],
        limit: i64,
        now: Timestamp,
    ) -> Result<ExpiredBatch> {
        let mut rows = Vec::new();
        for RetractExpiry { key, before: expired_before } in expiries {
            let left = limit.saturating_sub(i64::try_from(rows.len()).unwrap_or(i64::MAX));
            let (before, expired_before) = (before.as_millisecond(), expired_before.as_millisecond());
            let old = Self::locked_lines(&RETRACTS, OLD_RETRACTS, before).bind(&key.tenant).bind(&key.digest_type);
            let old = old.bind(&key.user).bind(expired_before).bind(left);
            rows.extend(old.try_map(|row| RETRACTS.row_line::<D>(&row)).fetch_all(&mut *connection).await?);
            let need = query(NEED_RETRACTS).bind(before).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            need.bind(expired_before).bind(now.as_millisecond()).execute(&mut *connection).await?;
        }
        Ok(ExpiredBatch { more: !expiries.is_empty(), ..ExpiredBatch::from_lines(rows, limit) })
    }

    pub(crate) async fn old_dead_letters(
        connection: &mut D::Connection,
        before: Timestamp,
        limit: i64,
    ) -> Result<ExpiredBatch> {
        let mut lines = Self::oldest_rows(&mut *connection, &DEAD_LETTERS, OLD_DEAD_LETTERS, before, limit).await?;
        lines.extend(Self::oldest_rows(connection, &WEBHOOK_LETTERS, OLD_WEBHOOK_LETTERS, before, limit).await?);
        lines.sort_by_key(|line| line.since);
        lines.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(ExpiredBatch::from_lines(lines, limit))
    }

    pub(crate) async fn old_reports(
        connection: &mut D::Connection,
        before: Timestamp,
        limit: i64,
    ) -> Result<ExpiredBatch> {
        Ok(ExpiredBatch::from_lines(Self::oldest_rows(connection, &REPORTS, OLD_REPORTS, before, limit).await?, limit))
    }

    async fn oldest_rows(
        connection: &mut D::Connection,
        lines: &'static TableLines,
        statement: &str,
        before: Timestamp,
        limit: i64,
    ) -> Result<Vec<ArchiveLine>> {
        let rows = Self::locked_lines(lines, statement, before.as_millisecond()).bind(limit);
        Ok(rows.try_map(|row| lines.row_line::<D>(&row)).fetch_all(connection).await?)
    }

    fn locked_lines(lines: &TableLines, statement: &str, before: i64) -> Query<'static, D, D::Arguments> {
        query(Self::skip_locked(&lines.select_columns(statement))).bind(before)
    }

    /// For numbered rows. Not archived, because the ledger has the same events and facts, and is archived
    /// itself.
    pub(crate) async fn numbered_rows(
        connection: &mut D::Connection,
        statement: &str,
        before: Timestamp,
        limit: i64,
    ) -> Result<ExpiredBatch> {
        let rows = query_as(Self::skip_locked(statement)).bind(before.as_millisecond()).bind(limit);
        let rows: Vec<(i64,)> = rows.fetch_all(connection).await?;
        let more = i64::try_from(rows.len()).is_ok_and(|count| count >= limit);
        Ok(ExpiredBatch {
            keys: rows.into_iter().map(|(id,)| Value::from(vec![id])).collect(),
            more,
            ..ExpiredBatch::default()
        })
    }

    /// Locks the message, then its digest. This cannot deadlock, because the call waits for no lock.
    pub(crate) async fn old_messages(
        connection: &mut D::Connection,
        before: Timestamp,
        limit: i64,
        with_lines: bool,
    ) -> Result<ExpiredBatch> {
        let found = query_as(Self::skip_locked(OLD_MESSAGES)).bind(before.as_millisecond()).bind(limit);
        let found: Vec<OldMessage> = found.fetch_all(&mut *connection).await?;
        let full = i64::try_from(found.len()).is_ok_and(|count| count >= limit);
        let digests: Vec<_> = found.iter().filter_map(|message| Some(vec![message.digest_id.clone()?])).collect();
        let closed = format!("{}{}", CLOSED_AMONG.replace("{each}", D::EACH_OF_1), D::SKIP_LOCKED);
        let closed = query_as(AssertSqlSafe(closed)).bind(to_json(&digests)?).fetch_all(&mut *connection).await?;
        let closed: BTreeSet<String> = closed.into_iter().map(|(id,): (String,)| id).collect();
        let mut retired = ExpiredBatch::default();
        for OldMessage { id, digest_id, closed_at: since } in found {
            if digest_id.as_ref().is_some_and(|digest| !closed.contains(digest)) {
                continue;
            }
            retired.digests.extend(digest_id.map(|digest| Value::from(vec![digest])));
            let json = if with_lines { Self::message_line(&mut *connection, &id).await? } else { Value::Null };
            retired.push_line(ArchiveLine { key: vec![id].into(), json, since });
        }
        retired.more = full && !retired.keys.is_empty();
        Ok(retired)
    }

    pub(crate) async fn message_line(connection: &mut D::Connection, id: &str) -> Result<Value> {
        let record =
            query(MESSAGE_RECORD).bind(id.to_owned()).try_map(Self::to_record).fetch_one(&mut *connection).await?;
        let message = query(MESSAGE).bind(id.to_owned()).try_map(Self::to_record).fetch_one(&mut *connection).await?;
        let attempts: Vec<_> =
            query(ATTEMPTS).bind(id.to_owned()).try_map(Self::to_record).fetch_all(connection).await?;
        Ok(lines::message_json(&record, message, &attempts))
    }

    /// Locks the selected rows, skipping those locked by another transaction.
    fn skip_locked(statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(format!("{statement}{}", D::SKIP_LOCKED))
    }
}

impl ExpiredBatch {
    fn from_lines(rows: Vec<ArchiveLine>, limit: i64) -> Self {
        let more = i64::try_from(rows.len()).is_ok_and(|count| count >= limit);
        let mut retired = Self { more, ..Self::default() };
        for row in rows {
            retired.push_line(row);
        }
        retired
    }

    fn push_line(&mut self, ArchiveLine { key, json, since }: ArchiveLine) {
        if self.keys.is_empty() {
            self.since = since;
        }
        self.keys.push(key);
        self.lines.push(json.to_string());
    }
}
