//! The store of a URL. Only this module names the databases.

use std::sync::Arc;

use crate::{Postgres, Result, SoleFile, Sqlite, Store};

/// A store, connected.
pub enum Storage {
    /// One file.
    Sqlite(Sqlite),
    /// A server.
    Postgres(Postgres),
}

impl Storage {
    /// Connects to the database of `sqlite:PATH`, whose file is created if it is missing, or of `postgres://...`.
    ///
    /// # Errors
    /// The URL cannot be read, the file cannot be opened, or the server does not answer.
    pub async fn connect(url: &str) -> Result<Self> {
        if url.starts_with("sqlite:") {
            Sqlite::connect(url).await.map(Self::Sqlite)
        } else {
            Postgres::connect(url).await.map(Self::Postgres)
        }
    }

    /// Brings the tables to this version's.
    ///
    /// # Errors
    /// A statement failed, or another version of Tidings migrated the database differently.
    pub async fn migrate(&self) -> Result<()> {
        match self {
            Self::Sqlite(store) => store.migrate().await,
            Self::Postgres(store) => store.migrate().await,
        }
    }

    /// The store, whose tables are those of this version.
    ///
    /// # Errors
    /// They are not: names the command to run.
    pub async fn ready(self) -> Result<Arc<dyn Store>> {
        match &self {
            Self::Sqlite(store) => store.check().await?,
            Self::Postgres(store) => store.check().await?,
        }
        Ok(self.shared())
    }

    /// The compiler generates the store's methods where a database becomes a `dyn Store`. An async function would be generated with them
    /// in each crate that awaits it, which took half of the time of the largest crate.
    fn shared(self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::new(store),
            Self::Postgres(store) => Arc::new(store),
        }
    }
}

impl SoleFile {
    /// The store, whose tables are those of this version, and which was not copied yet.
    ///
    /// # Errors
    /// It is not: says what to do.
    pub async fn ready(&self) -> Result<Arc<dyn Store>> {
        Ok(self.checked().await?)
    }
}
