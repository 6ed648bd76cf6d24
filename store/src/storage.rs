//! Opens the store for a URL. No other module chooses between the databases.

use std::sync::Arc;

use sqlx::query;

use crate::{
    PostgresStore, Result, SoleFile, SqliteStore, Store,
    sql::{SqlStore, calls, dialect::Dialect},
};

pub enum StoreBackend {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl StoreBackend {
    /// Connects to `sqlite:PATH`, creating the file if missing, or to `postgres://...`.
    ///
    /// # Errors
    /// The URL is invalid, the file cannot be opened, or the server does not reply.
    pub async fn connect(url: &str) -> Result<Self> {
        if url.starts_with("sqlite:") {
            SqliteStore::connect(url).await.map(Self::Sqlite)
        } else {
            PostgresStore::connect(url).await.map(Self::Postgres)
        }
    }

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
    pub async fn checked_store(self) -> Result<Arc<dyn Store>> {
        match &self {
            Self::Sqlite(store) => store.check_schema().await?,
            Self::Postgres(store) => store.check_schema().await?,
        }
        Ok(self.into_shared())
    }

    /// The compiler generates the store's methods where a database becomes a `dyn Store`. We keep this out of
    /// async functions, because they are generated again in each crate that awaits them; this took half of
    /// the largest crate's build time.
    fn into_shared(self) -> Arc<dyn Store> {
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
    pub async fn checked_store(&self) -> Result<Arc<dyn Store>> {
        Ok(self.checked_file().await?)
    }
}

calls! {
    pub trait DatabaseHealth {
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

impl<D: Dialect> SqlStore<D> {
    async fn ping(&self) -> Result<()> {
        query(PING).fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(())
    }

    async fn ping_writing(&self) -> Result<()> {
        let mut tx = self.begin_write().await?;
        query(PING_WRITING).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}
