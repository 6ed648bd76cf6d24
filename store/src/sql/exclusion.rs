//! Events of a window that are in no message: retracted ones, those of a category that is off, seen ones, and those that are too old or
//! too few.

use super::dialect::{Dialect, Variants};
use super::digest::LockedDigest;
use super::{Sql, json};
use crate::Result;
use jiff::Timestamp;
use sqlx::{query, query_as};
use std::collections::{BTreeMap, BTreeSet};
use tidings_model::records::Exclusion;
use tidings_model::settings::CategorySettings;
use tidings_model::step::Window;

/// The events under the digest `$1` that a retract covers.
macro_rules! covered_by_a_retract {
    () => {
        "digest_id = $1 AND (
    EXISTS (SELECT 1 FROM retracts r
            WHERE r.tenant = events.tenant AND r.digest_type = events.digest_type AND r.user_id = events.user_id
              AND r.event_id = events.event_id AND r.category = '' AND r.entity_type = '' AND r.entity_id = '')
    OR EXISTS (SELECT 1 FROM retracts r
            WHERE r.tenant = events.tenant AND r.digest_type = events.digest_type AND r.user_id = events.user_id
              AND r.event_id = '' AND r.category = events.category AND r.entity_type = events.entity_type
              AND r.entity_id = events.entity_id AND events.occurred_at <= r.until_at))"
    };
}

/// Opens and ends the digest `$2` of excluded events for the digest `$1`; `$3` now, `$4` reason.
pub const OPEN_EXCLUDED: &str = "
INSERT INTO digests (digest_id, tenant, digest_type, user_id, opened_at, due_at, state, closed_at, outcome, why,
                     plan_why, cadence, zone)
SELECT $2, tenant, digest_type, user_id, opened_at, due_at, 'closed', $3, 'skipped', $4, plan_why, cadence, zone
FROM digests WHERE digest_id = $1
ON CONFLICT (digest_id) DO UPDATE SET closed_at = excluded.closed_at, emptied_at = NULL";

pub const ANY_RETRACTED: &str =
    concat!("SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE ", covered_by_a_retract!(), " LIMIT 1) any_of_them");

pub const MOVE_RETRACTED: &str = concat!("UPDATE events SET digest_id = $2 WHERE ", covered_by_a_retract!());

pub const ANY_OF_CATEGORY: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE digest_id = $1 AND category = $2 LIMIT 1) any_of_them";

pub const MOVE_CATEGORY: &str = "UPDATE events SET digest_id = $2 WHERE digest_id = $1 AND category = $3";

/// The number of events under the digest `$1` whose ids are in the JSON array `$2`.
pub const COUNT_NAMED: Variants = Variants {
    sqlite: "SELECT COUNT(*) FROM events WHERE digest_id = $1 AND event_id IN (SELECT value FROM json_each($2))",
    postgres: "SELECT COUNT(*) FROM events
WHERE digest_id = $1 AND event_id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))",
};

/// Moves the events of [`COUNT_NAMED`] to the digest `$3`.
pub const MOVE_NAMED: Variants = Variants {
    sqlite: "UPDATE events SET digest_id = $3 WHERE digest_id = $1 AND event_id IN (SELECT value FROM json_each($2))",
    postgres: "UPDATE events SET digest_id = $3
WHERE digest_id = $1 AND event_id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))",
};

/// Answers with (events, urgent events).
pub const COUNT_CATEGORY: &str =
    "SELECT COUNT(*), COUNT(CASE WHEN urgent THEN 1 END) FROM events WHERE digest_id = $1 AND category = $2";

/// The events under the digest `$1` of the category `$2` that occurred before `$3`, unless they are urgent.
macro_rules! too_old {
    () => {
        "digest_id = $1 AND category = $2 AND occurred_at < $3 AND NOT urgent"
    };
}

pub const ANY_TOO_OLD: &str =
    concat!("SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE ", too_old!(), " LIMIT 1) any_of_them");

/// `$4` the digest that they go to.
pub const MOVE_TOO_OLD: &str = concat!("UPDATE events SET digest_id = $4 WHERE ", too_old!());

/// For each reason a digest.
pub const COUNT_EXCLUDED: &str = "SELECT COUNT(*) FROM events WHERE digest_id IN ($1, $2, $3, $4, $5)";

