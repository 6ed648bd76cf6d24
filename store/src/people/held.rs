//! Rows about a person, page by page, as the archive has them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::{FromRow, query_as};
use tidings_model::{
    EmailAddress, Key,
    records::{Cursor, Listed, Page, Part, RowPlace},
};

use crate::{
    Result,
    retention::lines::{DeadLetterRow, EventRow, Line, ReportRow, RetractRow},
    sql::{
        Sql,
        columns::{Json, row},
        dialect::Dialect,
        json as to_json,
    },
};

/// Tenant, digest type, user. After the time `$4` and the id `$5`; `$6` limit.
pub const DIGESTS_OF_KEY: &str = "
SELECT digest_id, tenant, digest_type, user_id, opened_at, due_at, state, claimed_at, sent_at, closed_at, outcome, why,
       plan_why, cadence, zone, event_count
FROM digests WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND (opened_at, digest_id) > ($4, $5)
ORDER BY opened_at, digest_id LIMIT $6";

/// Tenant, digest type, user. After the id `$4`; `$5` limit.
pub const EVENTS_OF_KEY: &str = "
SELECT e.tenant, e.digest_type, e.user_id, e.event_id, e.digest_id, e.category, e.other_categories, e.entity_type,
       e.entity_id, e.actor, e.occurred_at, CAST(e.counts AS TEXT) AS counts, e.urgent, CAST(e.payload AS TEXT) AS payload, e.recorded_at,
       e.returned_from, d.closed_at
FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.tenant = $1 AND e.digest_type = $2 AND e.user_id = $3 AND e.event_id > $4 ORDER BY e.event_id LIMIT $5";

pub const RETRACTS_OF_KEY: &str = "
SELECT tenant, digest_type, user_id, event_id, category, entity_type, entity_id, until_at, retracted_at
FROM retracts WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 ORDER BY retracted_at, event_id";

/// `$1` workflow. After the number `$2` and the run `$3`; `$4` limit.
pub const DEAD_LETTERS_OF: &str = "
SELECT workflow_id, run_id, seq, reason, encoding, message_type, size, sha256, head, buried_at, emitted_at, emitted_by
FROM dead_letters WHERE workflow_id = $1 AND (seq, run_id) > ($2, $3) ORDER BY seq, run_id LIMIT $4";

/// Tenant, user. Single messages to the user or to no user, after the time `$3` and the id `$4`; `$5` limit.
pub const SINGLE_MESSAGES: &str = "
SELECT id, user_id, envelope_to, created_at FROM messages
WHERE tenant = $1 AND digest_id IS NULL AND user_id IN ($2, '') AND (created_at, id) > ($3, $4)
ORDER BY created_at, id LIMIT $5";

pub const MESSAGES_AMONG: &str = "
SELECT id FROM messages WHERE id IN (SELECT value->>0 FROM {each}) ORDER BY created_at, id";

pub const REPORTS_AMONG: &str = "
SELECT message, event, tenant, address_lower, kind, bounce, status, diagnostic, relay, event_id, occurred_at, received_at,
       never_sent, machine, url
FROM delivery_events WHERE message IN (SELECT value->>0 FROM {each}) ORDER BY message, occurred_at, event";

/// Tenant, address. Those of messages that are gone.
pub const REPORTS_OF_ADDRESS: &str = "
SELECT message, event, tenant, address_lower, kind, bounce, status, diagnostic, relay, event_id, occurred_at, received_at,
       never_sent, machine, url
FROM delivery_events
WHERE tenant = $1 AND address_lower = $2 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = message)
  AND NOT EXISTS (SELECT 1 FROM digests d WHERE d.digest_id = message)
ORDER BY message, occurred_at, event";

/// Tenant, user. After the number `$3`; `$4` limit.
pub const AUDIT_OF: &str = "
SELECT audit_id, acted_at, digest_type, digest_id, message, actor, action, why FROM audit
WHERE tenant = $1 AND audit_id > $3
  AND (user_id = $2 OR message IN (SELECT id FROM messages WHERE tenant = $1 AND user_id = $2 AND digest_id IS NULL))
ORDER BY audit_id LIMIT $4";

/// Tenant, user. After the id `$3`; `$4` limit.
pub const INBOX_OF: &str = "
SELECT id, workflow_id, kind, json, received_at, forwarded_at FROM inbox
WHERE tenant = $1 AND user_id = $2 AND id > $3 ORDER BY id LIMIT $4";

/// Tenant, user. After the number `$3`; `$4` limit.
pub const NOTICES_OF: &str = "
SELECT seq, subscription, event, digest_type, digest_id, message, outcome, reason, occurred_at, tries, result, ended_at
FROM notices WHERE tenant = $1 AND user_id = $2 AND seq > $3 ORDER BY seq LIMIT $4";

