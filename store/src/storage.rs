//! The store of a URL. Only this module names the databases.

use std::sync::Arc;

use sqlx::query;

use crate::{
    Postgres, Result, SoleFile, Sqlite, Store,
    sql::{Sql, calls, dialect::Dialect},
};

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

calls! {
    /// The state of the database.
    pub trait Health {
        /// Reads one row, to see that the database answers and has the tables.
        async fn ping(&self) -> Result<()>;

        /// Writes one row, to see that the database takes what it is given: it may be read-only or full, or wait for a standby.
        async fn ping_writing(&self) -> Result<()>;
    }
}

/// Reads a table, because SQLite answers `SELECT 1` without its file.
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