/// Events that the recipient or the configuration leaves out.
#[derive(Clone, Copy)]
pub struct Unwanted<'a> {
    /// Categories that the recipient turned off.
    pub off: &'a BTreeSet<String>,
    /// Events that the recipient has seen elsewhere.
    pub seen: &'a BTreeSet<String>,
    /// Categories whose old or few events do not count.
    pub categories: &'a BTreeMap<String, CategorySettings>,
}

impl<D: Dialect> Sql<D> {
    /// Leaves all that belongs to the window's digest, unless that is sealed or over, and nothing that does not.
    pub(super) async fn exclude_unwanted(
        connection: &mut D::Connection,
        window: &Window,
        digest: &LockedDigest,
        Unwanted { off, seen, categories }: Unwanted<'_>,
        now: Timestamp,
    ) -> Result<()> {
        if digest.state.takes_events() {
            Self::take_returned(&mut *connection, window, digest).await?;
            Self::exclude_retracted(&mut *connection, window, now).await?;
            for category in off {
                Self::exclude_opted_out(&mut *connection, window, category, now).await?;
            }
            if !seen.is_empty() {
                Self::exclude_seen(&mut *connection, window, seen, now).await?;
            }
            for (category, settings) in categories {
                if let Some(oldest) = settings.oldest(now) {
                    Self::exclude_too_old(&mut *connection, window, category, oldest, now).await?;
                }
                if let Some(least) = settings.min_count {
                    Self::exclude_too_few(&mut *connection, window, category, least, now).await?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn exclude_retracted(
        connection: &mut D::Connection,
        window: &Window,
        now: Timestamp,
    ) -> Result<()> {
        let id = window.digest_id.to_string();
        let (any,): (i64,) = query_as(ANY_RETRACTED).bind(id.clone()).fetch_one(&mut *connection).await?;
        if any > 0 {
            let aside = Self::open_excluded(&mut *connection, window, Exclusion::Retracted, now).await?;
            query(MOVE_RETRACTED).bind(id).bind(aside).execute(connection).await?;
        }
        Ok(())
    }

    async fn exclude_category(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        reason: Exclusion,
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
            Self::exclude_category(connection, window, category, Exclusion::OptedOut, now).await?;
        }
        Ok(())
    }

    async fn exclude_seen(
        connection: &mut D::Connection,
        window: &Window,
        seen: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<()> {
        let (id, seen) = (window.digest_id.to_string(), json(seen)?);
        let count = query_as(D::pick(COUNT_NAMED)).bind(id.clone()).bind(seen.clone());
        let (count,): (i64,) = count.fetch_one(&mut *connection).await?;
        if count > 0 {
            let aside = Self::open_excluded(&mut *connection, window, Exclusion::Seen, now).await?;
            query(D::pick(MOVE_NAMED)).bind(id).bind(seen).bind(aside).execute(connection).await?;
        }
        Ok(())
    }

    async fn exclude_too_old(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        oldest: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let (id, oldest) = (window.digest_id.to_string(), oldest.as_millisecond());
        let any = query_as(ANY_TOO_OLD).bind(id.clone()).bind(category.to_owned()).bind(oldest);
        let (any,): (i64,) = any.fetch_one(&mut *connection).await?;
        if any > 0 {
            let aside = Self::open_excluded(&mut *connection, window, Exclusion::TooOld, now).await?;
            let statement = query(MOVE_TOO_OLD).bind(id).bind(category.to_owned()).bind(oldest).bind(aside);
            statement.execute(connection).await?;
        }
        Ok(())
    }

    async fn exclude_too_few(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        least: u32,
        now: Timestamp,
    ) -> Result<()> {
        let count = query_as(COUNT_CATEGORY).bind(window.digest_id.to_string()).bind(category.to_owned());
        let (count, urgent): (i64, i64) = count.fetch_one(&mut *connection).await?;
        if (1..i64::from(least)).contains(&count) && urgent == 0 {
            Self::exclude_category(connection, window, category, Exclusion::TooFew, now).await?;
        }
        Ok(())
    }

    /// A digest that ends at once and sends nothing, so that the ledger has the events with the reason (rule 1).
    async fn open_excluded(
        connection: &mut D::Connection,
        window: &Window,
        reason: Exclusion,
        now: Timestamp,
    ) -> Result<String> {
        let aside = reason.digest_id(window).to_string();
        let statement = query(OPEN_EXCLUDED).bind(window.digest_id.to_string()).bind(aside.clone());
        statement.bind(now.as_millisecond()).bind(reason.why().to_owned()).execute(connection).await?;
        Ok(aside)
    }
}
