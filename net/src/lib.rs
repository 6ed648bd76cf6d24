//! Opens outgoing connections with the system's certificate authorities, rustls with ring, and HTTP/1.1.
//!
//! We use hyper's connections directly: they follow no redirects and use no proxy, and the caller chooses
//! address, timeout and maximum response size. hyper-util's pooled client would need our own resolver, and it
//! hides why a request failed.

use std::{error::Error, io, sync::Arc};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http1::{self, SendRequest},
    header::{HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
pub use tokio_rustls::TlsConnector;

/// Dropping this closes the connection.
pub type RequestSender = SendRequest<RequestBody>;
pub type RequestBody = Full<Bytes>;

#[must_use]
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// A TLS client which trusts `roots`, without a client certificate.
///
/// # Panics
/// Never, because ring supports the default TLS versions.
#[must_use]
pub fn tls_connector(roots: RootCertStore) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Starts HTTP/1.1 on a socket, with TLS if a host is given.
///
/// # Errors
/// If the server has no TLS, or its certificate does not match the host.
pub async fn http(socket: TcpStream, tls: Option<(&TlsConnector, &str)>) -> io::Result<RequestSender> {
    socket.set_nodelay(true)?;
    match tls {
        Some((connector, host)) => {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            start_http(connector.connect(name, socket).await?).await
        }
        None => start_http(socket).await,
    }
}

async fn start_http<S>(stream: S) -> io::Result<RequestSender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Ignore this task's result: a connection error also fails its request. A server may close the connection
    // abruptly after its response.
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends a request with a `User-Agent`, because common firewalls refuse requests without one.
///
/// # Errors
/// If the connection is lost, or the response is not HTTP.
pub async fn send_request(
    sender: &mut RequestSender,
    mut request: Request<RequestBody>,
) -> hyper::Result<Response<Incoming>> {
    let agent = HeaderValue::from_static(concat!("Tidings/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().insert(USER_AGENT, agent);
    sender.send_request(request).await
}

/// # Errors
/// If it is longer or incomplete.
pub async fn read_body(body: Incoming, most: usize) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    Ok(Limited::new(body, most).collect().await?.to_bytes())
}
