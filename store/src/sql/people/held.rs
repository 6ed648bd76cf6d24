//! Rows about a person, page by page, as the archive has them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::query_as;
use tidings_model::records::{Cursor, Listed, Page, Part, RowPlace};
use tidings_model::{EmailAddress, Key};

use super::super::columns::row;
use super::super::dialect::Dialect;
use super::super::retention::lines::{DeadLetterRow, EventRow, Line, ReportRow, RetractRow};
use super::super::{Sql, json as to_json};
use crate::Result;

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
            (Part::Audit, "") => Self::audit_about(connection, key, page).await,
            (Part::Audit, _) | (_, "") => Ok(Listed { rows: Vec::new(), next: None }),
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
    pub(in crate::sql) async fn messages_about(
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

    async fn audit_about(
        connection: &mut D::Connection,
        key: &Key,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>> {
        let rows = query_as(AUDIT_OF).bind(&key.tenant).bind(&key.user).bind(after(page).0).bind(page.rows_to_read());
        let rows: Vec<AuditLine> = rows.fetch_all(connection).await?;
        let Listed { rows, next } = page.listed(rows, |last: &AuditLine| (last.audit_id, String::new()));
        Ok(Listed { rows: rows.into_iter().map(Value::from).collect(), next })
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

impl From<AuditLine> for Value {
    fn from(row: AuditLine) -> Self {
        json!({
            "kind": "audit", "acted_at": row.acted_at, "digest_type": row.digest_type, "digest_id": row.digest_id,
            "message": row.message, "actor": row.actor, "action": row.action, "why": row.why,
        })
    }
}
