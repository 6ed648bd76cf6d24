//! Dead letters as operators list and read them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use sqlx::query_as;
use tidings_model::records::{
    Cursor, DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord, Emitted, KeptLetter, Listed,
};
use tidings_model::{Key, without_addresses};

use super::super::Sql;
use super::super::columns::row;
use super::super::dialect::{Dialect, Variants};
use crate::{Error, Result};

macro_rules! letter_columns {
    () => {
        "SELECT workflow_id, run_id, seq, reason, encoding, message_type, size, sha256, buried_at, emitted_at, emitted_by
         FROM dead_letters "
    };
}

/// `$1` workflow ids. Buried from `$2` until before `$3`. After the time `$4`, the run `$5` and the number `$6`; `$7` limit.
macro_rules! letters {
    ($of_workflows:literal) => {
        concat!(
            letter_columns!(),
            "WHERE ",
            $of_workflows,
            " AND buried_at >= $2 AND buried_at < $3 AND (buried_at, run_id, seq) < ($4, $5, $6)
              ORDER BY buried_at DESC, run_id DESC, seq DESC LIMIT $7"
        )
    };
}

/// `*` in `$1` stands for any text. LIKE of SQLite takes `a` for `A`.
pub const OF_WORKFLOWS: Variants = Variants {
    sqlite: letters!("workflow_id GLOB $1"),
    postgres: letters!("workflow_id LIKE replace(replace(replace($1, '%', '!%'), '_', '!_'), '*', '%') ESCAPE '!'"),
};
pub const OF_WORKFLOW: &str = letters!("workflow_id = $1");

/// The beginning of every workflow id.
pub const ANY_WORKFLOW: &str = "";

/// `$1` run, `$2` number, `$3` the beginning of the workflow id.
pub const ONE: &str =
    concat!(letter_columns!(), "WHERE run_id = $1 AND seq = $2 AND substr(workflow_id, 1, length($3)) = $3");

/// `$1` run, `$2` number.
pub const HEAD: &str = "SELECT head FROM dead_letters WHERE run_id = $1 AND seq = $2";

impl<D: Dialect> Sql<D> {
    pub(super) async fn letters_page(
        connection: &mut D::Connection,
        filter: &DeadLetterFilter,
    ) -> Result<Listed<DeadLetterRecord, DeadLetterPlace>> {
        let DeadLetterFilter { since, until, page, .. } = filter;
        let workflow_ids = filter.workflow_ids().unwrap_or_else(|| "*".to_owned());
        let after = page.after.as_ref().map(|Cursor((at, run_id, seq))| (at.as_millisecond(), run_id.clone(), *seq));
        let (after_at, after_run, after_seq) = after.unwrap_or((i64::MAX, String::new(), 0));
        let statement = if workflow_ids.contains('*') { D::pick(OF_WORKFLOWS) } else { OF_WORKFLOW };
        let rows = query_as(statement)
            .bind(workflow_ids)
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(after_at)
            .bind(after_run)
            .bind(i64::try_from(after_seq).unwrap_or(i64::MAX))
            .bind(page.rows_to_read());
        let rows: Vec<LetterRow> = rows.fetch_all(connection).await?;
        let rows = rows.into_iter().map(DeadLetterRecord::from).collect();
        Ok(page.listed(rows, |last: &DeadLetterRecord| (last.buried_at, last.id.run_id.clone(), last.id.seq)))
    }

    pub(super) async fn kept_letter(
        connection: &mut D::Connection,
        tenant: Option<&str>,
        id: &DeadLetterId,
    ) -> Result<Option<KeptLetter>> {
        let seq = letter_number(id);
        let row = query_as(ONE).bind(&id.run_id).bind(seq).bind(tenant.map(Key::workflow_ids_of).unwrap_or_default());
        let row: Option<LetterRow> = row.fetch_optional(&mut *connection).await?;
        let Some(row) = row else { return Ok(None) };
        let head: Option<(String,)> = query_as(HEAD).bind(&id.run_id).bind(seq).fetch_optional(connection).await?;
        let Some((head,)) = head else { return Ok(None) };
        let not_base64 = |error| Error::Broken(format!("the payload of dead letter {id} is not base64: {error}"));
        Ok(Some(KeptLetter { record: row.into(), head: BASE64_STANDARD.decode(head).map_err(not_base64)? }))
    }
}

/// The number of a letter as a parameter. No letter has a number beyond the type.
pub fn letter_number(id: &DeadLetterId) -> i64 {
    i64::try_from(id.seq).unwrap_or(i64::MAX)
}

row! {
/// Columns of the listings.
pub struct LetterRow {
    workflow_id: String,
    run_id: String,
    seq: u64,
    reason: String,
    encoding: String,
    message_type: Option<String>,
    size: u64,
    sha256: String,
    buried_at: Timestamp,
    emitted_at: Option<Timestamp>,
    emitted_by: Option<String>,
}
}

impl From<LetterRow> for DeadLetterRecord {
    fn from(row: LetterRow) -> Self {
        let emitted = row.emitted_at.map(|at| Emitted { at, by: row.emitted_by.unwrap_or_default() });
        Self {
            id: DeadLetterId { run_id: row.run_id, seq: row.seq },
            workflow_id: row.workflow_id,
            buried_at: row.buried_at,
            // A field's name may be an address.
            reason: without_addresses(&row.reason),
            encoding: row.encoding,
            message_type: row.message_type,
            size: row.size,
            sha256: row.sha256,
            emitted,
        }
    }
}
