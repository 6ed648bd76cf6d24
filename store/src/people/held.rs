//! Rows about a person by page, in the archive's format.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::{AssertSqlSafe, query, query::Query, query_as};
use tidings_model::{
    EmailAddress, Key,
    records::{ListPage, PageCursor, PageRequest, PersonRowKind, RowPlace},
};

use crate::{
    Result,
    lines::{
        AUDIT, DEAD_LETTERS, DIGESTS, EVENTS, INBOX, JOB_RESULTS, NOTICES, REPORTS, RETRACTS, TROUBLED_RUNS, TableLines,
    },
    sql::{SqlStore, columns::row, dialect::Dialect, to_json},
};

pub const DIGESTS_OF_KEY: &str = "
SELECT {columns} FROM digests WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND (opened_at, digest_id) > ($4, $5)
ORDER BY opened_at, digest_id LIMIT $6";

pub const DIGEST_IDS_OF_KEY: &str = "
SELECT opened_at, digest_id FROM digests WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND (opened_at, digest_id) > ($4, $5)
ORDER BY opened_at, digest_id LIMIT $6";

pub const EVENTS_OF_KEY: &str = "
SELECT {columns} FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.tenant = $1 AND e.digest_type = $2 AND e.user_id = $3 AND e.event_id > $4 ORDER BY e.event_id LIMIT $5";

pub const RETRACTS_OF_KEY: &str = "
SELECT {columns} FROM retracts WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 ORDER BY retracted_at, event_id";

pub const DEAD_LETTERS_OF: &str = "
SELECT {columns} FROM dead_letters WHERE workflow_id = $1 AND (seq, run_id) > ($2, $3) ORDER BY seq, run_id LIMIT $4";

pub const SINGLE_MESSAGES: &str = "
SELECT id, user_id, envelope_to, created_at FROM messages
WHERE tenant = $1 AND digest_id IS NULL AND user_id IN ($2, '') AND (created_at, id) > ($3, $4)
ORDER BY created_at, id LIMIT $5";

pub const MESSAGES_AMONG: &str = "
SELECT id FROM messages WHERE id IN (SELECT value->>0 FROM {each}) ORDER BY created_at, id";

pub const REPORTS_AMONG: &str = "
SELECT {columns} FROM delivery_events WHERE message IN (SELECT value->>0 FROM {each}) ORDER BY message, occurred_at, event";

pub const REPORTS_OF_ADDRESS: &str = "
SELECT {columns} FROM delivery_events
WHERE tenant = $1 AND address_lower = $2 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = message)
  AND NOT EXISTS (SELECT 1 FROM digests d WHERE d.digest_id = message)
ORDER BY message, occurred_at, event";

pub const AUDIT_OF: &str = "
SELECT {columns} FROM audit WHERE tenant = $1 AND audit_id > $3
  AND (user_id = $2 OR message IN (SELECT id FROM messages WHERE tenant = $1 AND user_id = $2 AND digest_id IS NULL))
ORDER BY audit_id LIMIT $4";

pub const INBOX_OF: &str = "
SELECT {columns} FROM inbox WHERE tenant = $1 AND user_id = $2 AND id > $3 ORDER BY id LIMIT $4";

pub const NOTICES_OF: &str = "
SELECT {columns} FROM notices WHERE tenant = $1 AND user_id = $2 AND seq > $3 ORDER BY seq LIMIT $4";

pub const JOB_RESULTS_OF: &str = "
SELECT {columns} FROM job_keys WHERE workflow_id = $1 AND job_id > $2 ORDER BY job_id LIMIT $3";

