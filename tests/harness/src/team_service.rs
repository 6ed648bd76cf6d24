//! A team's service on a socket: it answers as a test wants, and keeps what it was asked. It knows which events were seen, or it is the
//! team's own directory of recipients.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use anyhow::{Context, Result};
use serde_json::Value;
use tidings_model::{settings, webhook_secret::SigningSecret};
use tidings_services::{TeamDirectory, team_directory::DirectorySource};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Duration, sleep},
};

/// The secret that it shares with Tidings.
pub const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyB3aGF0IHdhcyBzZWVu";

/// The answer to each question.
#[derive(Clone, Debug)]
pub enum Says {
    /// 200 with this body.
    Json(Value),
    /// These bytes, and no more.
    Raw(String),
    /// Nothing, and the connection stays open.
    Hangs,
    /// One byte of an answer after another, without an end.
    Drips,
    /// Nothing, and the connection ends.
    Closes,
}

/// A question.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    pub body: Vec<u8>,
    /// The signature is of the shared secret, over a time near now, and the body or else the path.
    pub signed: bool,
}

struct State {
    says: Says,
    asked: Vec<Asked>,
}

/// The service. It ends when it is dropped.
pub struct TeamService {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl TeamService {
    /// Listens on a free port.
    ///
    /// # Errors
    /// There is none.
    pub async fn start(says: Says) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { says, asked: Vec::new() }));
        let shared = Arc::clone(&state);
        let server = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move { serve(socket, &state).await });
            }
        });
        Ok(Self { address, state, server })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/seen?of=acme", self.address)
    }

    /// The settings with which a digest type asks it.
    ///
    /// # Errors
    /// Never.
    pub fn settings(&self) -> Result<settings::SeenService> {
        let secret = Some(SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?);
        let url = self.url().parse().map_err(anyhow::Error::msg)?;
        Ok(settings::SeenService { url, secret, secret_env: "TIDINGS_SEEN_SECRET".to_owned() })
    }

    /// The directory that it is.
    ///
    /// # Errors
    /// Never.
    pub fn directory(&self) -> Result<Arc<TeamDirectory>> {
        let url = format!("http://{}/recipients/{{tenant}}/{{user}}", self.address);
        let secret = SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?;
        let source = DirectorySource::service(url.parse().map_err(anyhow::Error::msg)?, secret);
        Ok(Arc::new(TeamDirectory::new(source)))
    }

    /// Answers like this from now on.
    ///
    /// # Panics
    /// A connection panicked.
    pub fn says(&self, says: Says) {
        self.state.lock().unwrap().says = says;
    }

    /// The questions so far.
    ///
    /// # Panics
    /// A connection panicked.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    /// Listens no more.
    #[must_use]
    pub fn gone(self) -> Self {
        self.server.abort();
        self
    }
}

impl Drop for TeamService {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers one request. It is not a failure if the client goes away.
async fn serve(mut socket: TcpStream, state: &Mutex<State>) {
    let Ok(asked) = read(&mut socket).await else { return };
    let says = {
        let mut state = state.lock().unwrap();
        state.asked.push(asked);
        state.says.clone()
    };
    let answer = match says {
        Says::Json(body) => {
            let body = body.to_string();
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        }
        Says::Raw(answer) => answer,
        Says::Closes => return,
        Says::Hangs => std::future::pending().await,
        Says::Drips => loop {
            if socket.write_all(b"HTTP/1.1 200 OK\r\nx: y\r\n").await.is_err() {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        },
    };
    let _ = socket.write_all(answer.as_bytes()).await;
}

async fn read(socket: &mut TcpStream) -> Result<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        anyhow::ensure!(socket.read_buf(&mut bytes).await? > 0, "no request");
    };
    let head = String::from_utf8(bytes[..end].to_vec())?;
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let length: usize = header("content-length").as_deref().unwrap_or("0").parse()?;
    while bytes.len() < end + length {
        anyhow::ensure!(socket.read_buf(&mut bytes).await? > 0, "half a request");
    }
    let body = bytes[end..].to_vec();
    let seconds: i64 = header("webhook-timestamp").context("no time")?.parse()?;
    let id = header("webhook-id").context("no id")?;
    let near = jiff::Timestamp::now().as_second().abs_diff(seconds) < 60;
    let secret = SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?;
    let mut words = head.split(' ').map(str::to_owned);
    let (method, path) = (words.next().context("no method")?, words.next().context("no path")?);
    // Without a body the path is what is signed.
    let content = if method == "GET" { path.as_bytes() } else { &body };
    let signed = near && header("webhook-signature") == Some(secret.sign(&id, seconds, content));
    Ok(Asked { method, path, body, signed })
}
