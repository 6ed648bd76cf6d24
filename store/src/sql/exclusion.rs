//! Events of a window that are in no message: retracted ones, and those of a category that is off.

use super::Sql;
use super::dialect::Dialect;
use super::digest::LockedDigest;
use crate::Result;
use jiff::Timestamp;
use sqlx::{query, query_as};
use std::collections::BTreeSet;
use tidings_model::records::{RETRACTED, retracted};
use tidings_model::step::Window;
use uuid::Uuid;

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

pub const COUNT_EXCLUDED: &str = "SELECT COUNT(*) FROM events WHERE digest_id IN ($1, $2)";

impl<D: Dialect> Sql<D> {
    /// Leaves all that belongs to the window's digest, unless that is sealed or over, and nothing that does not.
    pub(super) async fn exclude_unwanted(
        connection: &mut D::Connection,
        window: &Window,
        digest: &LockedDigest,
        off: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<()> {
        if digest.state.takes_events() {
            Self::take_returned(&mut *connection, window, digest).await?;
            Self::exclude_retracted(&mut *connection, window, now).await?;
            for category in off {
                Self::exclude_category(&mut *connection, window, category, now).await?;
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
            let aside = Self::open_excluded(&mut *connection, window, retracted(window), RETRACTED, now).await?;
            query(MOVE_RETRACTED).bind(id).bind(aside).execute(connection).await?;
        }
        Ok(())
    }

    async fn exclude_category(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        now: Timestamp,
    ) -> Result<()> {
        let id = window.digest_id.to_string();
        let any = query_as(ANY_OF_CATEGORY).bind(id.clone()).bind(category.to_owned());
        let (any,): (i64,) = any.fetch_one(&mut *connection).await?;
        if any > 0 {
            let why = "the recipient turned their category off";
            let aside = Self::open_excluded(&mut *connection, window, opted_out(window), why, now).await?;
            let statement = query(MOVE_CATEGORY).bind(id).bind(aside).bind(category.to_owned());
            statement.execute(connection).await?;
        }
        Ok(())
    }

    /// A digest that ends at once and sends nothing, so that the ledger has the events with the reason (rule 1).
    async fn open_excluded(
        connection: &mut D::Connection,
        window: &Window,
        aside: Uuid,
        why: &str,
        now: Timestamp,
    ) -> Result<String> {
        let statement = query(OPEN_EXCLUDED).bind(window.digest_id.to_string()).bind(aside.to_string());
        statement.bind(now.as_millisecond()).bind(why.to_owned()).execute(connection).await?;
        Ok(aside.to_string())
    }
}

/// The digest of those events of a window whose category the recipient turned off.
pub fn opted_out(window: &Window) -> Uuid {
    Uuid::new_v5(&window.digest_id, b"opted out")
}
