//! A database of its own for each test, in the PostgreSQL server that `./dev test` names.

use std::env;

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, Executor, PgConnection};
use uuid::Uuid;

/// The URL of a new, empty database; `None`, and a line that says so, without a server. It goes with the server:
/// `./dev test` throws its own away.
///
/// # Errors
/// When the server that `TIDINGS_TEST_DATABASE_URL` names does not answer, or none is named in CI.
pub async fn database() -> Result<Option<String>> {
    database_in("TIDINGS_TEST_DATABASE_URL").await
}

/// The same in the server that another variable names.
///
/// # Errors
/// When it does not answer, or none is named in CI.
pub async fn database_in(variable: &'static str) -> Result<Option<String>> {
    let Ok(server) = env::var(variable) else {
        ensure!(env::var("CI").as_deref() != Ok("true"), "{variable} is not set, and this is CI");
        println!("left out: {variable} is not set");
        return Ok(None);
    };
    let name = format!("tidings_{}", Uuid::new_v4().simple());
    let mut connection = PgConnection::connect(&server).await.context(variable)?;
    connection.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
    let mut url: url::Url = server.parse()?;
    url.set_path(&name);
    Ok(Some(url.into()))
}

/// Whether a statement in the connection's database waits for a lock.
///
/// # Errors
/// The database does not answer.
pub async fn waits(connection: &mut PgConnection) -> Result<Option<()>> {
    let waiting =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let count: i64 = sqlx::query_scalar(waiting).fetch_one(connection).await?;
    Ok((count > 0).then_some(()))
}
