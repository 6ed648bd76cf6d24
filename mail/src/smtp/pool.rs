//! Pool for connections to one relay, shared by the whole process.
//!
//! A message needs a slot before it opens a connection, and keeps it until the connection is returned. So
//! open connections, including idle ones, never exceed the slots. [`super::slots`] decides who gets one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::future::join_all;
use tidings_model::{RelayUrl, attempt::AttemptPhase, settings::RelaySettings};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    classify::SmtpEvent,
    connect::{TokenCache, open_connection},
    connection::{SmtpConnection, SmtpTimeouts},
    reply::SmtpFailure,
    slots::{SendLane, SlotId, SlotScheduler},
};

const TICK: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Maximum open connections, including idle ones. 10.
    pub connections: usize,
    /// Maximum idle time. 30 s.
    pub idle: Duration,
    /// Maximum age. 10 min.
    pub age: Duration,
    /// Maximum messages per connection. Many providers allow 100.
    pub messages: u32,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            connections: RelaySettings::CONNECTIONS,
            idle: Duration::from_secs(30),
            age: Duration::from_mins(10),
            messages: RelaySettings::PER_CONNECTION,
        }
    }
}

pub(super) struct SmtpPool {
    pub relay: RelayUrl,
    pub timeouts: SmtpTimeouts,
    tls: Option<TlsConnector>,
    tokens: TokenCache,
    limits: PoolLimits,
    state: Mutex<PoolState>,
}

struct PoolState {
    slots: SlotScheduler,
    idle: Vec<SmtpConnection>,
    waiters: HashMap<SlotId, oneshot::Sender<InterruptSignal>>,
    interrupts: HashMap<SlotId, oneshot::Sender<()>>,
    is_tended: bool,
    is_closed: bool,
}

type InterruptSignal = oneshot::Receiver<()>;

impl SmtpPool {
    pub fn new(relay: RelayUrl, tls: Option<TlsConnector>, limits: PoolLimits, timeouts: SmtpTimeouts) -> Self {
        let state = PoolState {
            slots: SlotScheduler::new(limits.connections),
            idle: Vec::new(),
            waiters: HashMap::new(),
            interrupts: HashMap::new(),
            is_tended: false,
            is_closed: false,
        };
        Self { relay, timeouts, tls, tokens: TokenCache::default(), limits, state: Mutex::new(state) }
    }

    pub async fn open(&self) -> Result<SmtpConnection, SmtpFailure> {
        open_connection(&self.relay, self.tls.as_ref(), &self.tokens, &self.timeouts).await
    }

    pub async fn acquire_slot(self: Arc<Self>, lane: SendLane, domain: String) -> Option<ConnectionSlot> {
        let (id, admitted) = {
            let mut state = self.state();
            let id = state.slots.request(lane, &domain);
            (id, self.enqueue(&mut state, id))
        };
        let mut slot =
            ConnectionSlot { id, interrupted: None, connection: None, is_reused: false, patience: None, pool: self };
        slot.wait_admitted(admitted).await.then_some(slot)
    }

    /// Registers for a slot under the same lock as the request, because another task may be the one to grant
    /// it.
    fn enqueue(self: &Arc<Self>, state: &mut PoolState, id: SlotId) -> oneshot::Receiver<InterruptSignal> {
        let (waiter, admitted) = oneshot::channel();
        if state.is_closed {
            return admitted;
        }
        state.waiters.insert(id, waiter);
        self.settle(state);
        if state.slots.has_waiters() {
            self.ensure_tended(state);
        }
        admitted
    }

    pub async fn close(&self) {
        let idle = {
            let mut state = self.state();
            state.is_closed = true;
            state.waiters.clear();
            std::mem::take(&mut state.idle)
        };
        join_all(idle.into_iter().map(SmtpConnection::quit)).await;
    }

