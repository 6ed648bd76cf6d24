//! A TCP proxy that breaks the network between a client and its server.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use url::Url;

/// The state of the network between a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Bytes pass at once, also those that were held back.
    Whole,
    /// Each block of up to 64 KiB waits this long, in each direction.
    Slow(Duration),
    /// Bytes stop, and connections stay open. A client sees the same if its server is under SIGSTOP, its disk stalls, or the
    /// network drops packets.
    Frozen,
    /// Each connection breaks, also each new one.
    Cut,
}

/// Forwards connections to one server until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
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
        let (network, state) = watch::channel(Network::Whole);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut inner = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                inner.spawn(forward(client, server, state.clone()));
            }
        });
        Ok(Self { address, network, _connections: connections })
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

    /// The address and port, as `TEMPORAL_ADDRESS` takes them.
    #[must_use]
    pub fn target(&self) -> String {
        self.address.to_string()
    }

    /// The address and port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the network, for open and new connections.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

async fn forward(client: TcpStream, server: SocketAddr, mut network: watch::Receiver<Network>) {
    let is_cut = |network: &Network| *network == Network::Cut;
    if is_cut(&network.borrow()) {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    tokio::select! {
        () = copy(client_in, server_out, network.clone()) => {}
        () = copy(server_in, client_out, network.clone()) => {}
        _ = network.wait_for(is_cut) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut network: watch::Receiver<Network>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let Ok(state) = network.wait_for(|network| *network != Network::Frozen).await.map(|network| *network) else {
            return;
        };
        if let Network::Slow(wait) = state {
            tokio::time::sleep(wait).await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
