//! The events under a digest.

use super::columns::row;
use super::dialect::{Dialect, Variants};
use super::digest::LockedDigest;
use super::{Sql, json, no_nul};
use crate::Result;
use jiff::Timestamp;
use serde::Serialize;
use sqlx::{query, query_as};
use std::collections::BTreeMap;
use tidings_model::limits::BATCH_EVENTS;
use tidings_model::step::{Closed, Planned, Window};
use tidings_model::{Event, Key, records::DigestState};
use uuid::Uuid;

/// Answers with (state, outcome, why) of the digest, new or not, and keeps the row for the transaction. The first words of a plan
/// stay.
pub const OPEN_DIGEST: &str = "
INSERT INTO digests (tenant, digest_type, user_id, digest_id, opened_at, due_at, state, plan_why, cadence, zone)
VALUES ($1, $2, $3, $4, $5, $6, 'open', NULLIF($7, ''), NULLIF($8, ''), NULLIF($9, ''))
ON CONFLICT (digest_id) DO UPDATE SET plan_why = COALESCE(digests.plan_why, excluded.plan_why),
    cadence = COALESCE(digests.cadence, excluded.cadence), zone = COALESCE(digests.zone, excluded.zone)
RETURNING state, outcome, why";

/// The columns of an event that a digest has. [`event_values`] has the last of them.
macro_rules! event_columns {
    () => {
        "tenant, digest_type, user_id, digest_id, recorded_at, event_id, category, entity_type, entity_id, actor, occurred_at,
                    counts, urgent, payload"
    };
}

/// The values of the JSON object `e.value`, an [`EventRow`].
macro_rules! event_values {
    (sqlite) => {
        "e.value->>'event_id', e.value->>'category', e.value->>'entity_type', e.value->>'entity_id', e.value->>'actor',
       e.value->>'occurred_at', e.value->>'counts', e.value->>'urgent', e.value->>'payload'"
    };
    (postgres) => {
        "e.value->>'event_id', e.value->>'category', e.value->>'entity_type', e.value->>'entity_id', e.value->>'actor',
       (e.value->>'occurred_at')::bigint, (e.value->>'counts')::jsonb, (e.value->>'urgent')::boolean,
       (e.value->>'payload')::json"
    };
}
pub(super) use {event_columns, event_values};

/// `$1` digest, `$2` JSON array of events, `$3` now.
pub const INSERT_EVENTS: Variants = Variants {
    sqlite: concat!(
        "
INSERT INTO events (",
        event_columns!(),
        ", returned_at, returns)
SELECT d.tenant, d.digest_type, d.user_id, d.digest_id, $3, ",
        event_values!(sqlite),
        ",
       d.returned_at, CASE WHEN d.returned_at IS NULL THEN 0 ELSE 1 END
FROM digests d CROSS JOIN jsonb_each($2) e
WHERE d.digest_id = $1 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = d.digest_id)
ON CONFLICT DO NOTHING"
    ),
    postgres: concat!(
        "
INSERT INTO events (",
        event_columns!(),
        ", returned_at, returns)
SELECT d.tenant, d.digest_type, d.user_id, d.digest_id, $3, ",
        event_values!(postgres),
        ",
       d.returned_at, CASE WHEN d.returned_at IS NULL THEN 0 ELSE 1 END
FROM digests d CROSS JOIN jsonb_array_elements($2::jsonb) e
WHERE d.digest_id = $1 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = d.digest_id)
ON CONFLICT DO NOTHING"
    ),
};

/// Tenant, digest type, user, `$4` JSON array of ids. Answers with (id, digest, its state) of those in the ledger.
pub const RECORDED_EVENTS: Variants = Variants {
    sqlite: "
SELECT e.event_id, e.digest_id, d.state FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.tenant = $1 AND e.digest_type = $2 AND e.user_id = $3 AND e.event_id IN (SELECT value FROM json_each($4))",
    postgres: "
SELECT e.event_id, e.digest_id, d.state FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.tenant = $1 AND e.digest_type = $2 AND e.user_id = $3
  AND e.event_id = ANY (ARRAY(SELECT jsonb_array_elements_text($4::jsonb)))",
};

