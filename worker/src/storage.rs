//! The store of the configuration. Only this module names the databases.

use std::sync::Arc;

use anyhow::Context as _;
use tidings_store::{Postgres, Sqlite, Store};

use crate::config::SecretUrl;

/// A store, connected.
pub enum Storage {
    /// One file.
    Sqlite(Sqlite),
    /// A server.
    Postgres(Postgres),
}

impl Storage {
    /// Connects to the database of the configuration.
    ///
    /// # Errors
    /// It does not answer, or the file cannot be opened.
    pub async fn connect(url: &SecretUrl) -> anyhow::Result<Self> {
        let connected = if url.reveal().starts_with("sqlite:") {
            Sqlite::connect(url.reveal()).await.map(Self::Sqlite)
        } else {
            Postgres::connect(url.reveal()).await.map(Self::Postgres)
        };
        connected.with_context(|| format!("database {url}; TIDINGS_DATABASE_URL or database_url names it"))
    }

    /// Brings the tables to this version's.
    ///
    /// # Errors
    /// A statement failed, or another version of Tidings migrated the database differently.
    pub async fn migrate(&self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(store) => store.migrate().await?,
            Self::Postgres(store) => store.migrate().await?,
        }
        Ok(())
    }

    /// The store, whose tables are those of this version.
    ///
    /// # Errors
    /// They are not: names the command to run.
    pub async fn ready(self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Sqlite(store) => {
                store.check().await?;
                Arc::new(store)
            }
            Self::Postgres(store) => {
                store.check().await?;
                Arc::new(store)
            }
        })
    }
}
