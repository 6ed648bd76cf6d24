//! A digest's events.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{FromRow as _, query, query_as};
use tidings_model::{
    Event, EventContent, EventFate, EventRepetition, Key, RecordedContent,
    limits::BATCH_EVENTS,
    records::DigestState,
    window::{PlanSummary, Window, WindowEnd},
};
use uuid::Uuid;

use crate::{
    Result,
    digest::LockedDigest,
    names::{has_other_names, names, of_name},
    sql::{
        SqlStore,
        columns::{JsonColumn, column, record, row},
        dialect::{Dialect, StatementVariants},
        no_nul, to_json,
    },
};

macro_rules! open_digest {
    ($first:expr, $from:literal) => {
        concat!(
            $first,
            "
INSERT INTO digests (tenant, digest_type, user_id, digest_id, opened_at, due_at, state, plan_why, cadence, zone)
SELECT $1, $2, $3, $4, $5, $6, 'open', NULLIF($7, ''), NULLIF($8, ''), NULLIF($9, '') ",
            $from,
            "
ON CONFLICT (digest_id) DO UPDATE SET plan_why = COALESCE(digests.plan_why, excluded.plan_why),
    cadence = COALESCE(digests.cadence, excluded.cadence), zone = COALESCE(digests.zone, excluded.zone)
RETURNING state, outcome, why"
        )
    };
}

/// Returns (state, outcome, why) of the digest, new or not, and locks the row. Keeps the first plan's reason.
/// With equivalent names, only one transaction per user gets past here at a time, so each sees the previous
/// one's events.
pub const OPEN_DIGEST: StatementVariants = StatementVariants {
    sqlite: open_digest!("", "WHERE TRUE"),
    postgres: open_digest!(
        concat!(
            "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($3, 0)) WHERE ",
            has_other_names!(),
            ")"
        ),
        "FROM (SELECT COUNT(*) FROM turn) one"
    ),
};

macro_rules! event_columns {
    () => {
        "tenant, digest_type, user_id, digest_id, recorded_at, event_id, category, entity_type, entity_id, actor, occurred_at,
                    counts, urgent, payload, content_sha256, other_categories"
    };
}

/// The values from `e.value`, an [`EventRow`] in JSON.
macro_rules! event_values {
    (sqlite) => {
        "e.value->>'event_id', e.value->>'category', e.value->>'entity_type', e.value->>'entity_id', e.value->>'actor',
       e.value->>'occurred_at', e.value->>'counts', e.value->>'urgent', e.value->>'payload', e.value->>'content_sha256',
       e.value->>'other_categories'"
    };
    (postgres) => {
        "e.value->>'event_id', e.value->>'category', e.value->>'entity_type', e.value->>'entity_id', e.value->>'actor',
       (e.value->>'occurred_at')::bigint, (e.value->>'counts')::jsonb, (e.value->>'urgent')::boolean,
       (e.value->>'payload')::json, e.value->>'content_sha256', e.value->>'other_categories'"
    };
}

macro_rules! recorded_event {
    () => {
        "
SELECT event_id, category, other_categories, entity_type, entity_id, actor, occurred_at, CAST(counts AS TEXT) AS counts, urgent,
       CAST(payload AS TEXT) AS payload
FROM events"
    };
}
pub(crate) use {event_columns, event_values, recorded_event};

macro_rules! insert_events {
    ($dialect:ident, $each:literal) => {
        concat!(
            "WITH",
            names!(),
            "
INSERT INTO events (",
            event_columns!(),
            ", returned_at, returns)
SELECT d.tenant, d.digest_type, d.user_id, d.digest_id, $5, ",
            event_values!($dialect),
            ",
       d.returned_at, CASE WHEN d.returned_at IS NULL THEN 0 ELSE 1 END
FROM digests d CROSS JOIN ",
            $each,
            " e
WHERE d.digest_id = $3 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = d.digest_id)
  AND NOT EXISTS (SELECT 1 FROM names k CROSS JOIN events o
                  WHERE NOT (k.tenant = $1 AND k.digest_type = $2) AND ",
            of_name!("o", "d.user_id"),
            "
                    AND o.event_id = e.value->>'event_id')
ON CONFLICT DO NOTHING"
        )
    };
}

