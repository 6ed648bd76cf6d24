//! Dead letters as operators list and read them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use sqlx::{query, query_as};
use tidings_model::{
    Key,
    records::{Cursor, DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord, Emitted, KeptLetter, Listed},
    without_addresses,
};

use crate::{
    Error, Result,
    sql::{
        Sql,
        columns::{column, record},
        dialect::{Dialect, Variants},
    },
};

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
    pub(super) async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
    ) -> Result<Listed<DeadLetterRecord, DeadLetterPlace>> {
        let DeadLetterFilter { since, until, page, .. } = filter;
        let workflow_ids = filter.workflow_ids().unwrap_or_else(|| "*".to_owned());
        let after = page.after.as_ref().map(|Cursor((at, run_id, seq))| (at.as_millisecond(), run_id.clone(), *seq));
        let (after_at, after_run, after_seq) = after.unwrap_or((i64::MAX, String::new(), 0));
        let statement = if workflow_ids.contains('*') { D::pick(OF_WORKFLOWS) } else { OF_WORKFLOW };
        let rows = query(statement)
            .bind(workflow_ids)
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(after_at)
            .bind(after_run)
            .bind(i64::try_from(after_seq).unwrap_or(i64::MAX))
            .bind(page.rows_to_read());
        let rows = rows.try_map(Self::to_record).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(page.listed(rows, |last: &DeadLetterRecord| (last.buried_at, last.id.run_id.clone(), last.id.seq)))
    }

    pub(super) async fn dead_letter(&self, tenant: Option<&str>, id: &DeadLetterId) -> Result<Option<KeptLetter>> {
        let mut connection = self.reader.acquire().await?;
        let seq = letter_number(id);
        let row = query(ONE).bind(&id.run_id).bind(seq).bind(tenant.map(Key::workflow_ids_of).unwrap_or_default());
        let record = row.try_map(Self::to_record).fetch_optional(&mut *connection).await?;
        let Some(record) = record else { return Ok(None) };
        let head: Option<(String,)> =
            query_as(HEAD).bind(&id.run_id).bind(seq).fetch_optional(&mut *connection).await?;
        let Some((head,)) = head else { return Ok(None) };
        let not_base64 = |error| Error::Broken(format!("the payload of dead letter {id} is not base64: {error}"));
        Ok(Some(KeptLetter { record, head: BASE64_STANDARD.decode(head).map_err(not_base64)? }))
    }
}

/// The number of a letter as a parameter. No letter has a number beyond the type.
pub fn letter_number(id: &DeadLetterId) -> i64 {
    i64::try_from(id.seq).unwrap_or(i64::MAX)
}

record!(row => DeadLetterRecord {
    id: DeadLetterId { run_id: column(row, "run_id")?, seq: column(row, "seq")? },
    workflow_id,
    buried_at,
    // A field's name may be an address.
    reason: without_addresses(&column::<_, String>(row, "reason")?),
    encoding,
    message_type,
    size,
    sha256,
    emitted: emitted::<D>(row)?,
});

/// When a letter's events were emitted again, and by whom.
pub fn emitted<D: Dialect>(row: &D::Row) -> sqlx::Result<Option<Emitted>> {
    let Some(at) = column(row, "emitted_at")? else { return Ok(None) };
    Ok(Some(Emitted { at, by: column::<_, Option<String>>(row, "emitted_by")?.unwrap_or_default() }))
}
