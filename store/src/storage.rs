//! Opens the store for a URL. Only this module chooses between the databases.

use std::sync::Arc;

use sqlx::query;

use crate::{
    Postgres, Result, SoleFile, Sqlite, Store,
    sql::{Sql, calls, dialect::Dialect},
};

pub enum Storage {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Storage {
    /// Connects to `sqlite:PATH`, creating the file if missing, or to `postgres://...`.
    ///
    /// # Errors
    /// The URL is invalid, the file cannot be opened, or the server does not reply.
    pub async fn connect(url: &str) -> Result<Self> {
        if url.starts_with("sqlite:") {
            Sqlite::connect(url).await.map(Self::Sqlite)
        } else {
            Postgres::connect(url).await.map(Self::Postgres)
        }
    }

    /// Migrates the tables to this version.
    ///
    /// # Errors
    /// A statement failed, or another version of Tidings migrated the database differently.
    pub async fn migrate(&self) -> Result<()> {
        match self {
            Self::Sqlite(store) => store.migrate().await,
            Self::Postgres(store) => store.migrate().await,
        }
    }

    /// The store, once the schema version is checked.
    ///
    /// # Errors
    /// The tables have another version; the error contains the command to run.
    pub async fn ready(self) -> Result<Arc<dyn Store>> {
        match &self {
            Self::Sqlite(store) => store.check().await?,
            Self::Postgres(store) => store.check().await?,
        }
        Ok(self.shared())
    }

    /// The compiler generates the store's methods where a database becomes a `dyn Store`. We keep this out of
    /// async functions, because they are generated again in each crate that awaits them; this took half of
    /// the build time for the largest crate.
    fn shared(self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::new(store),
            Self::Postgres(store) => Arc::new(store),
        }
    }
}

impl SoleFile {
    /// The store, once its schema version is checked and it was not copied before.
    ///
    /// # Errors
    /// A check failed; the error contains the action to take.
    pub async fn ready(&self) -> Result<Arc<dyn Store>> {
        Ok(self.checked().await?)
    }
}

calls! {
    pub trait Health {
        /// Reads one row, to check that the database replies and has the tables.
        async fn ping(&self) -> Result<()>;

        /// Writes one row, to check that the database accepts writes: it may be read-only, full, or waiting
        /// for a standby.
        async fn ping_writing(&self) -> Result<()>;
    }
}

/// Reads a table, because SQLite can run `SELECT 1` without its file.
pub const PING: &str = "SELECT 1 FROM relays LIMIT 1";

pub const PING_WRITING: &str = "UPDATE installation SET beat_at = beat_at";

impl<D: Dialect> Sql<D> {
    async fn ping(&self) -> Result<()> {
        query(PING).fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(())
    }

    async fn ping_writing(&self) -> Result<()> {
        let mut tx = self.write().await?;
        query(PING_WRITING).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}
