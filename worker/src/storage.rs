//! The store of the configuration.

use std::sync::Arc;

use anyhow::Context as _;
use tidings_store::{Storage, Store};

use crate::config::SecretUrl;

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

async fn connect(url: &SecretUrl) -> anyhow::Result<Storage> {
    let connected = Storage::connect(url.reveal()).await;
    connected.with_context(|| format!("database {url}; TIDINGS_DATABASE_URL or database_url names it"))
}
