//! SQLite, the embedded default. Only one connection writes, so writers queue instead of failing with
//! `SQLITE_BUSY`. The others read concurrently (WAL).

use std::{
    fs::{DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    str::FromStr,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use sqlx::{
    Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteQueryResult, SqliteSynchronous},
};
use tokio::sync::OnceCell;

use super::{
    SqlStore,
    dialect::{Dialect, ServerSession, StatementVariants},
    group_commit::{ArrivalQueue, CommitQueue},
    pool::DatabasePool,
    schema::{self, migrator},
};
use crate::sql::pool::OpenFile;
use crate::{Result, StoreError};

/// For waiting while another process writes, e.g. the `tidings` command.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process that just exited may take to close the file.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(2);
/// For waiting for another migration. Building an index over all rows takes minutes.
const MIGRATION_PATIENCE: Duration = Duration::from_mins(10);
const SQLITE_BUSY: i32 = 5;
const READERS: usize = 4;
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);

impl SqlStore<sqlx::Sqlite> {
    /// Opens the file at `sqlite:PATH`. Creates the file and its folder if missing.
    ///
    /// # Errors
    /// The URL is invalid, or the file cannot be opened.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = file_options(url)?;
        let file = options.get_filename();
        create_file(file).map_err(|error| StoreError::Broken(format!("cannot create {}: {error}", file.display())))?;
        let open = OpenFile::at_path(file).map(Arc::new);
        let writer = DatabasePool::<sqlx::Sqlite>::new(options.clone(), 1, ACQUIRE_TIMEOUT).of_file(open.clone());
        writer.acquire().await?.release();
        let reader =
            DatabasePool::new(options.pragma("query_only", "ON"), READERS, ACQUIRE_TIMEOUT).of_file(open.clone());
        Ok(Self::from_pools(Arc::new(writer), Arc::new(reader), open))
    }

    /// Opens the existing file at `sqlite:PATH` exclusively. SQLite's lock detects every process that has it
    /// open, even a frozen one.
    ///
    /// # Errors
    /// Another process has the file open, there is no file, or it cannot be opened.
    pub(crate) async fn connect_alone(url: &str) -> Result<Self> {
        let options = file_options(url)?.locking_mode(SqliteLockingMode::Exclusive).busy_timeout(CLOSING_TIMEOUT);
        let file = options.get_filename().display().to_string();
        let pool = Arc::new(DatabasePool::<sqlx::Sqlite>::new(options, 1, ACQUIRE_TIMEOUT));
        match pool.acquire().await {
            Ok(connection) => connection.release(),
            Err(error) if is_busy(&error) => {
                return Err(StoreError::Broken(format!(
                    "another process has {file} open: stop every worker, gateway and command that uses it first"
                )));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Self::from_pools(Arc::clone(&pool), pool, None))
    }

    fn from_pools(
        writer: Arc<DatabasePool<sqlx::Sqlite>>,
        reader: Arc<DatabasePool<sqlx::Sqlite>>,
        file: Option<Arc<OpenFile>>,
    ) -> Self {
        Self {
            writer,
            reader,
            file,
            past_the_dot: CommitQueue::default(),
            arrivals: ArrivalQueue::default(),
            aliases: Mutex::default(),
            pseudonyms: OnceCell::new(),
            faults: OnceLock::new(),
        }
    }

    /// Migrates the tables to this version in one transaction. sqlx only locks migrations on PostgreSQL, so
    /// here the transaction is the lock: if several run at once, each will find the others' result.
    ///
    /// # Errors
    /// A statement failed, another version of Tidings migrated the database differently, or another process
    /// keeps writing.
    pub async fn migrate(&self) -> Result<()> {
        let mut connection = self.writer.acquire().await?;
        let begun = Instant::now();
        let mut transaction = loop {
            match connection.begin_with(sqlx::Sqlite::BEGIN_WRITE).await {
                Err(error) if is_busy(&error) && begun.elapsed() < MIGRATION_PATIENCE => {
                    tracing::info!("migration waits for the database lock: another process is writing or migrating");
                }
                transaction => break transaction?,
            }
        };
        migrator(&schema::SQLITE).run(&mut *transaction).await?;
        transaction.commit().await?;
        connection.release();
        Ok(())
    }
}