/// `$4` JSON array of events. Skips events recorded under any name of the key.
pub const INSERT_EVENTS: StatementVariants = StatementVariants {
    sqlite: insert_events!(sqlite, "jsonb_each($4)"),
    postgres: insert_events!(postgres, "jsonb_array_elements($4::jsonb)"),
};

/// Columns of a [`RecordedRow`]. A digest with this reason holds retracted events: `Exclusion::why`.
macro_rules! recorded {
    ($more:expr) => {
        concat!(
            "
SELECT e.tenant, e.digest_type, e.event_id, e.digest_id, d.state, e.occurred_at, e.content_sha256, e.urgent, e.category, e.other_categories,
       e.returned_at IS NOT NULL AS returned,
       COALESCE(d.outcome = 'skipped' AND d.why = 'retracted', FALSE) AS retracted,
       (d.state = 'rendered' AND NOT EXISTS
          (SELECT 1 FROM attempts a WHERE a.message = d.digest_id AND a.past_the_dot_at IS NOT NULL)) AS waits",
            $more
        )
    };
}

macro_rules! recorded_events {
    ($ids:literal) => {
        concat!(
            "WITH",
            names!(),
            recorded!(concat!(
                "
FROM names k CROSS JOIN events e JOIN digests d ON d.digest_id = e.digest_id
WHERE ",
                of_name!("e", "$3"),
                " AND e.event_id ",
                $ids,
                "
ORDER BY CASE d.state WHEN 'closed' THEN 1 ELSE 0 END"
            ))
        )
    };
}

/// `$4` JSON array of ids. Returns those recorded under any name of the key; those in ended digests come
/// last.
pub const RECORDED_EVENTS: StatementVariants = StatementVariants {
    sqlite: recorded_events!("IN (SELECT value FROM json_each($4))"),
    postgres: recorded_events!("= ANY (ARRAY(SELECT jsonb_array_elements_text($4::jsonb)))"),
};

/// `$1` JSON array of [tenant, digest type, user, id, place]. Returns those in the ledger, each with its
/// place.
pub const RECORDED_OF_KEYS: &str = recorded!(
    ", CAST(k.value->>4 AS BIGINT) AS place
FROM {each} k
JOIN events e ON e.tenant = k.value->>0 AND e.digest_type = k.value->>1 AND e.user_id = k.value->>2 AND e.event_id = k.value->>3
JOIN digests d ON d.digest_id = e.digest_id"
);

pub const RECORDED_EVENT: &str =
    concat!(recorded_event!(), " WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND event_id = $4");

/// Replaces the content of an event of the key `$1`, `$2`, `$3`; `$4` an [`EventRow`] in JSON. `$5` the
/// digest to move it to, or empty to leave it. `$6` now.
pub const REPLACE_EVENT: StatementVariants = StatementVariants {
    sqlite: "
UPDATE events SET category = $4->>'category', entity_type = $4->>'entity_type', entity_id = $4->>'entity_id',
    actor = $4->>'actor', occurred_at = $4->>'occurred_at', counts = $4->>'counts', urgent = $4->>'urgent',
    payload = $4->>'payload', content_sha256 = $4->>'content_sha256', other_categories = $4->>'other_categories',
    returned_from = CASE WHEN $5 = '' THEN returned_from ELSE digest_id END,
    digest_id = CASE WHEN $5 = '' THEN digest_id ELSE $5 END,
    recorded_at = CASE WHEN $5 = '' THEN recorded_at ELSE $6 END,
    erased_at = CASE WHEN $5 = '' THEN erased_at END
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND event_id = $4->>'event_id'",
    postgres: "
UPDATE events SET category = v.value->>'category', entity_type = v.value->>'entity_type', entity_id = v.value->>'entity_id',
    actor = v.value->>'actor', occurred_at = (v.value->>'occurred_at')::bigint, counts = (v.value->>'counts')::jsonb,
    urgent = (v.value->>'urgent')::boolean, payload = (v.value->>'payload')::json,
    content_sha256 = v.value->>'content_sha256', other_categories = v.value->>'other_categories',
    returned_from = CASE WHEN $5 = '' THEN returned_from ELSE digest_id END,
    digest_id = CASE WHEN $5 = '' THEN digest_id ELSE $5 END,
    recorded_at = CASE WHEN $5 = '' THEN recorded_at ELSE $6::bigint END,
    erased_at = CASE WHEN $5 = '' THEN erased_at END
FROM (SELECT $4::jsonb AS value) v
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND event_id = v.value->>'event_id'",
};

