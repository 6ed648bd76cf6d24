//! Connections shared by the store's calls. A successful call releases its connection unchanged. After any
//! other call (e.g. one cancelled in the middle of a statement) we ping it first; without a reply we replace
//! it and end its session ([`super::sessions`]).

use std::{
    fs::metadata,
    io,
    ops::{Deref, DerefMut},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool::{
    Runtime,
    managed::{self, Metrics, Object, PoolError, RecycleResult},
};
use sqlx::{Connection as _, raw_sql};
use tidings_model::process::FileId;
use tokio::{runtime::Handle, sync::OwnedSemaphorePermit, time::timeout};

use crate::sql::{
    dialect::{DatabaseOptions, Dialect, ServerSession},
    sessions::{SessionRegistry, WatchedCall},
};

/// A connection to another process idle for this long is pinged before use, because the server may have
/// restarted.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// A connection to another process is replaced at this age, because a session's memory in the server only
/// grows.
const MAX_AGE: Duration = Duration::from_mins(30);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

pub struct DatabasePool<D: Dialect> {
    connections: managed::Pool<ConnectionManager<D>>,
    size: usize,
    patience: Duration,
    file: Option<Arc<OpenFile>>,
}

impl<D: Dialect> DatabasePool<D> {
    /// At most `size` connections, opened when needed. A call waits at most `patience`.
    pub fn new(options: DatabaseOptions<D>, size: usize, patience: Duration) -> Self {
        let sessions = Arc::new(SessionRegistry::new(options.clone(), size));
        let pool = managed::Pool::builder(ConnectionManager { options, sessions })
            .max_size(size)
            .wait_timeout(Some(patience))
            .create_timeout(Some(patience))
            .recycle_timeout(Some(ANSWER_TIMEOUT))
            .runtime(Runtime::Tokio1);
        Self { connections: pool.build().expect("a runtime is there for the timeouts"), size, patience, file: None }
    }

    /// Makes the pool refuse all calls if the file at the path is no longer this one.
    pub fn of_file(self, file: Option<Arc<OpenFile>>) -> Self {
        Self { file, ..self }
    }

    /// # Errors
    /// None is free in time, the database does not reply, or its file was replaced.
    pub async fn acquire(&self) -> Result<ConnectionLease<D>, sqlx::Error> {
        self.file.as_deref().map_or(Ok(()), OpenFile::check_path)?;
        match self.connections.get().await {
            Ok(live) => {
                let watched =
                    live.session.as_ref().and_then(|session| live.sessions.watch_call(session, &live.is_dead));
                Ok(ConnectionLease { live, _watched: watched })
            }
            Err(PoolError::Backend(error)) => Err(error),
            Err(PoolError::Timeout(_)) => {
                let Self { size, patience, .. } = self;
                let text = format!(
                    "no connection within {patience:?}: the database does not answer, or each of the {size} connections waits for it"
                );
                Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
            }
            Err(PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_)) => {
                Err(sqlx::Error::PoolClosed)
            }
        }
    }

    pub async fn begin(&self, statement: &'static str) -> Result<StoreTransaction<D>, sqlx::Error> {
        let mut work = self.lease_transaction().await?;
        raw_sql(statement).execute(&mut *work).await?;
        Ok(work)
    }

    pub async fn lease_transaction(&self) -> Result<StoreTransaction<D>, sqlx::Error> {
        Ok(StoreTransaction { lease: Some(self.acquire().await?) })
    }
}

pub struct ConnectionManager<D: Dialect> {
    options: DatabaseOptions<D>,
    sessions: Arc<SessionRegistry<D>>,
}

pub struct PooledConnection<D: Dialect> {
    connection: D::Connection,
    in_order: bool,
    /// It does not reply, so its session may still run.
    is_silent: bool,
    is_dead: Arc<AtomicBool>,
    session: Option<ServerSession>,
    place: Option<OwnedSemaphorePermit>,
    sessions: Arc<SessionRegistry<D>>,
}

impl<D: Dialect> Drop for PooledConnection<D> {
    fn drop(&mut self) {
        if let (true, Some(session), Some(place)) = (self.is_silent, self.session.take(), self.place.take()) {
            self.sessions.end_abandoned(session, place);
        }
    }
}

