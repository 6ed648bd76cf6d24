//! The store of a bench: the worker opens it in a process of its own, and the bench reads it afterwards.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use jiff::Timestamp;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tidings_harness::env::{self, sqlite};
use tidings_store::{Store, StoreBackend};
use uuid::Uuid;

use crate::process::{cpu_with_children, parent};

const DEADLINES: &str = "SELECT digest_id, due_at FROM digests";

/// A migrated store.
pub enum Ledger {
    /// In a folder of its own.
    Sqlite(TempDir),
    Postgres {
        url: String,
        /// The process of the server that all its other processes are children of. It runs on this machine.
        postmaster: u32,
    },
}

impl Ledger {
    pub async fn sqlite() -> Result<Self> {
        let folder = TempDir::new()?;
        sqlite(folder.path()).await?;
        Ok(Self::Sqlite(folder))
    }

    /// In the empty database at `url`.
    pub async fn postgres(url: String) -> Result<Self> {
        StoreBackend::connect(&url).await?.migrate().await?;
        let mut connection = PgConnection::connect(&url).await?;
        let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
        Ok(Self::Postgres { url, postmaster: parent(u32::try_from(backend)?)? })
    }

    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => env::sqlite_url(folder.path()),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    /// The answer of a counting query.
    pub async fn count(&self, query: &'static str) -> Result<i64> {
        match self {
            Self::Sqlite(folder) => env::count(folder.path(), query).await,
            Self::Postgres { url, .. } => {
                Ok(sqlx::query_scalar(query).fetch_one(&mut PgConnection::connect(url).await?).await?)
            }
        }
    }

    /// The deadline of each digest.
    pub async fn deadlines(&self) -> Result<BTreeMap<Uuid, Timestamp>> {
        let rows: Vec<(String, i64)> = match self {
            Self::Sqlite(folder) => sqlx::query_as(DEADLINES).fetch_all(&mut env::ledger(folder.path()).await?).await?,
            Self::Postgres { url, .. } => {
                sqlx::query_as(DEADLINES).fetch_all(&mut PgConnection::connect(url).await?).await?
            }
        };
        rows.into_iter().map(|(id, due_at)| Ok((id.parse()?, Timestamp::from_millisecond(due_at)?))).collect()
    }

    /// The CPU time so far of the database's processes; `None` for SQLite, which is a part of the worker.
    pub fn cpu(&self) -> Result<Option<Duration>> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres { postmaster, .. } => cpu_with_children(*postmaster).map(Some),
        }
    }
}

/// Opens the store at the URL of a [`Ledger`].
pub async fn open(url: &str) -> Result<Arc<dyn Store>> {
    Ok(StoreBackend::connect(url).await?.checked_store().await?)
}