pub const REFUSE_CONTENT: &str = concat!(
    "WITH",
    names!(),
    "
UPDATE events SET refused_sha256 = $5, refused_at = $6
WHERE (tenant, digest_type) IN (SELECT tenant, digest_type FROM names) AND user_id = $3 AND event_id = $4 AND erased_at IS NULL
  AND (refused_sha256 IS NULL OR refused_sha256 <> $5)"
);

impl<D: Dialect> SqlStore<D> {
    /// Opens the window's digest if it is new, and writes the events the ledger does not have yet.
    ///
    /// A message seals the digest, and so does an end (unless it is the `end` the caller is about to record).
    /// After this, a repeated call may bring more events. E.g. call 1 wrote e1 and e2 and lost its reply;
    /// call 2 brings e1, e2 and e3: it should not take e3, which the caller keeps for its next window. In an
    /// ended digest, an event counts as missing if it is in an open digest, because this may be the next
    /// window itself, opened by the lost task.
    pub(crate) async fn collect_events(
        connection: &mut D::Connection,
        window: &Window,
        planned: Option<&PlanSummary>,
        events: &[Event],
        end: Option<&WindowEnd>,
        now: Timestamp,
    ) -> Result<LockedDigest> {
        let Window { key, digest_id, opened_at, due_at } = window;
        let PlanSummary { why, cadence, zone } = planned.cloned().unwrap_or_default();
        let mut locked: LockedDigest = query(D::pick_variant(OPEN_DIGEST))
            .bind(&key.tenant)
            .bind(&key.digest_type)
            .bind(&key.user)
            .bind(digest_id.to_string())
            .bind(opened_at.as_millisecond())
            .bind(due_at.as_millisecond())
            .bind(no_nul(&why))
            .bind(cadence)
            .bind(zone)
            .try_map(Self::to_record)
            .fetch_one(&mut *connection)
            .await?;
        let is_over = locked.closed.is_some() && locked.closed.as_ref() != end;
        for page in events.chunks(BATCH_EVENTS) {
            if !is_over && Self::insert_events(&mut *connection, window, page, now).await? == page.len() {
                locked.taken += page.len() as u64;
                continue;
            }
            let ids: Vec<_> = page.iter().map(|event| &event.event_id).collect();
            let recorded = Self::recorded_events(&mut *connection, key, to_json(&ids)?).await?;
            // An ended digest may hold excluded events, with the same end recorded again for more of them.
            let takes_more = !is_over && locked.state != DigestState::Rendered;
            let anew = takes_more.then_some(*digest_id);
            let refused = Self::take_contents(&mut *connection, key, page, &recorded, anew, now).await?;
            locked.refused.extend(refused);
            let has_an_end = |state: &DigestState| *state == DigestState::Closed;
            let others = recorded.values().filter(|row| row.digest_id != *digest_id && row.is_of(key));
            let others = others.filter(|row| !has_an_end(&row.state));
            locked.elsewhere.extend(others.map(|row| row.digest_id));
            let is_open = locked.closed.is_none();
            let is_there = |event: &&Event| {
                let row = recorded.get(&event.event_id).filter(|row| is_open || has_an_end(&row.state));
                row.is_some_and(|row| takes_more || row.repetition(event) != EventRepetition::New)
            };
            let taken = page.iter().take_while(is_there).count();
            locked.taken += taken as u64;
            if taken < page.len() {
                break;
            }
        }
        Ok(locked)
    }

    async fn insert_events(
        connection: &mut D::Connection,
        Window { key, digest_id, .. }: &Window,
        page: &[Event],
        now: Timestamp,
    ) -> Result<usize> {
        let rows: Vec<_> = page.iter().map(EventRow::new).collect::<Result<_>>()?;
        let statement = query(D::pick_variant(INSERT_EVENTS)).bind(&key.tenant).bind(&key.digest_type);
        let statement = statement.bind(digest_id.to_string()).bind(to_json(&rows)?);
        let done = statement.bind(now.as_millisecond()).execute(connection).await?;
        Ok(usize::try_from(D::changed_rows(&done)).unwrap_or(usize::MAX))
    }