    /// Also interrupts stalled messages.
    fn settle(&self, state: &mut PoolState) {
        let now = Instant::now();
        for id in state.slots.admit(now) {
            let (interrupt, interrupted) = oneshot::channel();
            state.interrupts.insert(id, interrupt);
            // If the waiter is gone, dropping the channel gives the slot back.
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

    /// Starts the background task while there are idle connections or waiting messages.
    fn ensure_tended(self: &Arc<Self>, state: &mut PoolState) {
        if !std::mem::replace(&mut state.is_tended, true) {
            tokio::spawn(tend_connections(Arc::downgrade(self)));
        }
    }

    fn is_good(&self, connection: &SmtpConnection) -> bool {
        connection.idle_since.elapsed() < self.limits.idle
            && connection.opened_at.elapsed() < self.limits.age
            && connection.used < self.limits.messages
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn tend_connections(pool: Weak<SmtpPool>) {
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
        join_all(over.into_iter().map(SmtpConnection::quit)).await;
        if !goes_on {
            return;
        }
    }
}

/// To use one connection for one message. Dropping it closes the connection.
pub struct ConnectionSlot {
    /// Boxed because it is large and many futures hold a slot.
    connection: Option<Box<SmtpConnection>>,
    /// Taken from the idle ones, where the relay may have closed it.
    pub(super) is_reused: bool,
    /// `None` while waiting for the slot.
    interrupted: Option<InterruptSignal>,
    /// Maximum wait for a connection, if another relay could take the message.
    patience: Option<Duration>,
    id: SlotId,
    pub(super) pool: Arc<SmtpPool>,
}

impl ConnectionSlot {
    #[must_use]
    pub fn with_patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    async fn wait_admitted(&mut self, admitted: oneshot::Receiver<InterruptSignal>) -> bool {
        self.interrupted = admitted.await.ok();
        self.interrupted.is_some()
    }

    /// Closes the connection, and waits ahead of later messages.
    pub(super) async fn wait_again(&mut self) -> Result<(), SmtpFailure> {
        self.connection = None;
        let admitted = {
            let mut state = self.pool.state();
            state.interrupts.remove(&self.id);
            state.slots.wait_again(self.id, Instant::now());
            self.pool.enqueue(&mut state, self.id)
        };
        let closed = || SmtpFailure::new(AttemptPhase::Connect, SmtpEvent::Lost, "the mailer is closed");
        self.wait_admitted(admitted).await.then_some(()).ok_or_else(closed)
    }

    /// Prefers the most recently used connection.
    pub(super) async fn connect(&mut self) -> Result<(), SmtpFailure> {
        loop {
            let found = self.pool.state().idle.pop();
            match found {
                Some(connection) if self.pool.is_good(&connection) => {
                    self.connection = Some(Box::new(connection));
                    self.is_reused = true;
                    self.note_connected();
                    return Ok(());
                }
                Some(connection) => connection.quit().await,
                None => return self.renew().await,
            }
        }
    }

    pub(super) async fn renew(&mut self) -> Result<(), SmtpFailure> {
        self.connection = None;
        let pool = &self.pool;
        // Boxed because the future is large, but rarely needed.
        let opening = Box::pin(pool.open());
        let opened = match self.patience {
            Some(patience) => {
                let silent = |_| Err(SmtpFailure::timed_out(AttemptPhase::Greeting, patience));
                timeout(patience, opening).await.unwrap_or_else(silent)
            }
            None => opening.await,
        };
        self.connection = Some(Box::new(opened?));
        self.is_reused = false;
        self.note_connected();
        Ok(())
    }

    fn note_connected(&self) {
        let mut state = self.pool.state();
        let idle = state.idle.len();
        state.slots.mark_connected(self.id, idle, Instant::now());
    }

    /// Call this if the relay refuses a connection. Returns `true` if this message can wait for one of our
    /// others.
    pub(super) fn note_refused(&mut self) -> bool {
        self.connection = None;
        let mut state = self.pool.state();
        let idle = state.idle.len();
        let others_work = state.slots.mark_refused(self.id, idle, Instant::now());
        if others_work {
            tracing::info!(
                relay = %self.pool.relay,
                "relay refused another connection while others work: lowered the connection limit"
            );
        }
        others_work
    }

    pub(super) fn note_offered(&self) {
        let mut state = self.pool.state();
        state.interrupts.remove(&self.id);
        state.slots.mark_offered(self.id);
    }

    /// Resolves if this message stalls and others need its slot more.
    pub(super) async fn until_interrupted(interrupted: &mut Option<InterruptSignal>) {
        let is_wanted = match interrupted {
            Some(receiver) => receiver.await.is_ok(),
            None => false,
        };
        if !is_wanted {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn split_parts(
        &mut self,
    ) -> Result<(&mut SmtpConnection, &SmtpTimeouts, &mut Option<InterruptSignal>), SmtpFailure> {
        let lost = || SmtpFailure::new(AttemptPhase::Connect, SmtpEvent::Lost, "no connection");
        Ok((self.connection.as_deref_mut().ok_or_else(lost)?, &self.pool.timeouts, &mut self.interrupted))
    }

    pub(super) fn give_back(mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.idle_since = Instant::now();
        let mut state = self.pool.state();
        if self.pool.is_good(&connection) && !state.is_closed {
            state.idle.push(*connection);
            self.pool.ensure_tended(&mut state);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // Close first, before the next message opens a connection.
        self.connection = None;
        let mut state = self.pool.state();
        state.waiters.remove(&self.id);
        state.interrupts.remove(&self.id);
        state.slots.release(self.id, Instant::now());
        self.pool.settle(&mut state);
    }
}