impl<D: Dialect> managed::Manager for ConnectionManager<D> {
    type Type = PooledConnection<D>;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<PooledConnection<D>, sqlx::Error> {
        let sessions = self.sessions.clone();
        let place = Some(sessions.acquire_place().await?);
        let mut connection = Box::pin(D::Connection::connect_with(&self.options)).await?;
        let session = D::prepare_connection(&mut connection).await?;
        let is_dead = Arc::default();
        Ok(PooledConnection { connection, in_order: false, is_silent: false, is_dead, session, place, sessions })
    }

    async fn recycle(&self, live: &mut PooledConnection<D>, metrics: &Metrics) -> RecycleResult<sqlx::Error> {
        if D::HANGS_UP && metrics.age() > MAX_AGE {
            return Err(managed::RecycleError::message("the connection is old"));
        }
        if live.is_dead.load(Ordering::Relaxed) {
            live.is_silent = true;
            return Err(managed::RecycleError::message("the connection is dead"));
        }
        let in_order = std::mem::replace(&mut live.in_order, false);
        if !in_order || (D::HANGS_UP && metrics.last_used() > ASK_AFTER) {
            live.is_silent = true;
            live.connection.ping().await?;
            live.is_silent = false;
        }
        Ok(())
    }
}

pub struct ConnectionLease<D: Dialect> {
    live: Object<ConnectionManager<D>>,
    _watched: Option<WatchedCall<D>>,
}

impl<D: Dialect> ConnectionLease<D> {
    pub fn release(mut self) {
        self.live.in_order = true;
    }

    fn close(self) {
        Object::take(self.live).is_silent = true;
    }
}

impl<D: Dialect> Deref for ConnectionLease<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        &self.live.connection
    }
}

impl<D: Dialect> DerefMut for ConnectionLease<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.live.connection
    }
}

/// A transaction, rolled back when dropped without a commit.
pub struct StoreTransaction<D: Dialect> {
    /// `None` after the end.
    lease: Option<ConnectionLease<D>>,
}

impl<D: Dialect> StoreTransaction<D> {
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.finish_with("COMMIT").await
    }

    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        self.finish_with("ROLLBACK").await
    }

    async fn finish_with(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        raw_sql(statement).execute(&mut *self).await?;
        self.release();
        Ok(())
    }

    /// Returns the connection to the pool after a transaction that ended itself.
    pub fn release(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.release();
        }
    }
}

impl<D: Dialect> Drop for StoreTransaction<D> {
    fn drop(&mut self) {
        let Some(mut lease) = self.lease.take() else { return };
        // If we cannot roll back, or there is no runtime, we close the connection; the database will then
        // roll back.
        let Ok(runtime) = Handle::try_current() else { return lease.close() };
        if lease.live.is_dead.load(Ordering::Relaxed) {
            return lease.close();
        }
        runtime.spawn(async move {
            let rollback = raw_sql("ROLLBACK").execute(&mut *lease);
            match timeout(ANSWER_TIMEOUT, rollback).await {
                Ok(Ok(_)) => lease.release(),
                _ => lease.close(),
            }
        });
    }
}

impl<D: Dialect> Deref for StoreTransaction<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        self.lease.as_ref().expect("a transaction that ended is gone")
    }
}

impl<D: Dialect> DerefMut for StoreTransaction<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.lease.as_mut().expect("a transaction that ended is gone")
    }
}

/// The open database file, with a check that it is still the one at its path. SQLite keeps writing to a file
/// that was renamed or removed, e.g. after restoring a backup in its place; we would lose confirmed clicks.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    id: FileId,
    is_reported: AtomicBool,
}

impl OpenFile {
    /// The file at this path, already opened by the caller. `None` without a file, e.g. for a database in
    /// memory.
    pub fn at_path(path: &Path) -> Option<Self> {
        Some(Self { path: path.to_owned(), id: id_of(path)?, is_reported: AtomicBool::new(false) })
    }

    pub const fn id(&self) -> FileId {
        self.id
    }

    /// Checks that the path still leads to this file. One system call of about a microsecond, so every store
    /// call can afford it.
    pub fn check_path(&self) -> io::Result<()> {
        if id_of(&self.path) == Some(self.id) {
            self.is_reported.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let replaced = format!(
            "the database file {} was replaced or removed while open, so every write fails: put it back, or stop all \
             workers and gateways and start them on the new file",
            self.path.display()
        );
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::error!("{replaced}");
        }
        Err(io::Error::other(replaced))
    }
}

/// Containers may number a device differently, but the number is stable within a process.
fn id_of(path: &Path) -> Option<FileId> {
    let file = metadata(path).ok()?;
    Some(FileId { device: file.dev(), inode: file.ino() })
}