    /// Merges changed content into recorded, unsent events. An event newer than its retract moves to the
    /// digest `anew`, if this takes events. Returns the content which came too late.
    async fn take_contents(
        connection: &mut D::Connection,
        key: &Key,
        page: &[Event],
        recorded: &BTreeMap<String, RecordedRow>,
        anew: Option<Uuid>,
        now: Timestamp,
    ) -> Result<Vec<(String, EventContent)>> {
        let mut refused = Vec::new();
        for event in page {
            let Some(row) = recorded.get(&event.event_id) else { continue };
            let key = &row.key(&key.user);
            match row.repetition(event) {
                EventRepetition::Replaces if row.waits => {
                    if !Self::take_into_waiting(&mut *connection, key, row.digest_id, event, now).await? {
                        refused.push((event.event_id.clone(), event.content()));
                    }
                }
                EventRepetition::Replaces => Self::merge_event(&mut *connection, key, event, now).await?,
                EventRepetition::New if anew.is_some() => {
                    Self::replace_event(&mut *connection, key, event, anew, now).await?;
                }
                EventRepetition::Same | EventRepetition::New => {}
                EventRepetition::Refused => refused.push((event.event_id.clone(), event.content())),
            }
        }
        Ok(refused)
    }

    pub(crate) async fn merge_event(
        connection: &mut D::Connection,
        key: &Key,
        event: &Event,
        now: Timestamp,
    ) -> Result<()> {
        let recorded = query(RECORDED_EVENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let recorded = recorded.bind(&event.event_id).try_map(Self::to_record).fetch_optional(&mut *connection);
        let Some::<Event>(mut merged) = recorded.await? else { return Ok(()) };
        merged.merge(event.clone());
        Self::replace_event(connection, key, &merged, None, now).await
    }

    async fn replace_event(
        connection: &mut D::Connection,
        key: &Key,
        event: &Event,
        anew: Option<Uuid>,
        now: Timestamp,
    ) -> Result<()> {
        let digest_id = anew.map(|id| id.to_string()).unwrap_or_default();
        let statement = query(D::pick_variant(REPLACE_EVENT)).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let statement = statement.bind(to_json(&EventRow::new(event)?)?).bind(digest_id).bind(now.as_millisecond());
        statement.execute(connection).await?;
        Ok(())
    }

    pub(crate) async fn record_refused(
        connection: &mut D::Connection,
        key: &Key,
        refused: &[(String, EventContent)],
        now: Timestamp,
    ) -> Result<()> {
        for (event_id, content) in refused {
            let statement = query(REFUSE_CONTENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            let statement = statement.bind(event_id.clone()).bind(content.sha256.clone()).bind(now.as_millisecond());
            statement.execute(&mut *connection).await?;
        }
        if !refused.is_empty() {
            tracing::warn!(
                %key,
                events = refused.len(),
                "known, other content: events are in no message, because a digest with their ids has ended; give each \
                 firing of an alert its own id"
            );
        }
        Ok(())
    }

    async fn recorded_events(
        connection: &mut D::Connection,
        key: &Key,
        event_ids: String,
    ) -> Result<BTreeMap<String, RecordedRow>> {
        let statement =
            query_as(D::pick_variant(RECORDED_EVENTS)).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let rows: Vec<RecordedRow> = statement.bind(event_ids).fetch_all(connection).await?;
        let (own, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_of(key));
        Ok(others.into_iter().chain(own).map(|row| (row.event_id.clone(), row)).collect())
    }

    pub(crate) async fn recorded_under(
        connection: &mut D::Connection,
        key: &Key,
        event: &Event,
    ) -> Result<Option<RecordedRow>> {
        let mut recorded = Self::recorded_events(connection, key, to_json(&[&event.event_id])?).await?;
        Ok(recorded.remove(&event.event_id))
    }

    pub(crate) async fn find_repetitions(
        &self,
        events: &[(Key, String, EventContent)],
    ) -> Result<Vec<Option<EventRepetition>>> {
        let mut repetitions = vec![None; events.len()];
        let mut asked = Vec::with_capacity(events.len());
        // The key itself comes last, so it wins.
        for (place, (key, id, _)) in events.iter().enumerate() {
            asked.extend(self.other_keys(key).await?.into_iter().map(|other| (place, Cow::Owned(other), id)));
            asked.push((place, Cow::Borrowed(key), id));
        }
        let mut connection = self.reader.acquire().await?;
        for asked in asked.chunks(BATCH_EVENTS) {
            let ids = asked.iter().enumerate();
            let ids: Vec<_> = ids.map(|(n, (_, key, id))| (&key.tenant, &key.digest_type, &key.user, id, n)).collect();
            let statement = query(Self::expand_each(RECORDED_OF_KEYS)).bind(to_json(&ids)?);
            let rows = statement.fetch_all(&mut *connection).await?;
            let mut rows =
                rows.iter().map(|row| Ok((PlaceRow::from_row(row)?.place, row))).collect::<Result<Vec<_>>>()?;
            rows.sort_by_key(|(place, _)| *place);
            for (n, row) in rows {
                let row = RecordedRow::from_row(row)?;
                let Some((place, ..)) = asked.get(usize::try_from(n).unwrap_or(usize::MAX)) else { continue };
                let repetition = Some(row.content().compare_content(&events[*place].2));
                let repetition = repetition
                    .filter(|of| !row.state.takes_events() && (*of != EventRepetition::Replaces || row.waits));
                repetitions[*place] = repetition;
            }
        }
        connection.release();
        Ok(repetitions)
    }
}

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
    content_sha256: String,
    other_categories: Option<String>,
}

impl<'a> EventRow<'a> {
    pub(crate) fn new(event: &'a Event) -> Result<Self> {
        Ok(Self {
            event_id: &event.event_id,
            category: &event.category,
            entity_type: &event.entity_type,
            entity_id: &event.entity_id,
            actor: &event.actor,
            occurred_at: event.occurred_at.as_millisecond(),
            counts: to_json(&event.counts)?,
            urgent: event.urgent,
            payload: event.payload.as_json(),
            content_sha256: event.content().sha256,
            other_categories: (!event.other_categories.is_empty())
                .then(|| to_json(&event.other_categories))
                .transpose()?,
        })
    }
}

row! {
pub struct RecordedRow {
    tenant: String,
    digest_type: String,
    event_id: String,
    digest_id: Uuid,
    state: DigestState,
    occurred_at: Timestamp,
    content_sha256: Option<String>,
    urgent: bool,
    category: String,
    other_categories: Option<JsonColumn<BTreeSet<String>>>,
    returned: bool,
    retracted: bool,
    /// Its message can still be rendered again.
    waits: bool,
}
}

row! {
pub struct PlaceRow {
    place: i64,
}
}

impl RecordedRow {
    fn is_of(&self, key: &Key) -> bool {
        (&self.tenant, &self.digest_type) == (&key.tenant, &key.digest_type)
    }

