//! An SMTP relay that keeps what it accepts and fails as scripted: one [`Fault`] for a step of a conversation.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use tidings_harness::relay::{Act, At, Fault, Relay};
//! let relay = Relay::start().await?;
//! relay.fault(Fault::new(At::Rcpt, Act::Reply("550 5.1.1 no such user".into())).to("bob@example.net").times(1));
//! assert!(relay.url().starts_with("smtp://127.0.0.1:"));
//! # Ok(())
//! # }
//! ```

mod client;
mod script;
mod session;
mod tls;

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, task::JoinHandle, time::Instant};
use tokio_rustls::TlsAcceptor;

pub use client::{FROM, bytes, deliver, mailer, mailer_with, offer};
pub use script::{Act, At, Fault};
pub use tls::Authority;

/// The way to a private connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privacy {
    #[default]
    None,
    StartTls,
    Implicit,
}

/// A relay's settings. `..Settings::default()` is a plain relay that accepts everything.
#[derive(Default)]
pub struct Settings {
    pub privacy: Privacy,
    /// Signs the certificate of `localhost`. Required unless `privacy` is [`Privacy::None`].
    pub authority: Option<Authority>,
    /// Requires this user and password, or access token, before MAIL.
    pub login: Option<(String, String)>,
    /// Writes its replies in ISO-8859-1.
    pub latin1: bool,
    /// Additional lines of the EHLO reply, for example `SIZE 1000`.
    pub extensions: Vec<String>,
    /// Greets one more connection than these with 421, and closes it.
    pub connections: Option<usize>,
    /// Takes this number of messages over one connection, and then refuses each MAIL with 451.
    pub messages: Option<usize>,
    /// Closes a connection after this time without a command.
    pub idle: Option<Duration>,
    /// Appends every email to this file as one line of JSON ([`Mail`]).
    pub ndjson: Option<PathBuf>,
}

/// An email for which the relay took responsibility, also if its reply was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    pub at: Timestamp,
    /// The content without dot-stuffing and final dot, in base64.
    content: String,
}

impl Mail {
    /// The content as it was sent.
    ///
    /// # Panics
    /// When the content is not base64 of a relay.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        BASE64_STANDARD.decode(&self.content).expect("written by this relay")
    }

    /// The value of a header on one line.
    ///
    /// # Errors
    /// When the email does not have the header.
    pub fn header(&self, name: &str) -> Result<String> {
        let text = String::from_utf8_lossy(&self.bytes()).into_owned();
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        let value = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map(str::to_owned).with_context(|| format!("the mail has no {name}"))
    }
}

/// The number of events that each message reports. A message that came twice is counted once.
///
/// # Errors
/// When an email is not from Tidings.
pub fn events_by_message(mails: &[Mail]) -> Result<BTreeMap<String, u64>> {
    mails
        .iter()
        .map(|mail| Ok((mail.header("X-Tidings-Message")?, mail.header("X-Tidings-Events")?.parse()?)))
        .collect()
}

/// A running relay. It stops when it is dropped.
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
    listening: JoinHandle<()>,
}

struct State {
    settings: Settings,
    tls: Option<TlsAcceptor>,
    faults: Mutex<Vec<Fault>>,
    mails: Mutex<Vec<Mail>>,
    commands: Mutex<Vec<String>>,
    connections: Connections,
}

#[derive(Default)]
struct Connections {
    total: AtomicUsize,
    open: AtomicUsize,
    most: AtomicUsize,
}

impl Relay {
    /// A plain relay on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start() -> Result<Self> {
        Self::with(Settings::default()).await
    }

    /// A relay with these settings.
    ///
    /// # Errors
    /// When no port is free or the certificate cannot be made.
    pub async fn with(settings: Settings) -> Result<Self> {
        let tls = settings.authority.as_ref().map(Authority::acceptor).transpose()?;
        ensure!(tls.is_some() || settings.privacy == Privacy::None, "TLS needs an authority");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            settings,
            tls,
            faults: Mutex::default(),
            mails: Mutex::default(),
            commands: Mutex::default(),
            connections: Connections::default(),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&state)));
        Ok(Self { address, state, listening })
    }

    /// `smtp://127.0.0.1:PORT`, or `smtps://localhost:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        match self.state.settings.privacy {
            Privacy::None => format!("smtp://{}", self.address),
            Privacy::StartTls => format!("smtp://localhost:{}?tls=required", self.address.port()),
            Privacy::Implicit => format!("smtps://localhost:{}", self.address.port()),
        }
    }

    /// The relay's address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a fault. The first matching fault is used.
    pub fn fault(&self, fault: Fault) {
        locked(&self.state.faults).push(fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        locked(&self.state.faults).clear();
    }

    /// All emails so far, in the order of arrival.
    #[must_use]
    pub fn mails(&self) -> Vec<Mail> {
        locked(&self.state.mails).clone()
    }

    /// An email by its number in the order of arrival, from 0.
    #[must_use]
    pub fn mail(&self, number: usize) -> Option<Mail> {
        locked(&self.state.mails).get(number).cloned()
    }

    /// The number of emails so far.
    #[must_use]
    pub fn count(&self) -> usize {
        locked(&self.state.mails).len()
    }

    /// The time of arrival of the latest email to this address.
    #[must_use]
    pub fn arrival(&self, address: &str) -> Option<Timestamp> {
        let mails = locked(&self.state.mails);
        mails.iter().rev().find(|mail| mail.to == [address]).map(|mail| mail.at)
    }

    /// The verbs of all commands so far, in upper case.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        locked(&self.state.commands).clone()
    }

    /// The number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.total.load(Ordering::SeqCst)
    }

    /// The number of connections that are open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.connections.open.load(Ordering::SeqCst)
    }

    /// The highest number of connections that were open at the same time.
    #[must_use]
    pub fn most_connections(&self) -> usize {
        self.state.connections.most.load(Ordering::SeqCst)
    }

    /// Waits until `condition` holds.
    ///
    /// # Errors
    /// When that takes longer than ten seconds.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition(self) {
            ensure!(Instant::now() < deadline, "the relay waited in vain for: {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl State {
    fn keep(&self, from: &str, to: &[String], content: &[u8]) -> Result<()> {
        let mail = Mail {
            from: from.to_owned(),
            to: to.to_owned(),
            at: Timestamp::now(),
            content: BASE64_STANDARD.encode(content),
        };
        if let Some(path) = &self.settings.ndjson {
            let mut line = serde_json::to_vec(&mail)?;
            line.push(b'\n');
            OpenOptions::new().create(true).append(true).open(path)?.write_all(&line)?;
        }
        locked(&self.mails).push(mail);
        Ok(())
    }

    /// Takes the act of the first matching fault, and counts it.
    fn act(&self, at: At, to: &[String]) -> Option<Act> {
        script::next(&mut locked(&self.faults), at, to)
    }
}

impl Connections {
    /// Returns the number of open connections.
    fn opened(&self) -> usize {
        self.total.fetch_add(1, Ordering::SeqCst);
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
        open
    }

    fn closed(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn listen(listener: TcpListener, state: Arc<State>) {
    let mut sessions = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        let open = state.connections.opened();
        sessions.spawn(async move {
            // A client that leaves is not an error: the tests look at what was kept.
            let _ = match state.settings.connections {
                Some(most) if open > most => session::refuse(socket).await,
                _ => session::run(socket, &state).await,
            };
            state.connections.closed();
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