fn file_options(url: &str) -> Result<SqliteConnectOptions> {
    let options = SqliteConnectOptions::from_str(url)?
        .journal_mode(SqliteJournalMode::Wal)
        // NORMAL may lose the last commits on power loss, while Temporal would remember them as done, e.g. a
        // claim without its events, or a dot that was never recorded. FULL costs one fsync per commit.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        // A statement journal over 64 KiB would need a folder for temporary files, and a container may not
        // have one. Memory is fine because a statement touches at most 500 rows.
        .pragma("temp_store", "MEMORY")
        .foreign_keys(true);
    Ok(options)
}

fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|extended| extended & 0xff == SQLITE_BUSY)
}

/// Creates the file readable by its owner only, because it will contain addresses and messages. SQLite gives
/// its other files the same mode. We must not open an existing file: closing it again would release the locks
/// of this process's connections (POSIX).
fn create_file(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

impl Dialect for sqlx::Sqlite {
    /// Locks immediately, because a transaction that reads first may be unable to write later.
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";
    const BEGIN_READ: &'static str = "BEGIN";
    /// A writing transaction locks the whole database anyway.
    const SKIP_LOCKED: &'static str = "";
    /// Use `jsonb_each` if a statement reads fields of the elements. Elements of `json_each` are text, parsed
    /// again for each field: inserting 500 events takes 3.1 ms with it, and 1.7 ms with `jsonb_each`.
    const EACH_OF_1: &'static str = "jsonb_each($1)";

    const HANGS_UP: bool = false;

    async fn prepare_connection(_connection: &mut SqliteConnection) -> sqlx::Result<Option<ServerSession>> {
        Ok(None)
    }

    async fn at_work(_connection: &mut SqliteConnection, _pids: &[i32]) -> sqlx::Result<Vec<ServerSession>> {
        Ok(Vec::new())
    }

    async fn end_session(_connection: &mut SqliteConnection, _session: &ServerSession) -> sqlx::Result<bool> {
        Ok(true)
    }

    /// The file's inode; a copy has another.
    fn database_place(said: &str) -> String {
        std::fs::metadata(said).map_or_else(|_| String::new(), |file| format!("sqlite/{}", file.ino()))
    }

    fn pick_variant(statement: StatementVariants) -> &'static str {
        statement.sqlite
    }

    fn changed_rows(result: &SqliteQueryResult) -> u64 {
        result.rows_affected()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{
        DatabaseHealth as _, ErrorEnd, FailurePhase, Ledger as _, SqliteStore,
        conformance::{at, events, window},
    };

    #[tokio::test]
    async fn no_connection_needs_a_folder_for_temporary_files() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("tidings.db").display());
        let store = SqliteStore::connect(&url).await.unwrap();
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
        let store = SqliteStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let mut transaction = store.begin_write().await.unwrap();
        sqlx::query("ROLLBACK").execute(&mut *transaction).await.unwrap();
        drop(transaction);
        assert_eq!(store.stash_events(&window(1), &events(&["e1"]), None, at(1)).await.unwrap(), 1);
    }

    /// Otherwise a backup restored in the file's place would lack later writes.
    #[tokio::test]
    async fn a_file_that_is_not_at_its_path_any_more_takes_nothing_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let (file, away) = (folder.path().join("tidings.db"), folder.path().join("away.db"));
        let store = SqliteStore::connect(&format!("sqlite:{}", file.display())).await.unwrap();
        store.migrate().await.unwrap();
        let write = async || store.stash_events(&window(1), &events(&["e1"]), None, at(1)).await;
        fs::rename(&file, &away).unwrap();
        for backup in [false, true] {
            if backup {
                fs::copy(&away, &file).unwrap();
            }
            for error in
                [write().await.unwrap_err(), store.ping().await.unwrap_err(), store.ping_writing().await.unwrap_err()]
            {
                assert!(error.to_string().contains("was replaced or removed"), "{error}");
                assert_eq!(error.error_end(FailurePhase::BeforeDot), ErrorEnd::Repeats);
            }
        }
        fs::rename(&away, &file).unwrap();
        assert_eq!(write().await.unwrap(), 1);
    }
}
