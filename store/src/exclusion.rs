//! Excludes events from a window: retracted, seen, too old, too few, or in a category turned off.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    records::{EventExclusion, RemovedEvents},
    settings::DigestCategories,
    window::Window,
};

use crate::{
    Result,
    digest::LockedDigest,
    sql::{
        SqlStore,
        columns::{JsonColumn, row},
        dialect::{Dialect, StatementVariants},
        to_json,
    },
};

/// Events in a digest covered by a retract. Older workers write [`jiff::Timestamp::MAX`] (in milliseconds) as
/// the end of a retract by id, which covers events until it arrived.
macro_rules! covered_by_a_retract {
    ($digest:literal) => {
        concat!(
            "digest_id = ",
            $digest,
            " AND (
    EXISTS (SELECT 1 FROM retracts r
            WHERE r.tenant = events.tenant AND r.digest_type = events.digest_type AND r.user_id = events.user_id
              AND r.event_id = events.event_id AND r.category = '' AND r.entity_type = '' AND r.entity_id = ''
              AND events.occurred_at <= CASE r.until_at WHEN 253402207200999 THEN r.retracted_at ELSE r.until_at END)
    OR EXISTS (SELECT 1 FROM retracts r
            WHERE r.tenant = events.tenant AND r.digest_type = events.digest_type AND r.user_id = events.user_id
              AND r.event_id = '' AND r.category = events.category AND r.entity_type = events.entity_type
              AND r.entity_id = events.entity_id AND events.occurred_at <= r.until_at))"
        )
    };
}
pub(crate) use covered_by_a_retract;

pub const OPEN_EXCLUDED: &str = "
INSERT INTO digests (digest_id, tenant, digest_type, user_id, opened_at, due_at, state, closed_at, outcome, why,
                     plan_why, cadence, zone)
SELECT $2, tenant, digest_type, user_id, opened_at, due_at, 'closed', $3, 'skipped', $4, plan_why, cadence, zone
FROM digests WHERE digest_id = $1
ON CONFLICT (digest_id) DO UPDATE SET closed_at = excluded.closed_at, emptied_at = NULL";

pub const ANY_RETRACTED: &str =
    concat!("SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE ", covered_by_a_retract!("$1"), " LIMIT 1) any_of_them");

pub const MOVE_RETRACTED: &str = concat!("UPDATE events SET digest_id = $2 WHERE ", covered_by_a_retract!("$1"));

pub const OF_SEVERAL_CATEGORIES: &str = "
SELECT event_id, category, other_categories FROM events WHERE digest_id = $1 AND other_categories IS NOT NULL";

pub const SHOW_UNDER: &str =
    "UPDATE events SET category = $3, other_categories = $4 WHERE digest_id = $1 AND event_id = $2";

pub const ANY_OF_CATEGORY: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE digest_id = $1 AND category = $2 LIMIT 1) any_of_them";

pub const MOVE_CATEGORY: &str = "UPDATE events SET digest_id = $2 WHERE digest_id = $1 AND category = $3";

pub const COUNT_NAMED: StatementVariants = StatementVariants {
    sqlite: "SELECT COUNT(*) FROM events WHERE digest_id = $1 AND event_id IN (SELECT value FROM json_each($2))",
    postgres: "SELECT COUNT(*) FROM events
WHERE digest_id = $1 AND event_id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))",
};

pub const MOVE_NAMED: StatementVariants = StatementVariants {
    sqlite: "UPDATE events SET digest_id = $3 WHERE digest_id = $1 AND event_id IN (SELECT value FROM json_each($2))",
    postgres: "UPDATE events SET digest_id = $3
WHERE digest_id = $1 AND event_id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))",
};

pub const COUNT_CATEGORIES: &str = "
SELECT category, COUNT(*), COUNT(CASE WHEN urgent THEN 1 END), MIN(CASE WHEN NOT urgent THEN occurred_at END)
FROM events WHERE digest_id = $1 GROUP BY category";

pub const MOVE_TOO_OLD: &str =
    "UPDATE events SET digest_id = $4 WHERE digest_id = $1 AND category = $2 AND occurred_at < $3 AND NOT urgent";

