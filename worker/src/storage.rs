//! Opens the configured store.

use std::sync::Arc;

use anyhow::Context as _;
use tidings_store::{PostgresStore, Store, StoreBackend};

use crate::{
    config::{self, ConfigProblem, SecretUrl},
    error::UsageError,
};

/// Opens the store. Its schema must match this version.
///
/// # Errors
/// The database does not respond, the file cannot be opened, or the schema does not match. The error names
/// the command to run.
pub async fn open(url: &SecretUrl) -> anyhow::Result<Arc<dyn Store>> {
    Ok(connect(url).await?.checked_store().await?)
}

/// Migrates the schema to this version.
///
/// # Errors
/// The store does not respond, the file cannot be opened, a statement failed, or another version of Tidings
/// migrated the database differently.
pub async fn migrate(url: &SecretUrl) -> anyhow::Result<()> {
    Ok(connect(url).await?.migrate().await?)
}

/// Connects to the PostgreSQL database given by a command line option.
///
/// # Errors
/// The database does not respond, or is on another machine and has no TLS.
pub async fn connect_to(option: &str, url: &SecretUrl) -> anyhow::Result<PostgresStore> {
    let wrong = |problem: String| UsageError(format!("{option} {url}: {problem}")).into();
    with_tls_remedy(PostgresStore::connect(url.reveal()).await, wrong, format!("database {url}; {option} names it"))
}

async fn connect(url: &SecretUrl) -> anyhow::Result<StoreBackend> {
    let wrong = |problem| {
        let (place, key, value) = ("here".to_owned(), "database_url".to_owned(), url.to_string());
        config::ConfigError::Wrong(vec![ConfigProblem { place, key, value, problem }]).into()
    };
    let database = format!("database {url}; TIDINGS_DATABASE_URL or database_url names it");
    with_tls_remedy(StoreBackend::connect(url.reveal()).await, wrong, database)
}

/// Adds context to a connection error. `wrong` builds the error for a database without TLS on another
/// machine, which must be accepted explicitly (rule 53).
fn with_tls_remedy<T>(
    connected: tidings_store::Result<T>,
    wrong: impl FnOnce(String) -> anyhow::Error,
    database: String,
) -> anyhow::Result<T> {
    match connected {
        Err(error) if error.is_about_tls() => Err(wrong(format!(
            "{error}; PostgreSQL on another machine needs TLS: turn ssl on there, or add sslmode=disable if anyone on the network path may \
             read and change what goes there"
        ))),
        connected => connected.context(database),
    }
}