impl<D: Dialect> Sql<D> {
    /// Opens the window's digest unless the ledger has it, and writes those events that it has not.
    ///
    /// A message seals the digest, and so does an end, unless it is the `end` that the caller is about to record. A call
    /// whose answer was lost may be repeated after that with more events than it had. Those at the end are not taken, and
    /// the caller keeps them for its next window, which may be the one that the lost task had come to: for one that has an
    /// end, an event in a digest without one is not there yet.
    pub(super) async fn collect(
        connection: &mut D::Connection,
        window: &Window,
        planned: Option<&Planned>,
        events: &[Event],
        end: Option<&Closed>,
        now: Timestamp,
    ) -> Result<LockedDigest> {
        let Window { key, digest_id, opened_at, due_at } = window;
        let Planned { why, cadence, zone } = planned.cloned().unwrap_or_default();
        let row = query_as(OPEN_DIGEST)
            .bind(&key.tenant)
            .bind(&key.digest_type)
            .bind(&key.user)
            .bind(digest_id.to_string())
            .bind(opened_at.as_millisecond())
            .bind(due_at.as_millisecond())
            .bind(no_nul(&why))
            .bind(cadence)
            .bind(zone)
            .fetch_one(&mut *connection)
            .await?;
        let mut locked = LockedDigest::new(row);
        let is_over = locked.closed.is_some() && locked.closed.as_ref() != end;
        for page in events.chunks(BATCH_EVENTS) {
            if !is_over && Self::insert_events(&mut *connection, *digest_id, page, now).await? == page.len() {
                locked.taken += page.len() as u64;
                continue;
            }
            let ids: Vec<_> = page.iter().map(|event| &event.event_id).collect();
            let recorded = Self::recorded(connection, key, json(&ids)?).await?;
            let has_an_end = |state: &DigestState| *state == DigestState::Closed;
            let others = recorded.values().filter(|(digest, state)| digest != digest_id && !has_an_end(state));
            locked.elsewhere.extend(others.map(|(digest, _)| *digest));
            let is_open = locked.closed.is_none();
            let is_there = |id: &&&String| recorded.get(**id).is_some_and(|(_, state)| is_open || has_an_end(state));
            let taken = ids.iter().take_while(is_there).count();
            locked.taken += taken as u64;
            if taken < page.len() {
                break;
            }
        }
        Ok(locked)
    }

    /// Writes a page of events under a digest without a message, and answers with the number of those that the ledger did not have.
    pub(super) async fn insert_events(
        connection: &mut D::Connection,
        digest_id: Uuid,
        page: &[Event],
        now: Timestamp,
    ) -> Result<usize> {
        let rows: Vec<_> = page.iter().map(EventRow::new).collect::<Result<_>>()?;
        let statement = query(D::pick(INSERT_EVENTS)).bind(digest_id.to_string()).bind(json(&rows)?);
        let done = statement.bind(now.as_millisecond()).execute(connection).await?;
        Ok(usize::try_from(D::rows(&done)).unwrap_or(usize::MAX))
    }

    /// Those of the ids (a JSON list) that the key's ledger has, with their digest and its state.
    pub(super) async fn recorded(
        connection: &mut D::Connection,
        key: &Key,
        event_ids: String,
    ) -> Result<BTreeMap<String, (Uuid, DigestState)>> {
        let statement = query_as(D::pick(RECORDED_EVENTS)).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let rows: Vec<RecordedRow> = statement.bind(event_ids).fetch_all(connection).await?;
        Ok(rows.into_iter().map(|row| (row.event_id, (row.digest_id, row.state))).collect())
    }
}

/// An event as the statements take it: what is JSON in a column is text here, so that neither database looks into it.
#[derive(Serialize)]
pub struct EventRow<'a> {
    event_id: &'a str,
    category: &'a str,
    entity_type: &'a str,
    entity_id: &'a str,
    actor: &'a str,
    occurred_at: i64,
    counts: String,
    urgent: bool,
    payload: &'a str,
}

impl<'a> EventRow<'a> {
    pub(super) fn new(event: &'a Event) -> Result<Self> {
        Ok(Self {
            event_id: &event.event_id,
            category: &event.category,
            entity_type: &event.entity_type,
            entity_id: &event.entity_id,
            actor: &event.actor,
            occurred_at: event.occurred_at.as_millisecond(),
            counts: json(&event.counts)?,
            urgent: event.urgent,
            payload: event.payload.text(),
        })
    }
}

row! {
/// Columns of [`RECORDED_EVENTS`].
pub struct RecordedRow {
    event_id: String,
    digest_id: Uuid,
    state: DigestState,
}
}
