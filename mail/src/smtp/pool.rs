//! Connections to one relay, for all mail of a process. Their number is limited, and good ones are used again.
//!
//! A message has a slot before it takes a connection and until it has returned the connection. The open connections, including idle ones,
//! therefore never exceed the slots. Who gets a slot is decided in [`super::slots`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::future::join_all;
use tidings_model::{RelayUrl, attempt::Phase, settings::RelaySettings};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    classify::SmtpEvent,
    connect::{Tokens, open},
    connection::{Connection, Timeouts},
    reply::Failure,
    slots::{Lane, SlotId, Slots},
};

/// Between two looks at idle connections and at messages that wait.
const TICK: Duration = Duration::from_millis(250);

/// The number of connections, and the use of each.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most open connections, including idle ones. 10.
    pub connections: usize,
    /// Longest idle time of a connection. 30 s.
    pub idle: Duration,
    /// Longest use of a connection. 10 min.
    pub age: Duration,
    /// Most messages over one connection. Many providers allow 100.
    pub messages: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: RelaySettings::CONNECTIONS,
            idle: Duration::from_secs(30),
            age: Duration::from_mins(10),
            messages: RelaySettings::PER_CONNECTION,
        }
    }
}

pub(super) struct Pool {
    pub relay: RelayUrl,
    pub timeouts: Timeouts,
    tls: Option<TlsConnector>,
    tokens: Tokens,
    limits: Limits,
    state: Mutex<PoolState>,
}

struct PoolState {
    slots: Slots,
    idle: Vec<Connection>,
    waiters: HashMap<SlotId, oneshot::Sender<Admitted>>,
    interrupts: HashMap<SlotId, oneshot::Sender<()>>,
    is_tended: bool,
    is_closed: bool,
}

/// Resolves when the slot is wanted back.
type Admitted = oneshot::Receiver<()>;

impl Pool {
    pub fn new(relay: RelayUrl, tls: Option<TlsConnector>, limits: Limits, timeouts: Timeouts) -> Self {
        let state = PoolState {
            slots: Slots::new(limits.connections),
            idle: Vec::new(),
            waiters: HashMap::new(),
            interrupts: HashMap::new(),
            is_tended: false,
            is_closed: false,
        };
        Self { relay, timeouts, tls, tokens: Tokens::default(), limits, state: Mutex::new(state) }
    }

    /// Opens a connection to the relay.
    pub async fn open(&self) -> Result<Connection, Failure> {
        open(&self.relay, self.tls.as_ref(), &self.tokens, &self.timeouts).await
    }

    /// Waits for a slot. `None`: the pool is closed.
    pub async fn slot(self: Arc<Self>, lane: Lane, domain: String) -> Option<Slot> {
        let (id, admitted) = {
            let mut state = self.state();
            let id = state.slots.request(lane, &domain);
            (id, self.enqueue(&mut state, id))
        };
        let mut slot = Slot { id, interrupted: None, connection: None, is_reused: false, patience: None, pool: self };
        slot.wait(admitted).await.then_some(slot)
    }

    /// Waits for a slot under the lock under which it was asked for: another task may be the one that gives it.
    fn enqueue(self: &Arc<Self>, state: &mut PoolState, id: SlotId) -> oneshot::Receiver<Admitted> {
        let (waiter, admitted) = oneshot::channel();
        if state.is_closed {
            return admitted;
        }
        state.waiters.insert(id, waiter);
        self.settle(state);
        if state.slots.has_waiters() {
            self.tend(state);
        }
        admitted
    }

    /// Sends QUIT on every idle connection. Attempts under way finish; no attempt begins.
    pub async fn close(&self) {
        let idle = {
            let mut state = self.state();
            state.is_closed = true;
            state.waiters.clear();
            std::mem::take(&mut state.idle)
        };
        join_all(idle.into_iter().map(Connection::quit)).await;
    }

    /// Gives free slots to those who wait, and asks for the slots of those that stall.
    fn settle(&self, state: &mut PoolState) {
        let now = Instant::now();
        for id in state.slots.admit(now) {
            let (interrupt, interrupted) = oneshot::channel();
            state.interrupts.insert(id, interrupt);
            // Whoever is gone gives the slot back.
            if let Some(waiter) = state.waiters.remove(&id) {
                let _ = waiter.send(interrupted);
            }
        }
        for id in state.slots.interrupt(now) {
            if let Some(interrupt) = state.interrupts.remove(&id) {
                let _ = interrupt.send(());
            }
        }
    }

    /// Looks after idle connections and those who wait, while there are some.
    fn tend(self: &Arc<Self>, state: &mut PoolState) {
        if !std::mem::replace(&mut state.is_tended, true) {
            tokio::spawn(tend(Arc::downgrade(self)));
        }
    }

