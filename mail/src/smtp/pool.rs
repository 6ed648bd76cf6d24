//! Connections to one relay. Their number is limited, and good ones are used again.
//!
//! A lease holds a permit before it takes a connection and until it has returned the connection. The open connections,
//! including idle ones, therefore never exceed the permits.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use tidings_model::{RelayUrl, attempt::Phase, settings::RelaySettings};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;

use super::{
    classify::SmtpEvent,
    connect::open,
    connection::{Connection, Timeouts},
    failure::Failure,
};

/// The number of connections, and the use of each.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most open connections, including idle ones. 8.
    pub connections: usize,
    /// Longest idle time of a connection that is used again. 30 s.
    pub idle: Duration,
    /// Longest use of a connection. 10 min.
    pub age: Duration,
    /// Most messages over one connection. Many providers allow 100.
    pub messages: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8,
            idle: Duration::from_secs(30),
            age: Duration::from_mins(10),
            messages: RelaySettings::PER_CONNECTION,
        }
    }
}

pub(super) struct Pool {
    pub(super) relay: RelayUrl,
    pub(super) timeouts: Timeouts,
    pub(super) tls: Option<TlsConnector>,
    limits: Limits,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn new(relay: RelayUrl, tls: Option<TlsConnector>, limits: Limits, timeouts: Timeouts) -> Self {
        let permits = Arc::new(Semaphore::new(limits.connections.max(1)));
        Self { relay, timeouts, tls, limits, permits, idle: Mutex::default() }
    }

    /// Leases the connection that was used last, or a new one. Waits while all are leased.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, Failure> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Failure::new(Phase::Connect, SmtpEvent::Lost, "the mailer is closed"))?;
        let mut lease = Lease { connection: None, reused: true, pool: Arc::clone(self), _permit: permit };
        loop {
            let found = self.idle().pop();
            match found {
                Some(connection) if self.is_good(&connection) => lease.connection = Some(connection),
                Some(connection) => {
                    connection.quit().await;
                    continue;
                }
                None => lease.renew().await?,
            }
            return Ok(lease);
        }
    }

    /// Sends QUIT on every idle connection. Attempts under way finish; no attempt begins.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        join_all(idle.into_iter().map(Connection::quit)).await;
    }

    fn is_good(&self, connection: &Connection) -> bool {
        connection.idle_since.elapsed() < self.limits.idle
            && connection.opened_at.elapsed() < self.limits.age
            && connection.used < self.limits.messages
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for one message. Dropping it closes the connection; [`Lease::give_back`] keeps it.
pub(super) struct Lease {
    // Before the permit: fields are dropped in this order.
    connection: Option<Connection>,
    /// The connection was idle before, and the relay may have closed it.
    pub(super) reused: bool,
    pub(super) pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Opens a new connection and drops the former one.
    pub(super) async fn renew(&mut self) -> Result<(), Failure> {
        self.connection = None;
        let pool = &self.pool;
        // The future is rare and large.
        self.connection = Some(Box::pin(open(&pool.relay, pool.tls.as_ref(), &pool.timeouts)).await?);
        self.reused = false;
        Ok(())
    }

    /// Returns the connection and the time limits of its steps.
    pub(super) fn parts(&mut self) -> Result<(&mut Connection, &Timeouts), Failure> {
        let lost = || Failure::new(Phase::Connect, SmtpEvent::Lost, "no connection");
        Ok((self.connection.as_mut().ok_or_else(lost)?, &self.pool.timeouts))
    }

    /// Keeps the connection for the next message, unless its time is over.
    pub(super) fn give_back(mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.idle_since = tokio::time::Instant::now();
            if self.pool.is_good(&connection) && !self.pool.permits.is_closed() {
                self.pool.idle().push(connection);
            }
        }
    }
}