    pub(crate) fn key(&self, user: &str) -> Key {
        Key { tenant: self.tenant.clone(), digest_type: self.digest_type.clone(), user: user.to_owned() }
    }

    pub(crate) fn repetition(&self, event: &Event) -> EventRepetition {
        self.content().compare_content(&event.content())
    }

    pub(crate) fn content(&self) -> RecordedContent {
        let fate = if self.returned || self.waits || self.state.takes_events() {
            EventFate::Pending
        } else if self.retracted {
            EventFate::Retracted
        } else {
            EventFate::Ended
        };
        let other_categories = self.other_categories.iter().flat_map(|categories| &categories.0);
        RecordedContent {
            occurred_at: self.occurred_at,
            sha256: self.content_sha256.clone(),
            urgent: self.urgent,
            categories: [&self.category].into_iter().chain(other_categories).cloned().collect(),
            fate,
        }
    }
}

record!(row => Event {
    event_id,
    category,
    other_categories: column::<_, Option<JsonColumn<_>>>(row, "other_categories")?.map(|JsonColumn(others)| others).unwrap_or_default(),
    entity_type,
    entity_id,
    actor,
    occurred_at,
    counts: column(row, "counts").map(|JsonColumn(counts)| counts)?,
    urgent,
    payload: column(row, "payload").map(|JsonColumn(payload)| payload)?,
});
