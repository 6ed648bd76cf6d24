//! A database for each test, in the PostgreSQL server that `./dev test` starts.

use std::env;

use anyhow::{Context, Result};
use sqlx::{Connection, Executor, PgConnection};
use uuid::Uuid;

/// Creates an empty database and answers with its URL. The database stays until the server is removed.
///
/// # Errors
/// When `TIDINGS_TEST_DATABASE_URL` is not set, or its server does not answer.
pub async fn database() -> Result<String> {
    database_in("TIDINGS_TEST_DATABASE_URL").await
}

/// Creates an empty database if a server is named.
///
/// # Errors
/// When the server does not answer.
pub async fn optional_database() -> Result<Option<String>> {
    if env::var_os("TIDINGS_TEST_DATABASE_URL").is_none() {
        return Ok(None);
    }
    database().await.map(Some)
}

/// Creates an empty database in the server that another variable names.
///
/// # Errors
/// When the variable is not set, or its server does not answer.
pub async fn database_in(variable: &'static str) -> Result<String> {
    let server = env::var(variable).with_context(|| format!("{variable} is not set"))?;
    let name = format!("tidings_{}", Uuid::new_v4().simple());
    let mut connection = PgConnection::connect(&server).await.context(variable)?;
    connection.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
    let mut url: url::Url = server.parse()?;
    url.set_path(&name);
    Ok(url.into())
}

/// Answers once a statement in the connection's database waits for a lock.
///
/// # Errors
/// When the database does not answer.
pub async fn waits(connection: &mut PgConnection) -> Result<Option<()>> {
    let waiting =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let count: i64 = sqlx::query_scalar(waiting).fetch_one(connection).await?;
    Ok((count > 0).then_some(()))
}
