//! The contents of a digest, grouped, ranked and summed by the database (rule 19).

use super::columns::{Json, row};
use super::dialect::{Dialect, Variants};
use super::{Sql, number};
use crate::Result;
use jiff::Timestamp;
use serde_json::{Map, Value};
use sqlx::query_as;
use std::collections::BTreeMap;
use tidings_model::records::{Contents, Group};
use uuid::Uuid;

/// `SUM` of SQLite fails when it overflows, and a digest would fail with it, for ever. Summed in two halves of 32 bits,
/// which cannot overflow, and then cut to what an i64 holds.
macro_rules! sqlite_sums {
    ($events:literal) => {
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

/// Cut to what an i64 holds: a sum that cannot be read would fail its digest for ever.
macro_rules! postgres_sums {
    ($events:literal) => {
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

/// The number of events and groups of a digest, and more columns if asked.
macro_rules! items_and_groups {
    ($($more:expr)?) => {
        concat!(
            "SELECT CAST(COALESCE(SUM(items), 0) AS BIGINT) AS items, COUNT(*) AS groups",
            $(", ", $more, " AS counts, (SELECT claimed_at FROM digests WHERE digest_id = $1) AS claimed_at",)?
            " FROM (SELECT COUNT(*) AS items FROM events WHERE digest_id = $1
                    GROUP BY category, entity_type, entity_id) lines"
        )
    };
}

/// `$1` digest. Answers with (events, groups, summed counts as a JSON object, time of the claim).
pub const TOTALS: Variants = Variants {
    sqlite: items_and_groups!(sqlite_sums!("e.digest_id = $1")),
    postgres: items_and_groups!(postgres_sums!("e.digest_id = $1")),
};

pub const ITEMS_AND_GROUPS: &str = items_and_groups!();

/// `$1` digest, `$2` limit. Answers with the columns of a line, ranked.
pub const LINES: Variants = Variants {
sqlite: concat!(
        "WITH lines AS (
    SELECT category, entity_type, entity_id, COUNT(*) AS items, MIN(occurred_at) AS first_at,
           MAX(occurred_at) AS last_at
    FROM events WHERE digest_id = $1
    GROUP BY category, entity_type, entity_id
    ORDER BY items DESC, last_at DESC, category, entity_type, entity_id LIMIT $2)
SELECT l.category, l.entity_type, l.entity_id, l.items, l.first_at, l.last_at, ",
        sqlite_sums!(
            "(e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)"
        ),
        " AS counts, latest.actor, latest.payload,
       (SELECT COUNT(DISTINCT e.actor) FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)) AS actor_count,
       (SELECT json_group_array(actor) FROM (SELECT e.actor FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
        GROUP BY e.actor ORDER BY MAX(e.occurred_at) DESC, e.actor LIMIT 3)) AS actors
FROM lines l JOIN events latest ON latest.rowid = (
    SELECT e.rowid FROM events e
    WHERE (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
    ORDER BY e.occurred_at DESC, e.event_id DESC LIMIT 1)
ORDER BY l.items DESC, l.last_at DESC, l.category, l.entity_type, l.entity_id"
    ),
postgres: concat!(
        "WITH lines AS MATERIALIZED (
    SELECT category, entity_type, entity_id, COUNT(*) AS items, MIN(occurred_at) AS first_at,
           MAX(occurred_at) AS last_at
    FROM events WHERE digest_id = $1
    GROUP BY category, entity_type, entity_id
    ORDER BY items DESC, last_at DESC, category, entity_type, entity_id LIMIT $2)
SELECT l.category, l.entity_type, l.entity_id, l.items, l.first_at, l.last_at, ",
        postgres_sums!(
            "(e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)"
        ),
        " AS counts, latest.actor, latest.payload::text AS payload,
       (SELECT COUNT(DISTINCT e.actor) FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)) AS actor_count,
       (SELECT COALESCE(json_agg(actor ORDER BY last_at DESC, actor), '[]')::text
        FROM (SELECT e.actor, MAX(e.occurred_at) AS last_at FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
        GROUP BY e.actor ORDER BY last_at DESC, e.actor LIMIT 3) actors) AS actors
FROM lines l CROSS JOIN LATERAL (
    SELECT e.actor, e.payload FROM events e
    WHERE (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
    ORDER BY e.occurred_at DESC, e.event_id DESC LIMIT 1) latest
ORDER BY l.items DESC, l.last_at DESC, l.category, l.entity_type, l.entity_id"
    ),
};

impl<D: Dialect> Sql<D> {
    /// In a transaction, so that all parts are of one state of the database.
    pub(super) async fn contents_of(
        connection: &mut D::Connection,
        digest_id: Uuid,
        max_groups: u32,
    ) -> Result<Contents> {
        let id = digest_id.to_string();
        let totals = query_as(D::pick(TOTALS)).bind(id.clone()).fetch_one(&mut *connection).await?;
        let TotalsRow { items, groups, counts: Json(counts), claimed_at } = totals;
        let lines = query_as(D::pick(LINES)).bind(id).bind(i64::from(max_groups));
        let lines: Vec<LineRow> = lines.fetch_all(connection).await?;
        Ok(Contents { claimed_at, items, groups, counts, lines: lines.into_iter().map(Group::from).collect() })
    }

    pub(super) async fn items_and_groups(connection: &mut D::Connection, digest_id: Uuid) -> Result<(u64, u64)> {
        let statement = query_as(ITEMS_AND_GROUPS).bind(digest_id.to_string());
        let (items, groups): (i64, i64) = statement.fetch_one(connection).await?;
        Ok((number(items)?, number(groups)?))
    }
}

row! {
/// Columns of [`TOTALS`].
pub struct TotalsRow {
    items: u64,
    groups: u64,
    counts: Json<BTreeMap<String, i64>>,
    claimed_at: Option<Timestamp>,
}
}

row! {
/// Columns of [`Dialect::LINES`](super::Dialect::LINES).
pub struct LineRow {
    category: String,
    entity_type: String,
    entity_id: String,
    items: u64,
    first_at: Timestamp,
    last_at: Timestamp,
    counts: Json<BTreeMap<String, i64>>,
    actor: String,
    payload: Json<Map<String, Value>>,
    actor_count: u64,
    actors: Json<Vec<String>>,
}
}

impl From<LineRow> for Group {
    fn from(row: LineRow) -> Self {
        Self {
            category: row.category,
            entity_type: row.entity_type,
            entity_id: row.entity_id,
            count: row.items,
            counts: row.counts.0,
            first_at: row.first_at,
            last_at: row.last_at,
            actor: row.actor,
            payload: row.payload.0,
            actor_count: row.actor_count,
            actors: row.actors.0,
        }
    }
}
