//! Reads a team's own directory with a query in their PostgreSQL.
//!
//! We wrap the query in one that returns at most two rows, in a read-only transaction with a server-side
//! timeout.

use std::{sync::Arc, time::Duration};

use sqlx::{
    AssertSqlSafe, Column as _, Executor as _, SqlSafeStr as _, Statement as _, TypeInfo as _,
    postgres::{PgTypeInfo, PgTypeKind},
    query_as,
};
use tidings_model::{PersonId, nearest_name};
use tokio::time::timeout;

use super::{pool::DatabasePool, transport::connect_options};

const CONNECTIONS: usize = 4;
/// For a lookup, from waiting for a connection to the last byte.
const TIME: Duration = Duration::from_secs(2);
/// The server's timeout should end the query before ours does.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = 1500";
/// A longer result is cut, and will then be invalid JSON.
const ANSWER_CHARS: usize = 16 << 10;
/// The query's columns. All except the first are optional.
const COLUMNS: [&str; 4] = ["email", "name", "zone", "locale"];
/// PostgreSQL's class for errors about a value (Appendix A), e.g. an id that is not a number.
const DATA_EXCEPTION: &str = "22";

pub struct TeamQuery {
    pool: DatabasePool<sqlx::Postgres>,
    answer: Arc<str>,
    columns: Arc<str>,
}

