//! Ends abandoned sessions in the database server and detects dead connections.
//!
//! The server does not notice a client giving up: a session waiting for a lock continues. So we end it over
//! another connection, and count it as open until it is gone. For silent connections we query the server for
//! the session's state, because sqlx 0.9 has neither keepalive nor a timeout for unacknowledged data.

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

use super::dialect::{DatabaseOptions, Dialect, ServerSession};

/// Calls slower than this are checked.
pub const SILENT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2500);
const ANSWER: Duration = Duration::from_secs(3);
/// The pause before trying again to end a session.
const AGAIN: Duration = Duration::from_millis(500);
/// Then we give up. PostgreSQL's keepalive should end the session after a minute.
const GIVE_UP: Duration = Duration::from_mins(3);

tokio::task_local! {
    static DEAD: Arc<Notify>;
}

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

pub struct SessionRegistry<D: Dialect> {
    options: DatabaseOptions<D>,
    /// One permit per pool connection.
    places: Arc<Semaphore>,
    calls: Mutex<ActiveCalls>,
    asking: sync::Mutex<Option<D::Connection>>,
    is_watched: AtomicBool,
}

#[derive(Default)]
struct ActiveCalls {
    next: u64,
    under_way: HashMap<u64, ActiveCall>,
}

struct ActiveCall {
    session: ServerSession,
    since: Instant,
    /// The last poll found the session idle. We check twice, because our process may have been frozen.
    is_suspect: bool,
    dead: Arc<Notify>,
    is_dead: Arc<AtomicBool>,
}

impl<D: Dialect> SessionRegistry<D> {
    pub fn new(options: DatabaseOptions<D>, size: usize) -> Self {
        let places = Arc::new(Semaphore::new(size));
        Self {
            options,
            places,
            calls: Mutex::default(),
            asking: sync::Mutex::default(),
            is_watched: AtomicBool::new(false),
        }
    }

    pub async fn acquire_place(&self) -> Result<OwnedSemaphorePermit, sqlx::Error> {
        self.places.clone().acquire_owned().await.map_err(|_| sqlx::Error::PoolClosed)
    }

    pub fn watch_call(self: &Arc<Self>, session: &ServerSession, is_dead: &Arc<AtomicBool>) -> Option<WatchedCall<D>> {
        let dead = DEAD.try_with(Arc::clone).ok()?;
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            tokio::spawn(look_now_and_then(Arc::downgrade(self)));
        }
        let mut calls = self.lock_calls();
        let id = calls.next;
        calls.next += 1;
        let (session, is_dead) = (session.clone(), is_dead.clone());
        calls.under_way.insert(id, ActiveCall { session, since: Instant::now(), is_suspect: false, dead, is_dead });
        Some(WatchedCall { id, sessions: self.clone() })
    }

    pub fn end_abandoned(self: &Arc<Self>, session: ServerSession, place: OwnedSemaphorePermit) {
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

    async fn has_ended(&self, session: &ServerSession) -> bool {
        let mut asking = self.asking.lock().await;
        let Some(mut connection) = self.query_connection(&mut asking).await else { return false };
        let Ok(Ok(ended)) = timeout(ANSWER, D::end_session(&mut connection, session)).await else { return false };
        *asking = Some(connection);
        ended
    }

    async fn at_work(&self, pids: &[i32]) -> Option<Vec<ServerSession>> {
        let mut asking = self.asking.lock().await;
        // The stored connection may be dead as well; then we try once more with a new one.
        for _ in 0..2 {
            let mut connection = self.query_connection(&mut asking).await?;
            if let Ok(Ok(sessions)) = timeout(ANSWER, D::at_work(&mut connection, pids)).await {
                *asking = Some(connection);
                return Some(sessions);
            }
        }
        None
    }

    /// Fails calls found idle in the server at two polls.
    async fn poll_calls(&self) {
        let silent: Vec<_> = {
            let calls = self.lock_calls();
            let silent = calls.under_way.iter().filter(|(_, call)| call.since.elapsed() > SILENT);
            silent.map(|(id, call)| (*id, call.session.clone())).collect()
        };
        if silent.is_empty() {
            return;
        }
        let pids: Vec<i32> = silent.iter().map(|(_, session)| session.pid).collect();
        // If the database is unreachable, the calls will notice themselves.
        let Some(at_work) = self.at_work(&pids).await else { return };
        let mut calls = self.lock_calls();
        for (id, session) in silent {
            let Some(call) = calls.under_way.get_mut(&id) else { continue };
            let was_suspect = std::mem::replace(&mut call.is_suspect, !at_work.contains(&session));
            if was_suspect && call.is_suspect {
                tracing::warn!(
                    pid = session.pid,
                    "database connection is dead: the server has no call running on it; failing this call"
                );
                call.is_dead.store(true, Ordering::Relaxed);
                call.dead.notify_one();
            }
        }
    }

    async fn query_connection(&self, asking: &mut Option<D::Connection>) -> Option<D::Connection> {
        if let Some(connection) = asking.take() {
            return Some(connection);
        }
        timeout(ANSWER, D::Connection::connect_with(&self.options)).await.ok()?.ok()
    }

    fn lock_calls(&self) -> MutexGuard<'_, ActiveCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn look_now_and_then<D: Dialect>(sessions: Weak<SessionRegistry<D>>) {
    loop {
        sleep(LOOK).await;
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.poll_calls().await;
    }
}

/// Stops watching the call when dropped.
pub struct WatchedCall<D: Dialect> {
    id: u64,
    sessions: Arc<SessionRegistry<D>>,
}

impl<D: Dialect> Drop for WatchedCall<D> {
    fn drop(&mut self) {
        self.sessions.lock_calls().under_way.remove(&self.id);
    }
}
