//! The sessions that connections have in a database server: an abandoned one is ended, and one that is dead is noticed.
//!
//! The server learns nothing of a client that gives up: a session that waits for a lock or a standby goes on. It is therefore ended over
//! another connection, and counts as open until the server has no such session any more. A connection that the network forgot is silent
//! like a slow one, so that the server is asked what the session does. sqlx 0.9 has neither keepalive nor a limit for what nobody
//! acknowledges; without these needs the module can go.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::Connection as _;
use tokio::{
    runtime::Handle,
    sync::{self, Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};

use super::dialect::{Dialect, Options, Session};

/// A call that takes longer is asked for.
pub const SILENT: Duration = Duration::from_secs(5);
/// Between two looks at the calls under way.
const LOOK: Duration = Duration::from_millis(2500);
/// Time limits of a question to the server, and of the connection for it.
const ANSWER: Duration = Duration::from_secs(3);
/// Between two tries to end a session.
const AGAIN: Duration = Duration::from_millis(500);
/// A session of which the server says nothing for so long is forgotten. PostgreSQL ends it by its keepalive after a minute.
const GIVE_UP: Duration = Duration::from_mins(3);

tokio::task_local! {
    /// Notified when the call's connection is found dead.
    static DEAD: Arc<Notify>;
}

/// Runs a call. `None`: its connection is dead.
pub async fn unless_dead<T>(call: impl Future<Output = T>) -> Option<T> {
    let dead = Arc::new(Notify::new());
    DEAD.scope(dead.clone(), async {
        tokio::select! {
            answer = call => Some(answer),
            () = dead.notified() => None,
        }
    })
    .await
}

/// The sessions of a pool.
pub struct Sessions<D: Dialect> {
    options: Options<D>,
    /// As many as the pool has connections.
    places: Arc<Semaphore>,
    calls: Mutex<Calls>,
    /// The connection over which the server is asked.
    asking: sync::Mutex<Option<D::Connection>>,
    is_watched: AtomicBool,
}

#[derive(Default)]
struct Calls {
    next: u64,
    under_way: HashMap<u64, Call>,
}

struct Call {
    session: Session,
    since: Instant,
    /// The last look found the server at no work for it. The process may have been frozen.
    is_suspect: bool,
    dead: Arc<Notify>,
    is_dead: Arc<AtomicBool>,
}

impl<D: Dialect> Sessions<D> {
    pub fn new(options: Options<D>, size: usize) -> Self {
        let places = Arc::new(Semaphore::new(size));
        Self {
            options,
            places,
            calls: Mutex::default(),
            asking: sync::Mutex::default(),
            is_watched: AtomicBool::new(false),
        }
    }

    /// Waits until the server may have one more session.
    pub async fn place(&self) -> Result<OwnedSemaphorePermit, sqlx::Error> {
        self.places.clone().acquire_owned().await.map_err(|_| sqlx::Error::PoolClosed)
    }

    /// Watches a call until the guard is dropped.
    pub fn watch(self: &Arc<Self>, session: &Session, is_dead: &Arc<AtomicBool>) -> Option<WatchedCall<D>> {
        let dead = DEAD.try_with(Arc::clone).ok()?;
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            tokio::spawn(look_now_and_then(Arc::downgrade(self)));
        }
        let mut calls = self.calls();
        let id = calls.next;
        calls.next += 1;
        let (session, is_dead) = (session.clone(), is_dead.clone());
        calls.under_way.insert(id, Call { session, since: Instant::now(), is_suspect: false, dead, is_dead });
        Some(WatchedCall { id, sessions: self.clone() })
    }

    /// Ends an abandoned session, and then gives its place back.
    pub fn end(self: &Arc<Self>, session: Session, place: OwnedSemaphorePermit) {
        // Without a runtime the process ends, and its connections with it.
        let Ok(runtime) = Handle::try_current() else { return };
        let sessions = self.clone();
        runtime.spawn(async move {
            let since = Instant::now();
            while since.elapsed() < GIVE_UP && !sessions.has_ended(&session).await {
                sleep(AGAIN).await;
            }
            drop(place);
        });
    }

    async fn has_ended(&self, session: &Session) -> bool {
        let mut asking = self.asking.lock().await;
        let Some(mut connection) = self.connection(&mut asking).await else { return false };
        let Ok(Ok(ended)) = timeout(ANSWER, D::end(&mut connection, session)).await else { return false };
        *asking = Some(connection);
        ended
    }

    async fn at_work(&self, pids: &[i32]) -> Option<Vec<Session>> {
        let mut asking = self.asking.lock().await;
        // The connection may be dead as well, and then a new one is not.
        for _ in 0..2 {
            let mut connection = self.connection(&mut asking).await?;
            if let Ok(Ok(sessions)) = timeout(ANSWER, D::at_work(&mut connection, pids)).await {
                *asking = Some(connection);
                return Some(sessions);
            }
        }
        None
    }

    /// Ends calls of which the server knows nothing at two looks.
    async fn look(&self) {
        let silent: Vec<_> = {
            let calls = self.calls();
            let silent = calls.under_way.iter().filter(|(_, call)| call.since.elapsed() > SILENT);
            silent.map(|(id, call)| (*id, call.session.clone())).collect()
        };
        if silent.is_empty() {
            return;
        }
        let pids: Vec<i32> = silent.iter().map(|(_, session)| session.pid).collect();
        // A database that is away is noticed by the calls themselves.
        let Some(at_work) = self.at_work(&pids).await else { return };
        let mut calls = self.calls();
        for (id, session) in silent {
            let Some(call) = calls.under_way.get_mut(&id) else { continue };
            let was_suspect = std::mem::replace(&mut call.is_suspect, !at_work.contains(&session));
            if was_suspect && call.is_suspect {
                tracing::warn!(
                    pid = session.pid,
                    "the connection to the database is dead: the server knows of no call"
                );
                call.is_dead.store(true, Ordering::Relaxed);
                call.dead.notify_one();
            }
        }
    }

    async fn connection(&self, asking: &mut Option<D::Connection>) -> Option<D::Connection> {
        if let Some(connection) = asking.take() {
            return Some(connection);
        }
        timeout(ANSWER, D::Connection::connect_with(&self.options)).await.ok()?.ok()
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn look_now_and_then<D: Dialect>(sessions: Weak<Sessions<D>>) {
    loop {
        sleep(LOOK).await;
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.look().await;
    }
}

/// A call under way.
pub struct WatchedCall<D: Dialect> {
    id: u64,
    sessions: Arc<Sessions<D>>,
}

impl<D: Dialect> Drop for WatchedCall<D> {
    fn drop(&mut self) {
        self.sessions.calls().under_way.remove(&self.id);
    }
}
