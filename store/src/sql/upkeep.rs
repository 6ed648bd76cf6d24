//! What is older than its retention leaves the store: a batch is one transaction, which locks its rows, has them archived,
//! and deletes them.
//!
//! It waits for nobody's lock, so that it can stand in nobody's way for long: what another call works on is left for later.
//! A digest whose events or message are gone is marked, and no reopen sends half of it.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::{AssertSqlSafe, query, query_as};
use tidings_model::retention::{Cutoff, Kind, Purged};

use super::{
    Dialect, Sql,
    columns::row,
    json,
    retired::{self, EventRow, LetterRow, Line, ReportRow, RetractRow},
    statements,
};
use crate::{
    Result,
    archive::{Archive, Batch},
};

/// Rows that are going to be deleted, the oldest first.
#[derive(Default)]
pub(super) struct Retired {
    /// The primary keys.
    keys: Vec<Value>,
    lines: Vec<String>,
    /// What the age of the first counts from.
    since: Timestamp,
    /// Digests that lose something.
    digests: Vec<Value>,
    /// Digests that were looked at for events.
    visited: Vec<Value>,
    /// There may be more.
    more: bool,
}

row! {
/// Columns of [`OLD_MESSAGES`](statements::OLD_MESSAGES).
struct OldMessage {
    id: String,
    digest_id: Option<String>,
    closed_at: Timestamp,
}
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn count_expired(&self, Cutoff { kind, before }: Cutoff) -> Result<u64> {
        let statement = match kind {
            Kind::Events => statements::COUNT_OLD_EVENTS,
            Kind::Retracts => statements::COUNT_OLD_RETRACTS,
            Kind::DeadLetters => statements::COUNT_OLD_LETTERS,
            Kind::Messages => statements::COUNT_OLD_MESSAGES,
            Kind::DeliveryEvents => statements::COUNT_OLD_REPORTS,
        };
        let (count,): (i64,) = query_as(statement).bind(before.as_millisecond()).fetch_one(&self.reader).await?;
        super::number(count)
    }

    pub(super) async fn purge_batch(
        &self,
        Cutoff { kind, before }: Cutoff,
        limit: u32,
        archive: Option<&Archive>,
        now: Timestamp,
    ) -> Result<Purged> {
        let mut tx = self.write().await?;
        let limit = i64::from(limit);
        let mut retired = match kind {
            Kind::Events => Self::old_events(&mut tx, before, limit).await?,
            Kind::Retracts => Self::old_retracts(&mut tx, before, limit).await?,
            Kind::DeadLetters => Self::old_letters(&mut tx, before, limit).await?,
            Kind::Messages => Self::old_messages(&mut tx, before, limit, archive.is_some()).await?,
            Kind::DeliveryEvents => Self::old_reports(&mut tx, before, limit).await?,
        };
        let purged = retired.keys.len() as u64;
        let prepared = match archive {
            Some(archive) if purged > 0 => {
                let lines = std::mem::take(&mut retired.lines);
                Some(archive.prepare(Batch { kind, since: retired.since, lines }).await?)
            }
            _ => None,
        };
        // Before the file gets its name: a connection that broke meanwhile has lost its locks, and somebody else its rows.
        Self::delete(&mut tx, kind, &retired).await?;
        Self::mark(&mut tx, &retired, now).await?;
        let archived = if prepared.is_some() { purged } else { 0 };
        if let Some(prepared) = prepared {
            prepared.publish().await?;
        }
        tx.commit().await?;
        Ok(Purged { purged, archived, more: retired.more })
    }

    /// Whole digests as far as they fit. Those whose events wait for the key's next claim are left alone.
    async fn old_events(connection: &mut D::Connection, before: Timestamp, limit: i64) -> Result<Retired> {
        let digests = Self::locked(statements::OLD_DIGESTS);
        let digests = query_as(digests).bind(before.as_millisecond()).bind(limit);
        let digests: Vec<(String,)> = digests.fetch_all(&mut *connection).await?;
        let visited: Vec<_> = digests.into_iter().map(|(id,)| Value::from(vec![id])).collect();
        let events = Self::each(statements::EVENTS_OF_DIGESTS);
        let rows = query_as(events).bind(json(&visited)?).bind(limit).fetch_all(connection).await?;
        let rows: Vec<EventRow> = rows;
        let full = |count: usize| i64::try_from(count).is_ok_and(|count| count >= limit);
        let mut retired = Retired { more: full(visited.len()) || full(rows.len()), visited, ..Retired::default() };
        for row in rows {
            let digest = Value::from(vec![row.digest_id.clone()]);
            if retired.digests.last() != Some(&digest) {
                retired.digests.push(digest);
            }
            retired.add(row.into());
        }
        Ok(retired)
    }

    async fn old_retracts(connection: &mut D::Connection, before: Timestamp, limit: i64) -> Result<Retired> {
        let rows = query_as(Self::locked(statements::OLD_RETRACTS)).bind(before.as_millisecond()).bind(limit);
        let rows: Vec<RetractRow> = rows.fetch_all(connection).await?;
        Ok(Retired::of(rows, limit))
    }

    async fn old_letters(connection: &mut D::Connection, before: Timestamp, limit: i64) -> Result<Retired> {
        let rows = query_as(Self::locked(statements::OLD_LETTERS)).bind(before.as_millisecond()).bind(limit);
        let rows: Vec<LetterRow> = rows.fetch_all(connection).await?;
        Ok(Retired::of(rows, limit))
    }

    async fn old_reports(connection: &mut D::Connection, before: Timestamp, limit: i64) -> Result<Retired> {
        let rows = query_as(Self::locked(statements::OLD_REPORTS)).bind(before.as_millisecond()).bind(limit);
        let rows: Vec<ReportRow> = rows.fetch_all(connection).await?;
        Ok(Retired::of(rows, limit))
    }

    /// The message is locked first here, and its digest then. As nobody is waited for, that is no deadlock.
    async fn old_messages(
        connection: &mut D::Connection,
        before: Timestamp,
        limit: i64,
        with_lines: bool,
    ) -> Result<Retired> {
        let found = query_as(Self::locked(statements::OLD_MESSAGES)).bind(before.as_millisecond()).bind(limit);
        let found: Vec<OldMessage> = found.fetch_all(&mut *connection).await?;
        let full = i64::try_from(found.len()).is_ok_and(|count| count >= limit);
        let digests: Vec<_> = found.iter().filter_map(|message| Some(vec![message.digest_id.clone()?])).collect();
        let closed = format!("{}{}", statements::CLOSED_AMONG.replace("{each}", D::EACH_OF_1), D::SKIP_LOCKED);
        let closed = query_as(AssertSqlSafe(closed)).bind(json(&digests)?).fetch_all(&mut *connection).await?;
        let closed: std::collections::BTreeSet<String> = closed.into_iter().map(|(id,): (String,)| id).collect();
        let mut retired = Retired::default();
        for OldMessage { id, digest_id, closed_at: since } in found {
            if digest_id.as_ref().is_some_and(|digest| !closed.contains(digest)) {
                continue;
            }
            retired.digests.extend(digest_id.map(|digest| Value::from(vec![digest])));
            let json = if with_lines { Self::message_line(&mut *connection, &id).await? } else { Value::Null };
            retired.add(Line { key: vec![id].into(), json, since });
        }
        // Of messages that others work on, some may be left: the next upkeep finds them.
        retired.more = full && !retired.keys.is_empty();
        Ok(retired)
    }

    async fn message_line(connection: &mut D::Connection, id: &str) -> Result<Value> {
        let record = query_as(statements::MESSAGE_RECORD).bind(id.to_owned()).fetch_one(&mut *connection).await?;
        let message = query_as(statements::MESSAGE).bind(id.to_owned()).fetch_one(&mut *connection).await?;
        let attempts = query_as(statements::ATTEMPTS).bind(id.to_owned()).fetch_all(connection).await?;
        Ok(retired::message(record, message, attempts))
    }

    async fn delete(connection: &mut D::Connection, kind: Kind, retired: &Retired) -> Result<()> {
        let statements: &[&str] = match kind {
            Kind::Events => &[statements::DELETE_EVENTS],
            Kind::Retracts => &[statements::DELETE_RETRACTS],
            Kind::DeadLetters => &[statements::DELETE_LETTERS],
            Kind::Messages => &[statements::DELETE_ATTEMPTS, statements::DELETE_MESSAGES],
            Kind::DeliveryEvents => &[statements::DELETE_REPORTS],
        };
        if !retired.keys.is_empty() {
            for statement in statements {
                query(Self::each(statement)).bind(json(&retired.keys)?).execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    async fn mark(connection: &mut D::Connection, retired: &Retired, now: Timestamp) -> Result<()> {
        for (statement, digests) in
            [(statements::MARK_PURGED, &retired.digests), (statements::MARK_EMPTIED, &retired.visited)]
        {
            if !digests.is_empty() {
                let mark = query(Self::each(statement)).bind(json(digests)?).bind(now.as_millisecond());
                mark.execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    /// The statement, whose rows are ours from then on. Those that are somebody else's are left out.
    fn locked(statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(format!("{statement}{}", D::SKIP_LOCKED))
    }

    /// The statement, with `{each}` the rows of the JSON array `$1`.
    fn each(statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.replace("{each}", D::EACH_OF_1))
    }
}

impl Retired {
    fn of(rows: Vec<impl Into<Line>>, limit: i64) -> Self {
        let more = i64::try_from(rows.len()).is_ok_and(|count| count >= limit);
        let mut retired = Self { more, ..Self::default() };
        for row in rows {
            retired.add(row.into());
        }
        retired
    }

    fn add(&mut self, Line { key, json, since }: Line) {
        if self.keys.is_empty() {
            self.since = since;
        }
        self.keys.push(key);
        self.lines.push(json.to_string());
    }
}
