//! SQLite: the embedded default. One connection writes, so that writers wait in line instead of failing with `SQLITE_BUSY`.
//! The other connections read at the same time (WAL).

use std::{
    fs::{DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use sqlx::{
    SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteQueryResult, SqliteSynchronous},
};
use tokio::sync::OnceCell;

use super::{
    Sql,
    dialect::{Dialect, Session, Variants},
    group_commit::{Arrivals, Dots},
    pool::Pool,
    schema::{self, migrator},
};
use crate::{Error, Result};

/// Time limit of a wait for another process that writes, for example `tidings` on the command line.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const READERS: usize = 4;
/// Time limit of a call's wait for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);

impl Sql<sqlx::Sqlite> {
    /// Opens the file of `sqlite:PATH`. Creates a missing file and a missing folder.
    ///
    /// # Errors
    /// The address cannot be read, or the file cannot be opened.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = SqliteConnectOptions::from_str(url)?
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL may lose the last commits when the machine loses power, and Temporal would remember them as done: a claim
            // without its events, a dot that was never recorded. FULL costs one fsync a commit.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            // A statement journal over 64 KiB would need a folder for temporary files, which a container may not have. A statement
            // touches 500 rows at most.
            .pragma("temp_store", "MEMORY")
            .foreign_keys(true);
        let file = options.get_filename();
        create(file).map_err(|error| Error::Broken(format!("cannot create {}: {error}", file.display())))?;
        let writer = Pool::<sqlx::Sqlite>::new(options.clone(), 1, ACQUIRE_TIMEOUT);
        writer.acquire().await?.release();
        let reader = Pool::new(options.pragma("query_only", "ON"), READERS, ACQUIRE_TIMEOUT);
        Ok(Self {
            writer: Arc::new(writer),
            reader: Arc::new(reader),
            past_the_dot: Dots::default(),
            arrivals: Arrivals::default(),
            pseudonyms: OnceCell::new(),
        })
    }

    /// Brings the tables to this version.
    ///
    /// # Errors
    /// A statement failed, or another version of Tidings migrated the database differently.
    pub async fn migrate(&self) -> Result<()> {
        Ok(migrator(&schema::SQLITE).run(&mut *self.writer.acquire().await?).await?)
    }
}

/// Creates the file for its owner only: it will contain addresses and messages. SQLite gives its other files the same mode. An
/// existing file is not opened: to close it again would release the locks of this process's connections (POSIX).
fn create(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

impl Dialect for sqlx::Sqlite {
    /// Takes the lock at once: a transaction that reads first may find later that it cannot write.
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";
    const BEGIN_READ: &'static str = "BEGIN";
    /// A transaction that writes has locked the whole database.
    const SKIP_LOCKED: &'static str = "";
    /// `jsonb_each` in all statements that take fields of elements. The elements of `json_each` are text, which each field
    /// would parse again: 500 events take 3.1 ms to insert with it, and 1.7 ms with `jsonb_each`.
    const EACH_OF_1: &'static str = "jsonb_each($1)";

    /// A file does not hang up.
    const HANGS_UP: bool = false;

    async fn prepare(_connection: &mut SqliteConnection) -> sqlx::Result<Option<Session>> {
        Ok(None)
    }

    async fn at_work(_connection: &mut SqliteConnection, _pids: &[i32]) -> sqlx::Result<Vec<Session>> {
        Ok(Vec::new())
    }

    async fn end(_connection: &mut SqliteConnection, _session: &Session) -> sqlx::Result<bool> {
        Ok(true)
    }

    /// The number of the file, which a copy does not have.
    fn place(said: &str) -> String {
        std::fs::metadata(said).map_or_else(|_| String::new(), |file| format!("sqlite/{}", file.ino()))
    }

    fn pick(statement: Variants) -> &'static str {
        statement.sqlite
    }

    fn rows(result: &SqliteQueryResult) -> u64 {
        result.rows_affected()
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Ledger as _, Sqlite,
        conformance::{at, events, window},
    };

    #[tokio::test]
    async fn no_connection_needs_a_folder_for_temporary_files() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("tidings.db").display());
        let store = Sqlite::connect(&url).await.unwrap();
        for pool in [&store.writer, &store.reader] {
            let kept: (i64,) =
                sqlx::query_as("PRAGMA temp_store").fetch_one(&mut *pool.acquire().await.unwrap()).await.unwrap();
            assert_eq!(kept, (2,), "in memory");
        }
    }

    /// SQLite rolls back by itself on a full disk.
    #[tokio::test]
    async fn a_rollback_by_sqlite_itself_does_not_break_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("tidings.db").display());
        let store = Sqlite::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let mut transaction = store.write().await.unwrap();
        sqlx::query("ROLLBACK").execute(&mut *transaction).await.unwrap();
        drop(transaction);
        assert_eq!(store.stash(&window(1), &events(&["e1"]), None, at(1)).await.unwrap(), 1);
    }
}
