//! A TCP proxy that can freeze: bytes stop and connections stay open. A client sees the same when its server is under
//! SIGSTOP, its disk stalls, or the network drops packets.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use url::Url;

/// Forwards connections to one server until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    frozen: watch::Sender<bool>,
    _connections: JoinSet<()>,
}

impl Proxy {
    /// A proxy to the server that `url` names.
    ///
    /// # Errors
    /// When the URL names no host and port, or no port is free.
    pub async fn start(url: &Url) -> Result<Self> {
        let server = url.socket_addrs(|| Some(5432))?.first().copied().context("the URL names no server")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (frozen, thawed) = watch::channel(false);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut inner = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                inner.spawn(forward(client, server, thawed.clone()));
            }
        });
        Ok(Self { address, frozen, _connections: connections })
    }

    /// The URL with the proxy's address.
    ///
    /// # Errors
    /// Never for a URL with a host.
    pub fn url(&self, mut url: Url) -> Result<Url> {
        url.set_ip_host(self.address.ip()).ok().context("the URL takes no host")?;
        url.set_port(Some(self.address.port())).ok().context("the URL takes no port")?;
        Ok(url)
    }

    /// Stops all bytes in both directions.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Lets all bytes pass again, also those held back.
    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}

async fn forward(client: TcpStream, server: SocketAddr, thawed: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    tokio::select! {
        () = copy(client_in, server_out, thawed.clone()) => {}
        () = copy(server_in, client_out, thawed) => {}
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut thawed: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        if thawed.wait_for(|frozen| !frozen).await.is_err() || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