pub const COUNT_EXCLUDED: &str = "SELECT COUNT(*) FROM events WHERE digest_id IN ($1, $2, $3, $4, $5)";

#[derive(Clone, Copy)]
pub struct UnwantedEvents<'a> {
    pub off: &'a BTreeSet<String>,
    pub seen: &'a BTreeSet<String>,
    pub categories: &'a DigestCategories,
}

impl<D: Dialect> SqlStore<D> {
    /// Moves unwanted events out of an open digest. A digest with a message or an outcome is left unchanged.
    pub(crate) async fn exclude_unwanted(
        connection: &mut D::Connection,
        window: &Window,
        digest: &LockedDigest,
        UnwantedEvents { off, seen, categories }: UnwantedEvents<'_>,
        now: Timestamp,
    ) -> Result<()> {
        if digest.state.takes_events() {
            Self::take_returned(&mut *connection, window, digest).await?;
            Self::exclude_retracted(&mut *connection, window, now).await?;
            if !off.is_empty() {
                Self::show_under_categories_beside(&mut *connection, window, off).await?;
            }
            for category in off {
                Self::exclude_opted_out(&mut *connection, window, category, now).await?;
            }
            if !seen.is_empty() {
                Self::exclude_seen(&mut *connection, window, seen, now).await?;
            }
            if categories.have_limits() {
                Self::exclude_old_and_few(&mut *connection, window, categories, now).await?;
            }
        }
        Ok(())
    }

