//! Connections that calls of the store share.
//!
//! A call that ended well releases its connection, and the next call takes the connection unchanged. After every other call, for
//! example one that was cancelled in the middle of a statement, the connection is asked first, and replaced unless it answers. Then its
//! session is ended ([`super::sessions`]).

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
    dialect::{Dialect, Options, Session},
    sessions::{Sessions, WatchedCall},
};

/// Idle time after which a connection to another process is asked before its next use. A server that was restarted has hung up.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// Age at which a connection to another process is replaced: a session's memory in the server only grows.
const MAX_AGE: Duration = Duration::from_mins(30);
/// Time limit of the question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool of connections to one database.
pub struct Pool<D: Dialect> {
    connections: managed::Pool<Connector<D>>,
    size: usize,
    patience: Duration,
    file: Option<Arc<OpenFile>>,
}

impl<D: Dialect> Pool<D> {
    /// A pool of at most `size` connections, which are made when they are needed. A call waits at most `patience` for one.
    pub fn new(options: Options<D>, size: usize, patience: Duration) -> Self {
        let sessions = Arc::new(Sessions::new(options.clone(), size));
        let pool = managed::Pool::builder(Connector { options, sessions })
            .max_size(size)
            .wait_timeout(Some(patience))
            .create_timeout(Some(patience))
            .recycle_timeout(Some(ANSWER_TIMEOUT))
            .runtime(Runtime::Tokio1);
        Self { connections: pool.build().expect("a runtime is there for the timeouts"), size, patience, file: None }
    }

    /// The pool, which refuses all calls while the file is not the one at its path.
    pub fn of_file(self, file: Option<Arc<OpenFile>>) -> Self {
        Self { file, ..self }
    }

    /// A connection, once one is free.
    ///
    /// # Errors
    /// None is free in time, the database does not answer, or its file was replaced.
    pub async fn acquire(&self) -> Result<Lease<D>, sqlx::Error> {
        self.file.as_deref().map_or(Ok(()), OpenFile::check)?;
        match self.connections.get().await {
            Ok(live) => {
                let watched = live.session.as_ref().and_then(|session| live.sessions.watch(session, &live.is_dead));
                Ok(Lease { live, _watched: watched })
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

    /// A transaction that begins with `statement`.
    pub async fn begin(&self, statement: &'static str) -> Result<Work<D>, sqlx::Error> {
        let mut work = self.work().await?;
        raw_sql(statement).execute(&mut *work).await?;
        Ok(work)
    }

    /// A connection for a transaction that begins and ends in one call.
    pub async fn work(&self) -> Result<Work<D>, sqlx::Error> {
        Ok(Work { lease: Some(self.acquire().await?) })
    }
}

/// Makes connections, and decides which of them may be used again.
pub struct Connector<D: Dialect> {
    options: Options<D>,
    sessions: Arc<Sessions<D>>,
}

/// A connection of the pool.
pub struct Live<D: Dialect> {
    connection: D::Connection,
    /// The call that had it ended well.
    in_order: bool,
    /// It does not answer, so that its session may go on without it.
    is_silent: bool,
    /// The server knows of no call over it.
    is_dead: Arc<AtomicBool>,
    session: Option<Session>,
    place: Option<OwnedSemaphorePermit>,
    sessions: Arc<Sessions<D>>,
}

impl<D: Dialect> Drop for Live<D> {
    fn drop(&mut self) {
        if let (true, Some(session), Some(place)) = (self.is_silent, self.session.take(), self.place.take()) {
            self.sessions.end(session, place);
        }
    }
}

impl<D: Dialect> managed::Manager for Connector<D> {
    type Type = Live<D>;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<Live<D>, sqlx::Error> {
        let sessions = self.sessions.clone();
        let place = Some(sessions.place().await?);
        // The future of a connection is large, and rarely needed.
        let mut connection = Box::pin(D::Connection::connect_with(&self.options)).await?;
        let session = D::prepare(&mut connection).await?;
        let is_dead = Arc::default();
        Ok(Live { connection, in_order: false, is_silent: false, is_dead, session, place, sessions })
    }

    async fn recycle(&self, live: &mut Live<D>, metrics: &Metrics) -> RecycleResult<sqlx::Error> {
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

/// A connection in use by one call.
pub struct Lease<D: Dialect> {
    live: Object<Connector<D>>,
    _watched: Option<WatchedCall<D>>,
}

impl<D: Dialect> Lease<D> {
    /// Gives the connection back after a call that ended well.
    pub fn release(mut self) {
        self.live.in_order = true;
    }

    /// Closes the connection, which does not answer.
    fn close(self) {
        Object::take(self.live).is_silent = true;
    }
}

impl<D: Dialect> Deref for Lease<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        &self.live.connection
    }
}

impl<D: Dialect> DerefMut for Lease<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.live.connection
    }
}

/// A transaction. Dropped without a commit, it is rolled back.
pub struct Work<D: Dialect> {
    /// `None` once the transaction ended.
    lease: Option<Lease<D>>,
}

impl<D: Dialect> Work<D> {
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.end("COMMIT").await
    }

    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        raw_sql(statement).execute(&mut *self).await?;
        self.release();
        Ok(())
    }

    /// Gives the connection back after a transaction that ended by itself.
    pub fn release(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.release();
        }
    }
}

impl<D: Dialect> Drop for Work<D> {
    fn drop(&mut self) {
        let Some(mut lease) = self.lease.take() else { return };
        // A connection that cannot roll back, or without a runtime, is closed, and the database rolls back.
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

impl<D: Dialect> Deref for Work<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        self.lease.as_ref().expect("a transaction that ended is gone")
    }
}

impl<D: Dialect> DerefMut for Work<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.lease.as_mut().expect("a transaction that ended is gone")
    }
}

/// The file that the connections have open, and the check that it is still the one at its path.
///
/// SQLite goes on with a file that was renamed or removed: what is written there is lost for everybody who opens the path. A backup that
/// was put in its place would so lose a click that was answered with success.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    id: FileId,
    is_reported: AtomicBool,
}

impl OpenFile {
    /// The file at this path, which the caller has open. `None`: there is none, as for a database in memory.
    pub fn at(path: &Path) -> Option<Self> {
        Some(Self { path: path.to_owned(), id: id_of(path)?, is_reported: AtomicBool::new(false) })
    }

    pub const fn id(&self) -> FileId {
        self.id
    }

    /// Checks that the path still leads to this file. One system call, of a microsecond, so that each call of the store can have it.
    pub fn check(&self) -> io::Result<()> {
        if id_of(&self.path) == Some(self.id) {
            self.is_reported.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let replaced = format!(
            "the database file {} was replaced or removed while it was open, and nothing is written any more: put the file back, or stop \
             all workers and gateways before you start them on the other one",
            self.path.display()
        );
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::error!("{replaced}");
        }
        Err(io::Error::other(replaced))
    }
}

/// Containers may see a device under another number, but a process sees one number.
fn id_of(path: &Path) -> Option<FileId> {
    let file = metadata(path).ok()?;
    Some(FileId { device: file.dev(), inode: file.ino() })
}