/// Only [`TeamQueryOutcome::Row`] contains values from a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeamQueryOutcome {
    /// The row as JSON. Contains an address: do not log it.
    Row(String),
    NoRow,
    Wrong(String),
    Away(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongQuery {
    #[error("{0}")]
    Away(String),
    #[error("{0}")]
    Wrong(String),
}

impl TeamQuery {
    /// Prepares connections to `postgres://...` without opening any. The query's parameters are `$1` tenant
    /// and `$2` user, both text.
    ///
    /// # Errors
    /// The URL is invalid. The error does not contain it.
    pub fn new(url: &str, query: &str) -> Result<Self, String> {
        let options = connect_options(url).map_err(|_| "is not a PostgreSQL URL".to_owned())?;
        let options = options.application_name("tidings directory");
        // The line breaks below end a trailing comment in the query.
        let query = query.trim().trim_end_matches(';');
        Ok(Self {
            pool: DatabasePool::new(options, CONNECTIONS, TIME),
            answer: format!(
                "SELECT left(to_jsonb(recipient)::text, {ANSWER_CHARS}) FROM (\n{query}\n) AS recipient LIMIT 2"
            )
            .into(),
            columns: format!("SELECT * FROM (\n{query}\n) AS recipient").into(),
        })
    }

    pub async fn look_up(&self, person: &PersonId) -> TeamQueryOutcome {
        match timeout(TIME, self.query_rows(person)).await {
            Ok(Ok(rows)) => match rows.as_slice() {
                [] => TeamQueryOutcome::NoRow,
                [row] => TeamQueryOutcome::Row(row.clone()),
                [_, ..] => TeamQueryOutcome::Wrong("the query has more than one row for the person".to_owned()),
            },
            Ok(Err(sqlx::Error::Database(error))) if is_about_a_value(&*error) => {
                TeamQueryOutcome::Wrong(format!("the query fails for the person ({})", error_code(&*error)))
            }
            Ok(Err(error)) => TeamQueryOutcome::Away(without_values(&error)),
            Err(_) => TeamQueryOutcome::Away(timeout_message()),
        }
    }

    async fn query_rows(&self, PersonId { tenant, user }: &PersonId) -> sqlx::Result<Vec<String>> {
        let mut work = self.pool.begin(BEGIN).await?;
        // Poolers that share sessions do not support named statements.
        let rows = query_as(AssertSqlSafe(Arc::clone(&self.answer))).persistent(false).bind(tenant).bind(user);
        let rows: Vec<(String,)> = rows.fetch_all(&mut *work).await?;
        work.rollback().await?;
        Ok(rows.into_iter().map(|(row,)| row).collect())
    }

    /// Checks that the database accepts the query and its columns are usable, without running it.
    ///
    /// # Errors
    /// See [`WrongQuery`].
    pub async fn check_query(&self) -> Result<(), WrongQuery> {
        match timeout(TIME * 2, self.prepare_columns()).await {
            Ok(Ok(columns)) => check_columns(&columns).map_err(WrongQuery::Wrong),
            // No values were sent yet, so this message only concerns the query.
            Ok(Err(sqlx::Error::Database(error))) if is_about_the_query(&*error) => Err(WrongQuery::Wrong(format!(
                "the database refuses it: {} ({})",
                error.message(),
                error_code(&*error)
            ))),
            Ok(Err(error)) => Err(WrongQuery::Away(without_values(&error))),
            Err(_) => Err(WrongQuery::Away(timeout_message())),
        }
    }

    async fn prepare_columns(&self) -> sqlx::Result<Vec<(String, PgTypeInfo)>> {
        let text = || <str as sqlx::Type<sqlx::Postgres>>::type_info();
        let mut work = self.pool.begin(BEGIN).await?;
        let statement = AssertSqlSafe(Arc::clone(&self.columns)).into_sql_str();
        let prepared = (&mut *work).prepare_with(statement, &[text(), text()]).await?;
        let columns = prepared.columns().iter().map(|column| (column.name().to_owned(), column.type_info().clone()));
        let columns = columns.collect();
        work.rollback().await?;
        Ok(columns)
    }
}

fn check_columns(columns: &[(String, PgTypeInfo)]) -> Result<(), String> {
    let all = COLUMNS.join(", ");
    for (name, kind) in columns {
        if !COLUMNS.contains(&name.as_str()) {
            let meant = nearest_name(name, COLUMNS.into_iter()).map(|near| format!("; did you mean {near:?}?"));
            let meant = meant.unwrap_or_else(|| "; leave it out".to_owned());
            return Err(format!("has a column {name:?}, and takes only {all}{meant}"));
        }
        if !is_text(kind) {
            let kind = kind.name().to_lowercase();
            return Err(format!("has a column {name:?} of type {kind}; write {name}::text"));
        }
        if columns.iter().filter(|(other, _)| other == name).count() > 1 {
            return Err(format!("has two columns {name:?}; leave one out"));
        }
    }
    if columns.iter().any(|(name, _)| name == "email") {
        return Ok(());
    }
    Err(format!("has no column \"email\"; it takes {all}, each named so with AS"))
}

fn is_text(kind: &PgTypeInfo) -> bool {
    match kind.kind() {
        PgTypeKind::Domain(inner) => is_text(inner),
        PgTypeKind::Enum(_) => true,
        _ => ["text", "varchar", "char", "name", "citext", "unknown"].contains(&kind.name().to_lowercase().as_str()),
    }
}

fn is_about_a_value(error: &dyn sqlx::error::DatabaseError) -> bool {
    error_code(error).starts_with(DATA_EXCEPTION)
}

/// Syntax, names, types and privileges (42), features a statement may not use (0A), an unknown login (28) or
/// database (3D).
fn is_about_the_query(error: &dyn sqlx::error::DatabaseError) -> bool {
    ["42", "0A", "28", "3D", DATA_EXCEPTION].iter().any(|class| error_code(error).starts_with(class))
}

fn error_code(error: &dyn sqlx::error::DatabaseError) -> String {
    error.code().map(String::from).unwrap_or_default()
}

/// Leaves out the database's own message, because this may contain a value from a row.
fn without_values(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => format!("the database refuses the query ({})", error_code(&**error)),
        sqlx::Error::Io(error) => format!("the database does not answer ({})", error.kind()),
        sqlx::Error::PoolTimedOut => timeout_message(),
        _ => "the database does not answer".to_owned(),
    }
}

fn timeout_message() -> String {
    format!("the database does not answer within {} s", TIME.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_and_of_text() {
        let text = || <str as sqlx::Type<sqlx::Postgres>>::type_info();
        let number = || <i64 as sqlx::Type<sqlx::Postgres>>::type_info();
        let said = |columns: &[(&str, PgTypeInfo)]| {
            let columns: Vec<_> = columns.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
            check_columns(&columns).err().unwrap_or_default()
        };
        assert_eq!(said(&[("email", text()), ("zone", text())]), "");
        for (columns, problem) in [
            (vec![("name", text())], "has no column \"email\"; it takes email, name, zone, locale"),
            (
                vec![("email", text()), ("zon", text())],
                "has a column \"zon\", and takes only email, name, zone, locale; did you mean \"zone\"?",
            ),
            (vec![("email", text()), ("name", number())], "has a column \"name\" of type int8; write name::text"),
            (vec![("email", text()), ("email", text())], "has two columns \"email\""),
        ] {
            assert!(said(&columns).starts_with(problem), "{}", said(&columns));
        }
    }
}