    fn is_good(&self, connection: &Connection) -> bool {
        connection.idle_since.elapsed() < self.limits.idle
            && connection.opened_at.elapsed() < self.limits.age
            && connection.used < self.limits.messages
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn tend(pool: Weak<Pool>) {
    loop {
        sleep(TICK).await;
        let Some(pool) = pool.upgrade() else { return };
        let (over, goes_on) = {
            let mut state = pool.state();
            state.slots.grow(Instant::now());
            pool.settle(&mut state);
            let over: Vec<_> = state.idle.extract_if(.., |connection| !pool.is_good(connection)).collect();
            state.is_tended = state.slots.has_waiters() || !state.idle.is_empty();
            (over, state.is_tended)
        };
        join_all(over.into_iter().map(Connection::quit)).await;
        if !goes_on {
            return;
        }
    }
}

/// A place among the connections to a relay, for one message. Dropping it closes its connection.
pub struct Slot {
    /// Boxed, because it is large and many futures hold a slot.
    connection: Option<Box<Connection>>,
    /// The connection was idle before, and the relay may have closed it.
    pub(super) is_reused: bool,
    /// Set while the slot is not waited for.
    interrupted: Option<Admitted>,
    /// The longest wait for a connection, if another relay would take the message.
    patience: Option<Duration>,
    id: SlotId,
    pub(super) pool: Arc<Pool>,
}

impl Slot {
    /// Limits the wait for a connection, because another relay would take the message.
    #[must_use]
    pub fn with_patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// `false`: the pool is closed.
    async fn wait(&mut self, admitted: oneshot::Receiver<Admitted>) -> bool {
        self.interrupted = admitted.await.ok();
        self.interrupted.is_some()
    }

    /// Closes the connection and waits once more, before those who came later.
    pub(super) async fn wait_again(&mut self) -> Result<(), Failure> {
        self.connection = None;
        let admitted = {
            let mut state = self.pool.state();
            state.interrupts.remove(&self.id);
            state.slots.wait_again(self.id, Instant::now());
            self.pool.enqueue(&mut state, self.id)
        };
        let closed = || Failure::new(Phase::Connect, SmtpEvent::Lost, "the mailer is closed");
        self.wait(admitted).await.then_some(()).ok_or_else(closed)
    }

    /// Takes the connection that was used last, or opens one.
    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        loop {
            let found = self.pool.state().idle.pop();
            match found {
                Some(connection) if self.pool.is_good(&connection) => {
                    self.connection = Some(Box::new(connection));
                    self.is_reused = true;
                    self.connected();
                    return Ok(());
                }
                Some(connection) => connection.quit().await,
                None => return self.renew().await,
            }
        }
    }

    /// Opens a new connection and drops the former one.
    pub(super) async fn renew(&mut self) -> Result<(), Failure> {
        self.connection = None;
        let pool = &self.pool;
        // The future is rare and large.
        let opening = Box::pin(pool.open());
        let opened = match self.patience {
            Some(patience) => {
                let silent = |_| Err(Failure::silent(Phase::Greeting, patience));
                timeout(patience, opening).await.unwrap_or_else(silent)
            }
            None => opening.await,
        };
        self.connection = Some(Box::new(opened?));
        self.is_reused = false;
        self.connected();
        Ok(())
    }

    fn connected(&self) {
        let mut state = self.pool.state();
        let idle = state.idle.len();
        state.slots.connected(self.id, idle, Instant::now());
    }

    /// The relay refused a connection. Returns whether others of ours work, so that this message can wait for one of them.
    pub(super) fn refused(&mut self) -> bool {
        self.connection = None;
        let mut state = self.pool.state();
        let idle = state.idle.len();
        let others_work = state.slots.refused(self.id, idle, Instant::now());
        if others_work {
            tracing::info!(relay = %self.pool.relay, "the relay refuses one more connection while others work: fewer are used");
        }
        others_work
    }

    /// The message is past the point at which another one may have its slot.
    pub(super) fn offered(&self) {
        let mut state = self.pool.state();
        state.interrupts.remove(&self.id);
        state.slots.offered(self.id);
    }

    /// Resolves when others need the slot more than a message that stalls.
    pub(super) async fn interrupted(interrupted: &mut Option<Admitted>) {
        let is_wanted = match interrupted {
            Some(receiver) => receiver.await.is_ok(),
            None => false,
        };
        if !is_wanted {
            std::future::pending::<()>().await;
        }
    }

    /// The connection with the time limits of its steps, and the interruption.
    pub(super) fn parts(&mut self) -> Result<(&mut Connection, &Timeouts, &mut Option<Admitted>), Failure> {
        let lost = || Failure::new(Phase::Connect, SmtpEvent::Lost, "no connection");
        Ok((self.connection.as_deref_mut().ok_or_else(lost)?, &self.pool.timeouts, &mut self.interrupted))
    }

    /// Keeps the connection for the next message, unless its time is over.
    pub(super) fn give_back(mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.idle_since = Instant::now();
        let mut state = self.pool.state();
        if self.pool.is_good(&connection) && !state.is_closed {
            state.idle.push(*connection);
            self.pool.tend(&mut state);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Before the next message opens one.
        self.connection = None;
        let mut state = self.pool.state();
        state.waiters.remove(&self.id);
        state.interrupts.remove(&self.id);
        state.slots.release(self.id, Instant::now());
        self.pool.settle(&mut state);
    }
}
