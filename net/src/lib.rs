//! Connections that Tidings opens: trust in certificate authorities, the versions and ciphers of rustls with ring, and HTTP/1.1.
//!
//! A connection is hyper's own. It follows no redirect, asks no proxy, and its caller says to which address it goes, how long it may take and
//! how long an answer may be. The pooled client of hyper-util would need a resolver of ours for the first, and hides the reason of a failure.

use std::{error::Error, io, sync::Arc};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
pub use tokio_rustls::TlsConnector;

/// Sends requests over one connection, which ends with it.
pub type Sender = SendRequest<Body>;
/// The body of a request.
pub type Body = Full<Bytes>;

/// The certificate authorities of the system. Reads files.
#[must_use]
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// A client without a certificate of its own, which trusts `roots`.
///
/// # Panics
/// Never: ring has the default versions of TLS.
#[must_use]
pub fn connector(roots: RootCertStore) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Begins HTTP/1.1 on a socket, with TLS for a host or without.
///
/// # Errors
/// The server speaks no TLS, or its certificate is not that of the host.
pub async fn http(socket: TcpStream, tls: Option<(&TlsConnector, &str)>) -> io::Result<Sender> {
    socket.set_nodelay(true)?;
    match tls {
        Some((connector, host)) => {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            sender(connector.connect(name, socket).await?).await
        }
        None => sender(socket).await,
    }
}

async fn sender<S>(stream: S) -> io::Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // An error of the connection is an error of its request, too. A server may end it behind its answer, and not politely.
    tokio::spawn(connection);
    Ok(sender)
}

/// Reads a body of at most `most` bytes.
///
/// # Errors
/// It is longer, or breaks off.
pub async fn read(body: Incoming, most: usize) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    Ok(Limited::new(body, most).collect().await?.to_bytes())
}