    /// Moves withdrawn events out of a rendered digest, before rendering it again.
    pub(crate) async fn exclude_withdrawn(
        connection: &mut D::Connection,
        window: &Window,
        off: &BTreeSet<String>,
        seen: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<RemovedEvents> {
        let (all, _) = Self::items_and_lines(&mut *connection, window.digest_id).await?;
        Self::exclude_retracted(&mut *connection, window, now).await?;
        let (unretracted, _) = Self::items_and_lines(&mut *connection, window.digest_id).await?;
        if !off.is_empty() {
            Self::show_under_categories_beside(&mut *connection, window, off).await?;
        }
        for category in off {
            Self::exclude_opted_out(&mut *connection, window, category, now).await?;
        }
        let (wanted, _) = Self::items_and_lines(&mut *connection, window.digest_id).await?;
        if !seen.is_empty() {
            Self::exclude_seen(&mut *connection, window, seen, now).await?;
        }
        let (left, _) = Self::items_and_lines(connection, window.digest_id).await?;
        let (retracted, opted_out, seen) = (all - unretracted, unretracted - wanted, wanted - left);
        Ok(RemovedEvents { retracted, opted_out, seen, left, ..RemovedEvents::default() })
    }

    pub(crate) async fn exclude_retracted(
        connection: &mut D::Connection,
        window: &Window,
        now: Timestamp,
    ) -> Result<()> {
        let id = window.digest_id.to_string();
        let (any,): (i64,) = query_as(ANY_RETRACTED).bind(id.clone()).fetch_one(&mut *connection).await?;
        if any > 0 {
            let aside = Self::open_excluded(&mut *connection, window, EventExclusion::Retracted, now).await?;
            query(MOVE_RETRACTED).bind(id).bind(aside).execute(connection).await?;
        }
        Ok(())
    }

    /// Moves an event whose category is off to another of its categories which is on.
    async fn show_under_categories_beside(
        connection: &mut D::Connection,
        window: &Window,
        off: &BTreeSet<String>,
    ) -> Result<()> {
        let id = window.digest_id.to_string();
        let rows: Vec<CategoriesRow> =
            query_as(OF_SEVERAL_CATEGORIES).bind(id.clone()).fetch_all(&mut *connection).await?;
        for CategoriesRow { event_id, category, other_categories: JsonColumn(mut categories) } in rows {
            let beside = categories.iter().find(|other| !off.contains(*other)).filter(|_| off.contains(&category));
            let Some(beside) = beside.cloned() else { continue };
            categories.remove(&beside);
            categories.insert(category);
            let show = query(SHOW_UNDER).bind(id.clone()).bind(event_id).bind(beside).bind(to_json(&categories)?);
            show.execute(&mut *connection).await?;
        }
        Ok(())
    }

    async fn exclude_category(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        reason: EventExclusion,
        now: Timestamp,
    ) -> Result<()> {
        let aside = Self::open_excluded(&mut *connection, window, reason, now).await?;
        let statement = query(MOVE_CATEGORY).bind(window.digest_id.to_string()).bind(aside).bind(category.to_owned());
        statement.execute(connection).await?;
        Ok(())
    }

    async fn exclude_opted_out(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        now: Timestamp,
    ) -> Result<()> {
        let any = query_as(ANY_OF_CATEGORY).bind(window.digest_id.to_string()).bind(category.to_owned());
        let (any,): (i64,) = any.fetch_one(&mut *connection).await?;
        if any > 0 {
            Self::exclude_category(connection, window, category, EventExclusion::OptedOut, now).await?;
        }
        Ok(())
    }

    async fn exclude_seen(
        connection: &mut D::Connection,
        window: &Window,
        seen: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<()> {
        let (id, seen) = (window.digest_id.to_string(), to_json(seen)?);
        let count = query_as(D::pick_variant(COUNT_NAMED)).bind(id.clone()).bind(seen.clone());
        let (count,): (i64,) = count.fetch_one(&mut *connection).await?;
        if count > 0 {
            let aside = Self::open_excluded(&mut *connection, window, EventExclusion::Seen, now).await?;
            query(D::pick_variant(MOVE_NAMED)).bind(id).bind(seen).bind(aside).execute(connection).await?;
        }
        Ok(())
    }

    /// First excludes old events, then categories with too few left (rule 20).
    async fn exclude_old_and_few(
        connection: &mut D::Connection,
        window: &Window,
        categories: &DigestCategories,
        now: Timestamp,
    ) -> Result<()> {
        let counts = query_as(COUNT_CATEGORIES).bind(window.digest_id.to_string());
        let counts: Vec<(String, i64, i64, Option<i64>)> = counts.fetch_all(&mut *connection).await?;
        for (category, mut count, urgent, oldest_at) in counts {
            let settings = categories.get(&category);
            let oldest = settings.oldest(now).map(Timestamp::as_millisecond);
            if let Some(oldest) = oldest.filter(|oldest| oldest_at.is_some_and(|at| at < *oldest)) {
                count -= Self::exclude_too_old(&mut *connection, window, &category, oldest, now).await?;
            }
            let too_few = settings.min_count.is_some_and(|least| (1..i64::from(least)).contains(&count));
            if too_few && urgent == 0 {
                Self::exclude_category(&mut *connection, window, &category, EventExclusion::TooFew, now).await?;
            }
        }
        Ok(())
    }

    async fn exclude_too_old(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        oldest: i64,
        now: Timestamp,
    ) -> Result<i64> {
        let aside = Self::open_excluded(&mut *connection, window, EventExclusion::TooOld, now).await?;
        let statement = query(MOVE_TOO_OLD).bind(window.digest_id.to_string()).bind(category.to_owned());
        let moved = statement.bind(oldest).bind(aside).execute(connection).await?;
        Ok(i64::try_from(D::changed_rows(&moved)).unwrap_or(i64::MAX))
    }

    /// Opens a digest which ends immediately and sends nothing, so the ledger has the events and the reason
    /// (rule 1).
    async fn open_excluded(
        connection: &mut D::Connection,
        window: &Window,
        reason: EventExclusion,
        now: Timestamp,
    ) -> Result<String> {
        let aside = reason.digest_id(window).to_string();
        let statement = query(OPEN_EXCLUDED).bind(window.digest_id.to_string()).bind(aside.clone());
        statement.bind(now.as_millisecond()).bind(reason.ledger_reason().to_owned()).execute(connection).await?;
        Ok(aside)
    }
}

row! {
pub struct CategoriesRow {
    event_id: String,
    category: String,
    other_categories: JsonColumn<BTreeSet<String>>,
}
}