/// `$1` workflow. After the job `$2`; `$3` limit.
pub const JOB_RESULTS_OF: &str = "
SELECT job_id, workflow_id, state, answer, problem, ended_at FROM job_keys
WHERE workflow_id = $1 AND job_id > $2 ORDER BY job_id LIMIT $3";

/// `$1` workflow. After the run `$2`; `$3` limit.
pub const TROUBLED_RUNS_OF: &str = "
SELECT workflow_id, run_id, trouble, since, ended_by, why, resolution, resolved_at FROM troubled_runs
WHERE workflow_id = $1 AND run_id > $2 ORDER BY run_id LIMIT $3";

impl<D: Dialect> Sql<D> {
    pub(super) async fn rows_about(
        connection: &mut D::Connection,
        key: &Key,
        addresses: &BTreeSet<String>,
        part: Part,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>> {
        match (part, key.digest_type.as_str()) {
            (Part::Messages, _) => {
                let Listed { rows: ids, next } = Self::messages_about(&mut *connection, key, addresses, page).await?;
                Ok(Listed { rows: Self::message_lines(connection, &ids).await?, next })
            }
            (Part::DeliveryEvents, _) => {
                let Listed { rows: ids, next } = Self::messages_about(&mut *connection, key, addresses, page).await?;
                let reports = query_as(Self::each(REPORTS_AMONG)).bind(to_json(&ids)?).fetch_all(&mut *connection);
                let mut reports: Vec<ReportRow> = reports.await?;
                if key.digest_type.is_empty() && page.after.is_none() {
                    reports.extend(Self::reports_of_gone_messages(connection, key, addresses).await?);
                }
                Ok(Listed { rows: lines(reports), next })
            }
            (Part::Audit, "") => Self::numbered_rows(connection, AUDIT_OF, key, page, AuditLine::place).await,
            (Part::Inbox, "") => Self::numbered_rows(connection, INBOX_OF, key, page, InboxLine::place).await,
            (Part::Notices, "") => Self::numbered_rows(connection, NOTICES_OF, key, page, NoticeLine::place).await,
            (Part::Audit | Part::Inbox | Part::Notices, _) | (_, "") => Ok(Listed { rows: Vec::new(), next: None }),
            (Part::Digests, _) => {
                let rows: Vec<DigestLine> = Self::digest_page(connection, key, page).await?;
                let Listed { rows, next } = page.listed(rows, DigestLine::place);
                Ok(Listed { rows: rows.into_iter().map(Value::from).collect(), next })
            }
            (Part::Events, _) => Self::events_of(connection, key, page).await,
            (Part::Retracts, _) => {
                let rows = query_as(RETRACTS_OF_KEY).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
                let rows: Vec<RetractRow> = rows.fetch_all(connection).await?;
                Ok(Listed { rows: lines(rows), next: None })
            }
            (Part::DeadLetters, _) => Self::dead_letters_of(connection, key, page).await,
            (Part::JobResults, _) => {
                Self::rows_of_workflow(connection, JOB_RESULTS_OF, key, page, JobResultLine::place).await
            }
            (Part::TroubledRuns, _) => {
                Self::rows_of_workflow(connection, TROUBLED_RUNS_OF, key, page, TroubledRunLine::place).await
            }
        }
    }

    /// A page of the digests of a key.
    pub(super) async fn digest_page(
        connection: &mut D::Connection,
        key: &Key,
        page: &Page<RowPlace>,
    ) -> Result<Vec<DigestLine>> {
        let (at, id) = after(page);
        let rows = query_as(DIGESTS_OF_KEY).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        Ok(rows.bind(at).bind(id).bind(page.rows_to_read()).fetch_all(connection).await?)
    }

    /// Ids in lists of their own: of the key's digests, which are those of their messages, or of single messages.
    pub(crate) async fn messages_about(
        connection: &mut D::Connection,
        key: &Key,
        addresses: &BTreeSet<String>,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>> {
        if !key.digest_type.is_empty() {
            let digests = page.listed(Self::digest_page(connection, key, page).await?, DigestLine::place);
            let ids = digests.rows.into_iter().map(|digest| Value::from(vec![digest.digest_id]));
            return Ok(Listed { rows: ids.collect(), next: digests.next });
        }
        let (at, id) = after(page);
        let rows = query_as(SINGLE_MESSAGES).bind(&key.tenant).bind(&key.user).bind(at).bind(id);
        let rows: Vec<SingleRow> = rows.bind(page.rows_to_read()).fetch_all(connection).await?;
        let Listed { rows, next } =
            page.listed(rows, |last: &SingleRow| (last.created_at.as_millisecond(), last.id.clone()));
        let theirs =
            |row: &SingleRow| row.user_id == key.user || addresses.contains(&EmailAddress::folded(&row.envelope_to));
        Ok(Listed { rows: rows.into_iter().filter(theirs).map(|row| vec![row.id].into()).collect(), next })
    }

    async fn message_lines(connection: &mut D::Connection, ids: &[Value]) -> Result<Vec<Value>> {
        let ids = query_as(Self::each(MESSAGES_AMONG)).bind(to_json(&ids)?).fetch_all(&mut *connection);
        let ids: Vec<(String,)> = ids.await?;
        let mut lines = Vec::new();
        for (id,) in ids {
            lines.push(Self::message_line(&mut *connection, &id).await?);
        }
        Ok(lines)
    }

    async fn reports_of_gone_messages(
        connection: &mut D::Connection,
        key: &Key,
        addresses: &BTreeSet<String>,
    ) -> Result<Vec<ReportRow>> {
        let mut reports = Vec::new();
        for address in addresses {
            let rows = query_as(REPORTS_OF_ADDRESS).bind(&key.tenant).bind(address).fetch_all(&mut *connection);
            let rows: Vec<ReportRow> = rows.await?;
            reports.extend(rows);
        }
        Ok(reports)
    }

    async fn events_of(
        connection: &mut D::Connection,
        key: &Key,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>> {
        let rows = query_as(EVENTS_OF_KEY).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let rows: Vec<EventRow> = rows.bind(after(page).1).bind(page.rows_to_read()).fetch_all(connection).await?;
        let Listed { rows, next } = page.listed(rows, |last: &EventRow| (0, last.event_id.clone()));
        Ok(Listed { rows: lines(rows), next })
    }

    async fn dead_letters_of(
        connection: &mut D::Connection,
        key: &Key,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>> {
        let (seq, run) = after(page);
        let rows = query_as(DEAD_LETTERS_OF).bind(key.workflow_id()).bind(seq).bind(run).bind(page.rows_to_read());
        let rows: Vec<DeadLetterRow> = rows.fetch_all(connection).await?;
        let Listed { rows, next } = page.listed(rows, |last: &DeadLetterRow| (last.seq, last.run_id.clone()));
        Ok(Listed { rows: lines(rows), next })
    }

    /// Rows of the person by their number.
    async fn numbered_rows<R>(
        connection: &mut D::Connection,
        statement: &'static str,
        key: &Key,
        page: &Page<RowPlace>,
        place: fn(&R) -> RowPlace,
    ) -> Result<Listed<Value, RowPlace>>
    where
        R: for<'r> FromRow<'r, D::Row> + Into<Value> + Send + Unpin,
    {
        let rows = query_as(statement).bind(&key.tenant).bind(&key.user).bind(after(page).0).bind(page.rows_to_read());
        let rows: Vec<R> = rows.fetch_all(connection).await?;
        let Listed { rows, next } = page.listed(rows, place);
        Ok(Listed { rows: rows.into_iter().map(Into::into).collect(), next })
    }

    /// Rows of the key's workflow by their id.
    async fn rows_of_workflow<R>(
        connection: &mut D::Connection,
        statement: &'static str,
        key: &Key,
        page: &Page<RowPlace>,
        place: fn(&R) -> RowPlace,
    ) -> Result<Listed<Value, RowPlace>>
    where
        R: for<'r> FromRow<'r, D::Row> + Into<Value> + Send + Unpin,
    {
        let rows = query_as(statement).bind(key.workflow_id()).bind(after(page).1).bind(page.rows_to_read());
        let rows: Vec<R> = rows.fetch_all(connection).await?;
        let Listed { rows, next } = page.listed(rows, place);
        Ok(Listed { rows: rows.into_iter().map(Into::into).collect(), next })
    }
}

/// The place after which a page begins. Each number and time of a row is larger than that of the first page.
fn after(page: &Page<RowPlace>) -> RowPlace {
    page.after.clone().map_or((i64::MIN, String::new()), |Cursor(place)| place)
}

fn lines(rows: Vec<impl Into<Line>>) -> Vec<Value> {
    rows.into_iter().map(|row| row.into().json).collect()
}

row! {
/// Columns of [`DIGESTS_OF_KEY`].
pub struct DigestLine {
    digest_id: String,
    tenant: String,
    digest_type: String,
    user_id: String,
    opened_at: Timestamp,
    due_at: Timestamp,
    state: String,
    claimed_at: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    outcome: Option<String>,
    why: Option<String>,
    plan_why: Option<String>,
    cadence: Option<String>,
    zone: Option<String>,
    event_count: Option<i64>,
}
}

impl DigestLine {
    pub(super) fn place(&self) -> RowPlace {
        (self.opened_at.as_millisecond(), self.digest_id.clone())
    }
}

impl From<DigestLine> for Value {
    fn from(row: DigestLine) -> Self {
        json!({
            "kind": "digest", "digest_id": row.digest_id, "tenant": row.tenant, "digest_type": row.digest_type,
            "user": row.user_id, "opened_at": row.opened_at, "due_at": row.due_at, "state": row.state,
            "claimed_at": row.claimed_at, "sent_at": row.sent_at, "closed_at": row.closed_at, "outcome": row.outcome,
            "why": row.why, "plan_why": row.plan_why, "cadence": row.cadence, "zone": row.zone,
            "event_count": row.event_count,
        })
    }
}

row! {
/// Columns of [`SINGLE_MESSAGES`].
pub struct SingleRow {
    id: String,
    user_id: String,
    envelope_to: String,
    created_at: Timestamp,
}
}

row! {
/// Columns of [`AUDIT_OF`].
pub struct AuditLine {
    audit_id: i64,
    acted_at: Timestamp,
    digest_type: String,
    digest_id: Option<String>,
    message: Option<String>,
    actor: String,
    action: String,
    why: String,
}
}

impl AuditLine {
    fn place(&self) -> RowPlace {
        (self.audit_id, String::new())
    }
}

impl From<AuditLine> for Value {
    fn from(row: AuditLine) -> Self {
        json!({
            "kind": "audit", "acted_at": row.acted_at, "digest_type": row.digest_type, "digest_id": row.digest_id,
            "message": row.message, "actor": row.actor, "action": row.action, "why": row.why,
        })
    }
}

row! {
/// Columns of [`INBOX_OF`].
pub struct InboxLine {
    id: i64,
    workflow_id: String,
    kind: String,
    json: Json<Value>,
    received_at: Timestamp,
    forwarded_at: Option<Timestamp>,
}
}

impl InboxLine {
    fn place(&self) -> RowPlace {
        (self.id, String::new())
    }
}

impl From<InboxLine> for Value {
    fn from(row: InboxLine) -> Self {
        json!({
            "kind": row.kind, "workflow_id": row.workflow_id, "json": row.json.0, "received_at": row.received_at,
            "forwarded_at": row.forwarded_at,
        })
    }
}

row! {
/// Columns of [`NOTICES_OF`].
pub struct NoticeLine {
    seq: i64,
    subscription: String,
    event: String,
    digest_type: String,
    digest_id: Option<String>,
    message: Option<String>,
    outcome: Option<String>,
    reason: Option<String>,
    occurred_at: Timestamp,
    tries: i64,
    result: Option<String>,
    ended_at: Option<Timestamp>,
}
}

impl NoticeLine {
    fn place(&self) -> RowPlace {
        (self.seq, String::new())
    }
}

impl From<NoticeLine> for Value {
    fn from(row: NoticeLine) -> Self {
        json!({
            "kind": "notice", "subscription": row.subscription, "event": row.event, "digest_type": row.digest_type,
            "digest_id": row.digest_id, "message": row.message, "outcome": row.outcome, "reason": row.reason,
            "occurred_at": row.occurred_at, "tries": row.tries, "result": row.result, "ended_at": row.ended_at,
        })
    }
}

row! {
/// Columns of [`JOB_RESULTS_OF`].
pub struct JobResultLine {
    job_id: String,
    workflow_id: String,
    state: String,
    answer: Option<Json<Value>>,
    problem: Option<String>,
    ended_at: Option<Timestamp>,
}
}

impl JobResultLine {
    fn place(&self) -> RowPlace {
        (0, self.job_id.clone())
    }
}

impl From<JobResultLine> for Value {
    fn from(row: JobResultLine) -> Self {
        let answer = row.answer.map(|answer| answer.0);
        json!({
            "kind": "job_result", "job": row.job_id, "workflow_id": row.workflow_id, "state": row.state, "answer": answer,
            "problem": row.problem, "ended_at": row.ended_at,
        })
    }
}

row! {
/// Columns of [`TROUBLED_RUNS_OF`].
pub struct TroubledRunLine {
    workflow_id: String,
    run_id: String,
    trouble: String,
    since: Timestamp,
    ended_by: Option<String>,
    why: Option<String>,
    resolution: Option<String>,
    resolved_at: Option<Timestamp>,
}
}

impl TroubledRunLine {
    fn place(&self) -> RowPlace {
        (0, self.run_id.clone())
    }
}

impl From<TroubledRunLine> for Value {
    fn from(row: TroubledRunLine) -> Self {
        json!({
            "kind": "troubled_run", "workflow_id": row.workflow_id, "run_id": row.run_id, "trouble": row.trouble,
            "since": row.since, "ended_by": row.ended_by, "why": row.why, "resolution": row.resolution,
            "resolved_at": row.resolved_at,
        })
    }
}
