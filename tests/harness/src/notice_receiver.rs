//! A service that gets notices, on a socket: it checks each signature, answers as a test wants, and keeps what it was sent.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use temporalio_client::Client;
use tidings::registration;
use tidings_activities::SubscriptionActivities;
use tidings_model::{
    names,
    subscription::{NoticeType, WebhookSubscription},
    webhook_secret::SigningSecret,
};
use tidings_store::Store;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::worker::Running;

/// The variable that [`cli_env::command`](crate::cli_env::command) sets to [`SECRET`].
pub const SECRET_ENV: &str = "TIDINGS_TEST_NOTICES";
pub const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBub3RpY2VzIG9ubHk=";
/// The secret after a rotation.
pub const NEXT_SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyB0aGUgbmV4dCBvbmU=";

/// A request, and the status of its answer.
#[derive(Clone, Debug)]
pub struct Received {
    pub id: String,
    pub timestamp: String,
    pub signature: String,
    pub body: Vec<u8>,
    pub status: u16,
}

impl Received {
    /// The body.
    ///
    /// # Panics
    /// The body is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The user whom the notice is about.
    #[must_use]
    pub fn user(&self) -> String {
        self.json()["data"]["user"].as_str().unwrap_or_default().to_owned()
    }

    /// The type of the notice.
    #[must_use]
    pub fn event(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }
}

/// The status for a request: a function of the number of requests before it, and of the body.
pub type Says = Box<dyn Fn(usize, &Value) -> u16 + Send>;

struct State {
    says: Says,
    received: Vec<Received>,
    unsigned: Vec<String>,
}

/// The service. It ends when it is dropped.
pub struct NoticeReceiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl NoticeReceiver {
    /// Listens on a free port.
    ///
    /// # Errors
    /// There is none.
    pub async fn start(says: impl Fn(usize, &Value) -> u16 + Send + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = State { says: Box::new(says), received: Vec::new(), unsigned: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let server = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move { serve(socket, &state).await.ok() });
            }
        });
        Ok(Self { address, state, server })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/notices?of=acme", self.address)
    }

    /// The subscription `crm` to these types.
    ///
    /// # Errors
    /// Never.
    pub fn subscription(&self, events: &[NoticeType]) -> Result<WebhookSubscription> {
        Ok(WebhookSubscription {
            name: "crm".to_owned(),
            url: self.url().parse().map_err(anyhow::Error::msg)?,
            events: events.iter().copied().collect(),
            tenant: None,
            digest_type: None,
            secrets: vec![SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?],
            secret_env: SECRET_ENV.to_owned(),
            was: Vec::new(),
        })
    }

    /// Answers like this from now on.
    ///
    /// # Panics
    /// A connection panicked.
    pub fn says(&self, says: impl Fn(usize, &Value) -> u16 + Send + 'static) {
        self.state.lock().unwrap().says = Box::new(says);
    }

    /// The requests so far.
    ///
    /// # Errors
    /// One of them had a wrong signature.
    ///
    /// # Panics
    /// A connection panicked.
    pub fn received(&self) -> Result<Vec<Received>> {
        let state = self.state.lock().unwrap();
        ensure!(state.unsigned.is_empty(), "wrong signatures: {:?}", state.unsigned);
        Ok(state.received.clone())
    }

    /// The requests that were answered with 2xx, each id once, in the order of their first acceptance.
    ///
    /// # Errors
    /// As for [`received`](Self::received).
    pub fn accepted(&self) -> Result<Vec<Received>> {
        let mut accepted: Vec<Received> = Vec::new();
        for one in self.received()?.into_iter().filter(|one| one.status < 300) {
            if accepted.iter().all(|known| known.id != one.id) {
                accepted.push(one);
            }
        }
        Ok(accepted)
    }

    /// Listens no more.
    #[must_use]
    pub fn gone(self) -> Self {
        self.server.abort();
        self
    }
}

impl Drop for NoticeReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Starts the production worker of subscriptions, and subscribes.
///
/// # Errors
/// The store or the server does not answer.
pub async fn deliver_to(
    temporal: &Client,
    store: Arc<dyn Store>,
    subscription: WebhookSubscription,
) -> Result<Running> {
    store.subscribe(std::slice::from_ref(&subscription), true).await?;
    let subscriptions = [(subscription.name.clone(), subscription)].into();
    let activities = SubscriptionActivities { store, subscriptions };
    Running::start(temporal.clone(), registration::subscription_worker(names::TASK_QUEUE, activities)?)
}

/// Answers one request. A client may go away before.
async fn serve(mut socket: TcpStream, state: &Mutex<State>) -> Result<()> {
    let mut received = read(&mut socket).await?;
    let signed = is_signed(&received);
    let status = {
        let mut state = state.lock().unwrap();
        let status = (state.says)(state.received.len(), &received.json());
        received.status = status;
        if !signed {
            state.unsigned.push(format!("{received:?}"));
        }
        state.received.push(received);
        status
    };
    let answer = format!("HTTP/1.1 {status} x\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n");
    Ok(socket.write_all(answer.as_bytes()).await?)
}

/// One of the signatures is of one of the secrets, over a time near now.
fn is_signed(received: &Received) -> bool {
    let seconds: i64 = received.timestamp.parse().unwrap_or_default();
    let near = jiff::Timestamp::now().as_second().abs_diff(seconds) < 60;
    let secrets = [SECRET, NEXT_SECRET].map(SigningSecret::parse);
    let right = |signature: &str| {
        secrets.iter().flatten().any(|secret| secret.sign(&received.id, seconds, &received.body) == signature)
    };
    near && !received.signature.is_empty() && received.signature.split(' ').all(right)
}

async fn read(socket: &mut TcpStream) -> Result<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        ensure!(socket.read_buf(&mut bytes).await? > 0, "no request");
    };
    let head = String::from_utf8(bytes[..end].to_vec())?;
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let length: usize = header("content-length").context("no length")?.parse()?;
    while bytes.len() < end + length {
        ensure!(socket.read_buf(&mut bytes).await? > 0, "half a request");
    }
    ensure!(header("user-agent").is_some_and(|agent| agent.starts_with("Tidings/")), "no user agent");
    Ok(Received {
        id: header("webhook-id").context("no id")?,
        timestamp: header("webhook-timestamp").context("no time")?,
        signature: header("webhook-signature").context("no signature")?,
        body: bytes[end..].to_vec(),
        status: 0,
    })
}
