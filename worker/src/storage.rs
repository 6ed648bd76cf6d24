//! The store of the configuration.

use std::sync::Arc;

use anyhow::Context as _;
use tidings_store::{Postgres, Storage, Store};

use crate::{
    config::{self, Problem, SecretUrl},
    error::Usage,
};

/// Opens the store of the configuration, whose tables are those of this version.
///
/// # Errors
/// It does not answer, the file cannot be opened, or the tables are not: names the command to run.
pub async fn open(url: &SecretUrl) -> anyhow::Result<Arc<dyn Store>> {
    Ok(connect(url).await?.ready().await?)
}

/// Brings the tables to this version's.
///
/// # Errors
/// The store does not answer, the file cannot be opened, a statement failed, or another version of Tidings migrated the
/// database differently.
pub async fn migrate(url: &SecretUrl) -> anyhow::Result<()> {
    Ok(connect(url).await?.migrate().await?)
}

/// Connects to the PostgreSQL database of an option of the command line.
///
/// # Errors
/// It does not answer, or has no TLS on another machine.
pub async fn connect_to(option: &str, url: &SecretUrl) -> anyhow::Result<Postgres> {
    let connected = Postgres::connect(url.reveal()).await;
    if let Err(error) = &connected
        && error.is_about_tls()
    {
        return Err(Usage(format!("{option} {url}: {}", without_tls(error))).into());
    }
    connected.with_context(|| format!("database {url}; {option} names it"))
}

/// The problem of a database on another machine without TLS, which Tidings connects to only in so many words (rule 53).
fn without_tls(error: &tidings_store::Error) -> String {
    format!(
        "{error}; PostgreSQL on another machine needs TLS: turn ssl on there, or add sslmode=disable if everyone on the way may \
         read and change what goes there"
    )
}

async fn connect(url: &SecretUrl) -> anyhow::Result<Storage> {
    let connected = Storage::connect(url.reveal()).await;
    if let Err(error) = &connected
        && error.is_about_tls()
    {
        let problem = Problem {
            place: "here".to_owned(),
            key: "database_url".to_owned(),
            value: url.to_string(),
            problem: without_tls(error),
        };
        return Err(config::Error::Wrong(vec![problem]).into());
    }
    connected.with_context(|| format!("database {url}; TIDINGS_DATABASE_URL or database_url names it"))
}