pub const TROUBLED_RUNS_OF: &str = "
SELECT {columns} FROM troubled_runs WHERE workflow_id = $1 AND run_id > $2 ORDER BY run_id LIMIT $3";

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn rows_about(
        connection: &mut D::Connection,
        key: &Key,
        addresses: &BTreeSet<String>,
        part: PersonRowKind,
        page: &PageRequest<RowPlace>,
    ) -> Result<ListPage<Value, RowPlace>> {
        let of_key = |lines: &TableLines, statement| {
            Self::lines_query(lines, statement).bind(&key.tenant).bind(&key.digest_type).bind(&key.user)
        };
        let of_person =
            |lines: &TableLines, statement| Self::lines_query(lines, statement).bind(&key.tenant).bind(&key.user);
        let of_workflow = |lines: &TableLines, statement| Self::lines_query(lines, statement).bind(key.workflow_id());
        let (number, text) = place_after(page);
        let (lines, rows) = match (part, key.digest_type.as_str()) {
            (PersonRowKind::Messages, _) => {
                let ListPage { rows: ids, next } = Self::messages_about(&mut *connection, key, addresses, page).await?;
                return Ok(ListPage { rows: Self::message_lines(connection, &ids).await?, next });
            }
            (PersonRowKind::DeliveryEvents, _) => {
                let ListPage { rows: ids, next } = Self::messages_about(&mut *connection, key, addresses, page).await?;
                let reports = query(Self::expand_each(&REPORTS.select_columns(REPORTS_AMONG))).bind(to_json(&ids)?);
                let mut rows = Self::all_lines(&mut *connection, &REPORTS, reports).await?;
                if key.digest_type.is_empty() && page.after.is_none() {
                    for address in addresses {
                        let gone = Self::lines_query(&REPORTS, REPORTS_OF_ADDRESS).bind(&key.tenant).bind(address);
                        rows.extend(Self::all_lines(&mut *connection, &REPORTS, gone).await?);
                    }
                }
                return Ok(ListPage { rows, next });
            }
            (PersonRowKind::Audit, "") => (&AUDIT, of_person(&AUDIT, AUDIT_OF).bind(number)),
            (PersonRowKind::Inbox, "") => (&INBOX, of_person(&INBOX, INBOX_OF).bind(number)),
            (PersonRowKind::Notices, "") => (&NOTICES, of_person(&NOTICES, NOTICES_OF).bind(number)),
            (PersonRowKind::Audit | PersonRowKind::Inbox | PersonRowKind::Notices, _) | (_, "") => {
                return Ok(ListPage { rows: Vec::new(), next: None });
            }
            (PersonRowKind::Digests, _) => (&DIGESTS, of_key(&DIGESTS, DIGESTS_OF_KEY).bind(number).bind(text)),
            (PersonRowKind::Events, _) => (&EVENTS, of_key(&EVENTS, EVENTS_OF_KEY).bind(text)),
            (PersonRowKind::Retracts, _) => {
                let rows = Self::all_lines(connection, &RETRACTS, of_key(&RETRACTS, RETRACTS_OF_KEY)).await?;
                return Ok(ListPage { rows, next: None });
            }
            (PersonRowKind::DeadLetters, _) => {
                (&DEAD_LETTERS, of_workflow(&DEAD_LETTERS, DEAD_LETTERS_OF).bind(number).bind(text))
            }
            (PersonRowKind::JobResults, _) => (&JOB_RESULTS, of_workflow(&JOB_RESULTS, JOB_RESULTS_OF).bind(text)),
            (PersonRowKind::TroubledRuns, _) => {
                (&TROUBLED_RUNS, of_workflow(&TROUBLED_RUNS, TROUBLED_RUNS_OF).bind(text))
            }
        };
        let rows =
            rows.bind(page.rows_to_read()).try_map(|row| Ok((lines.row_place::<D>(&row)?, lines.row_json::<D>(&row)?)));
        let ListPage { rows, next } = page.build_page(rows.fetch_all(connection).await?, |(place, _)| place.clone());
        Ok(ListPage { rows: rows.into_iter().map(|(_, line)| line).collect(), next })
    }

    fn lines_query(lines: &TableLines, statement: &str) -> Query<'static, D, D::Arguments> {
        query(AssertSqlSafe(lines.select_columns(statement)))
    }

    async fn all_lines(
        connection: &mut D::Connection,
        lines: &'static TableLines,
        rows: Query<'_, D, D::Arguments>,
    ) -> Result<Vec<Value>> {
        Ok(rows.try_map(|row| lines.row_json::<D>(&row)).fetch_all(connection).await?)
    }

    /// Message ids, each in its own list: for a key its digests' ids (their messages have the same),
    /// otherwise the ids of single messages.
    pub(crate) async fn messages_about(
        connection: &mut D::Connection,
        key: &Key,
        addresses: &BTreeSet<String>,
        page: &PageRequest<RowPlace>,
    ) -> Result<ListPage<Value, RowPlace>> {
        let (at, id) = place_after(page);
        if !key.digest_type.is_empty() {
            let rows = query_as(DIGEST_IDS_OF_KEY).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            let rows: Vec<RowPlace> = rows.bind(at).bind(id).bind(page.rows_to_read()).fetch_all(connection).await?;
            let ListPage { rows, next } = page.build_page(rows, RowPlace::clone);
            return Ok(ListPage { rows: rows.into_iter().map(|(_, id)| vec![id].into()).collect(), next });
        }
        let rows = query_as(SINGLE_MESSAGES).bind(&key.tenant).bind(&key.user).bind(at).bind(id);
        let rows: Vec<SingleRow> = rows.bind(page.rows_to_read()).fetch_all(connection).await?;
        let ListPage { rows, next } =
            page.build_page(rows, |last: &SingleRow| (last.created_at.as_millisecond(), last.id.clone()));
        let theirs = |row: &SingleRow| {
            row.user_id == key.user || addresses.contains(&EmailAddress::normalize_address(&row.envelope_to))
        };
        Ok(ListPage { rows: rows.into_iter().filter(theirs).map(|row| vec![row.id].into()).collect(), next })
    }

    async fn message_lines(connection: &mut D::Connection, ids: &[Value]) -> Result<Vec<Value>> {
        let ids = query_as(Self::expand_each(MESSAGES_AMONG)).bind(to_json(&ids)?).fetch_all(&mut *connection);
        let ids: Vec<(String,)> = ids.await?;
        let mut lines = Vec::new();
        for (id,) in ids {
            lines.push(Self::message_line(&mut *connection, &id).await?);
        }
        Ok(lines)
    }
}

/// The default is smaller than any number or time in a row.
fn place_after(page: &PageRequest<RowPlace>) -> RowPlace {
    page.after.clone().map_or((i64::MIN, String::new()), |PageCursor(place)| place)
}

row! {
pub struct SingleRow {
    id: String,
    user_id: String,
    envelope_to: String,
    created_at: Timestamp,
}
}
