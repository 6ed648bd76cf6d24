//! The listing of digests: one statement for each index that leads into the table.

use sqlx::query_as;
use tidings_model::records::{Cursor, DigestFilter, DigestPlace, DigestRecord, DigestState, Listed};
use uuid::Uuid;

use crate::{
    Result,
    digest::{DigestRow, digest_columns},
    sql::{Sql, dialect::Dialect, no_nul},
};

/// `$1` tenant, `$2` digest type, `$3` user, `$4` outcome, `$5` state; each may be empty, except where the way in needs it. Opened
/// from `$6` until before `$7`. `$8`: only those that are overdue at `$9`. After the opening `$10` and the id `$11`; `$12` limit.
macro_rules! digests {
    ($way_in:literal, $opened_at:literal) => {
        concat!(
            digest_columns!(),
            "WHERE ",
            $way_in,
            " AND ($2 = '' OR d.digest_type = $2) AND ($3 = '' OR d.user_id = $3) AND ($4 = '' OR d.outcome = $4)
              AND ($5 = '' OR d.state = $5) AND (NOT $8 OR (d.state <> 'open' AND d.due_at < $9)) AND ",
            $opened_at,
            " >= $6 AND ",
            $opened_at,
            " < $7 AND (",
            $opened_at,
            ", d.digest_id) < ($10, $11) ORDER BY ",
            $opened_at,
            " DESC, d.digest_id DESC LIMIT $12"
        )
    };
}

pub const ALL: &str = digests!("($1 = '' OR d.tenant = $1)", "d.opened_at");
pub const OF_TENANT: &str = digests!("d.tenant = $1", "d.opened_at");
// A sum keeps the planner from the index by age, which leads past all other digests.
pub const OF_KEY: &str = digests!("d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3", "d.opened_at + 0");
/// The condition on `emptied_at` lets `digests_to_empty` answer.
pub const WITHOUT_END: &str =
    digests!("d.closed_at IS NULL AND d.emptied_at IS NULL AND ($1 = '' OR d.tenant = $1)", "d.opened_at + 0");

/// `$1` digest, `$2` tenant, empty for all.
pub const ONE: &str = concat!(digest_columns!(), "WHERE d.digest_id = $1 AND ($2 = '' OR d.tenant = $2)");

impl<D: Dialect> Sql<D> {
    pub(super) async fn digest_of(&self, tenant: Option<&str>, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        let one = query_as(ONE).bind(digest_id.to_string()).bind(no_nul(tenant.unwrap_or_default()));
        let row: Option<DigestRow> = one.fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(row.map(DigestRecord::from))
    }

    pub(super) async fn list_digests(&self, filter: &DigestFilter) -> Result<Listed<DigestRecord, DigestPlace>> {
        let DigestFilter { tenant, digest_type, user, outcome, state, since, until, overdue_at, page } = filter;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let name = |name: Option<&'static str>| name.unwrap_or_default().to_owned();
        let after = page.after.as_ref().map(|Cursor((at, id))| (at.as_millisecond(), id.to_string()));
        let (after_at, after_id) = after.unwrap_or((i64::MAX, String::new()));
        let rows = query_as(statement(filter))
            .bind(text(tenant))
            .bind(text(digest_type))
            .bind(text(user))
            .bind(name(outcome.map(|outcome| outcome.name())))
            .bind(name(state.map(|state| state.name())))
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(overdue_at.is_some())
            .bind(overdue_at.map_or(i64::MAX, |now| now.as_millisecond()))
            .bind(after_at)
            .bind(after_id)
            .bind(page.rows_to_read());
        let rows: Vec<DigestRow> = rows.fetch_all(&mut *self.reader.acquire().await?).await?;
        let rows = rows.into_iter().map(DigestRecord::from).collect();
        Ok(page.listed(rows, |last: &DigestRecord| (last.opened_at, last.digest_id)))
    }
}

/// The statement that reads the fewest rows.
fn statement(filter: &DigestFilter) -> &'static str {
    let without_end = filter.state.is_some_and(|state| state != DigestState::Closed);
    match filter {
        DigestFilter { tenant: Some(_), digest_type: Some(_), user: Some(_), .. } => OF_KEY,
        _ if filter.overdue_at.is_some() || without_end => WITHOUT_END,
        DigestFilter { tenant: Some(_), .. } => OF_TENANT,
        _ => ALL,
    }
}
