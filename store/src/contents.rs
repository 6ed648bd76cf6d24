//! The contents of a digest, grouped, ranked and summed in the database (rule 19).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use sqlx::query_as;
use tidings_model::{
    EventPayload,
    records::{DigestContents, DigestLine},
    rules::contents::{RECENT_EVENTS, RecentEvent, fold_items},
    settings::DisplayLimits,
};
use uuid::Uuid;

use crate::{
    Result,
    sql::{
        SqlStore, checked_number,
        columns::{JsonColumn, row},
        dialect::{Dialect, StatementVariants},
        to_json,
    },
};

/// SQLite's `SUM` fails on overflow, which would make the digest fail for ever. So we sum two 32-bit halves,
/// which cannot overflow, and clamp the result to an i64.
macro_rules! sqlite_sums {
    ($events:expr) => {
        concat!(
            "(SELECT json_group_object(name, CASE WHEN high > 2147483647 THEN 9223372036854775807
                                                  WHEN high < -2147483648 THEN -9223372036854775807 - 1
                                                  ELSE (high << 32) | low END)
              FROM (SELECT name, high + (low >> 32) AS high, low & 4294967295 AS low
                    FROM (SELECT c.key AS name, SUM(c.value >> 32) AS high, SUM(c.value & 4294967295) AS low
                          FROM events e, json_each(e.counts) c WHERE ",
            $events,
            " GROUP BY c.key)))"
        )
    };
}

/// Clamped to an i64, because an unreadable sum would make the digest fail for ever.
macro_rules! postgres_sums {
    ($events:expr) => {
        concat!(
            "(SELECT COALESCE(json_object_agg(name, total), '{}')::text
              FROM (SELECT c.key AS name,
                           LEAST(GREATEST(SUM(c.value::bigint), -9223372036854775808), 9223372036854775807) AS total
                    FROM events e CROSS JOIN jsonb_each_text(e.counts) c WHERE ",
            $events,
            " GROUP BY c.key) sums)"
        )
    };
}

macro_rules! items_and_lines {
    ($($more:expr)?) => {
        concat!(
            "SELECT CAST(COALESCE(SUM(items), 0) AS BIGINT) AS items, COUNT(*) AS line_count",
            $(", ", $more, " AS counts, (SELECT claimed_at FROM digests WHERE digest_id = $1) AS claimed_at",)?
            " FROM (SELECT COUNT(*) AS items FROM events WHERE digest_id = $1
                    GROUP BY category, entity_type, entity_id) lines"
        )
    };
}

pub const TOTALS: StatementVariants = StatementVariants {
    sqlite: items_and_lines!(sqlite_sums!("e.digest_id = $1")),
    postgres: items_and_lines!(postgres_sums!("e.digest_id = $1")),
};

pub const ITEMS_AND_LINES: &str = items_and_lines!();

macro_rules! of_line {
    () => {
        "(e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)"
    };
}

macro_rules! ranked_lines {
    ($priority:literal) => {
        concat!(
            "
    SELECT category, entity_type, entity_id, COUNT(*) AS items, MIN(occurred_at) AS first_at,
           MAX(occurred_at) AS last_at, COALESCE((",
            $priority,
            "), 0) AS priority
    FROM events WHERE digest_id = $1
    GROUP BY category, entity_type, entity_id
    ORDER BY priority DESC, items DESC, last_at DESC, category, entity_type, entity_id LIMIT $2"
        )
    };
}

macro_rules! recent_events {
    () => {
        concat!(
            "SELECT e.event_id, e.occurred_at, e.actor, e.payload FROM events e WHERE ",
            of_line!(),
            " ORDER BY e.occurred_at DESC, e.event_id DESC LIMIT $3"
        )
    };
}

/// `$1` digest, `$2` limit, `$3` recent events per line, `$4` JSON object of priorities by category. Returns
/// one row per line, ranked.
pub const LINES: StatementVariants = StatementVariants {
    sqlite: concat!(
        "WITH lines AS (",
        ranked_lines!("SELECT p.value FROM json_each($4) p WHERE p.key = events.category"),
        ")
SELECT l.category, l.entity_type, l.entity_id, l.items, l.first_at, l.last_at, ",
        sqlite_sums!(of_line!()),
        " AS counts,
       (SELECT COUNT(DISTINCT e.actor) FROM events e WHERE e.actor <> '' AND ",
        of_line!(),
        ") AS actor_count,
       (SELECT json_group_array(actor) FROM (SELECT e.actor FROM events e WHERE e.actor <> '' AND ",
        of_line!(),
        " GROUP BY e.actor ORDER BY MAX(e.occurred_at) DESC, e.actor LIMIT 3)) AS actors,
       (SELECT json_group_array(json_object('at', occurred_at, 'actor', actor, 'payload', json(payload))) FROM (",
        recent_events!(),
        ")) AS recent
FROM lines l ORDER BY l.priority DESC, l.items DESC, l.last_at DESC, l.category, l.entity_type, l.entity_id"
    ),
    postgres: concat!(
        "WITH lines AS MATERIALIZED (",
        ranked_lines!("SELECT p.value::bigint FROM jsonb_each_text($4::jsonb) p WHERE p.key = events.category"),
        ")
SELECT l.category, l.entity_type, l.entity_id, l.items, l.first_at, l.last_at, ",
        postgres_sums!(of_line!()),
        " AS counts,
       (SELECT COUNT(DISTINCT e.actor) FROM events e WHERE e.actor <> '' AND ",
        of_line!(),
        ") AS actor_count,
       (SELECT COALESCE(json_agg(actor ORDER BY last_at DESC, actor), '[]')::text
        FROM (SELECT e.actor, MAX(e.occurred_at) AS last_at FROM events e WHERE e.actor <> '' AND ",
        of_line!(),
        " GROUP BY e.actor ORDER BY last_at DESC, e.actor LIMIT 3) actors) AS actors,
       (SELECT json_agg(json_build_object('at', occurred_at, 'actor', actor, 'payload', payload)
                        ORDER BY occurred_at DESC, event_id DESC)::text FROM (",
        recent_events!(),
        ") recent) AS recent
FROM lines l ORDER BY l.priority DESC, l.items DESC, l.last_at DESC, l.category, l.entity_type, l.entity_id"
    ),
};

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn contents_of(
        connection: &mut D::Connection,
        digest_id: Uuid,
        shown: DisplayLimits<'_>,
    ) -> Result<DigestContents> {
        let id = digest_id.to_string();
        let totals = query_as(D::pick_variant(TOTALS)).bind(id.clone()).fetch_one(&mut *connection).await?;
        let TotalsRow { items, line_count, counts: JsonColumn(counts), claimed_at } = totals;
        let priorities: BTreeMap<_, _> =
            shown.categories.named.keys().map(|name| (name, shown.priority(name))).collect();
        let lines =
            query_as(D::pick_variant(LINES)).bind(id).bind(i64::from(shown.lines)).bind(i64::from(RECENT_EVENTS));
        let lines: Vec<LineRow> = lines.bind(to_json(&priorities)?).fetch_all(connection).await?;
        let lines = lines.into_iter().map(|row| row.into_line(shown)).collect();
        Ok(DigestContents { claimed_at, items, line_count, counts, lines })
    }

    pub(crate) async fn items_and_lines(connection: &mut D::Connection, digest_id: Uuid) -> Result<(u64, u64)> {
        let statement = query_as(ITEMS_AND_LINES).bind(digest_id.to_string());
        let (items, lines): (i64, i64) = statement.fetch_one(connection).await?;
        Ok((checked_number(items)?, checked_number(lines)?))
    }
}

row! {
pub struct TotalsRow {
    items: u64,
    line_count: u64,
    counts: JsonColumn<BTreeMap<String, i64>>,
    claimed_at: Option<Timestamp>,
}
}

row! {
pub struct LineRow {
    category: String,
    entity_type: String,
    entity_id: String,
    items: u64,
    first_at: Timestamp,
    last_at: Timestamp,
    counts: JsonColumn<BTreeMap<String, i64>>,
    actor_count: u64,
    actors: JsonColumn<Vec<String>>,
    recent: JsonColumn<Vec<RecentRow>>,
}
}

#[derive(Deserialize)]
pub struct RecentRow {
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    at: Timestamp,
    actor: String,
    payload: EventPayload,
}

impl LineRow {
    fn into_line(self, shown: DisplayLimits<'_>) -> DigestLine {
        let recent = self.recent.0.iter();
        let recent = recent.map(|RecentRow { at, actor, payload }| RecentEvent { at: *at, actor, payload });
        let latest = fold_items(recent, shown.items);
        DigestLine {
            section: shown.section(&self.category),
            category: self.category,
            entity_type: self.entity_type,
            entity_id: self.entity_id,
            count: self.items,
            counts: self.counts.0,
            first_at: self.first_at,
            last_at: self.last_at,
            actor_count: self.actor_count,
            actors: self.actors.0,
            latest,
        }
    }
}
