//! The connection to the api, which stays open between requests. It follows no redirect.

use std::{io, sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::api::Http;

/// Time limit for a connection with TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an answer: results of 10,000 items, whose ids have at most a MiB.
const ANSWER: usize = 8 << 20;

type Sender = SendRequest<Full<Bytes>>;

/// The connection to the api of a gateway.
pub(super) struct Connection {
    http: Http,
    tls: Option<TlsConnector>,
    open: Option<Sender>,
}

/// An answer.
pub(super) struct Response {
    pub status: StatusCode,
    pub retry_after: Option<String>,
    pub body: Bytes,
}

impl Connection {
    /// Connects, to find out if anything answers.
    pub async fn open(http: Http) -> io::Result<Self> {
        let tls = if http.is_tls { Some(connector()?) } else { None };
        let mut connection = Self { http, tls, open: None };
        connection.open = Some(connection.connect().await?);
        Ok(connection)
    }

    /// Posts events. If the connection was closed since the last request, posts them again over a new one: an event counts once.
    pub async fn post(&mut self, body: Bytes) -> io::Result<Response> {
        if let Some(mut sender) = self.open.take()
            && let Ok(response) = self.exchange(&mut sender, body.clone()).await
        {
            self.open = Some(sender);
            return Ok(response);
        }
        let mut sender = self.connect().await?;
        let response = self.exchange(&mut sender, body).await?;
        self.open = Some(sender);
        Ok(response)
    }

    async fn connect(&self) -> io::Result<Sender> {
        let connecting = async {
            let tcp = TcpStream::connect((self.http.host.as_str(), self.http.port)).await?;
            tcp.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return sender(tcp).await };
            let name = ServerName::try_from(self.http.host.clone()).map_err(io::Error::other)?;
            sender(tls.connect(name, tcp).await?).await
        };
        timeout(CONNECT, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn exchange(&self, sender: &mut Sender, body: Bytes) -> io::Result<Response> {
        let request = Request::post(self.http.path.as_str())
            .header(HOST, self.http.authority())
            .header(AUTHORIZATION, self.http.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(io::Error::other)?;
        sender.ready().await.map_err(io::Error::other)?;
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), ANSWER).collect().await.map_err(io::Error::other)?;
        Ok(Response { status, retry_after, body: body.to_bytes() })
    }
}

/// Starts HTTP/1.1 on a stream. The connection ends with its sender.
async fn sender<S>(stream: S) -> io::Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // An error of the connection is an error of its request, too.
    tokio::spawn(connection);
    Ok(sender)
}

/// Trusts the certificate authorities of the system.
fn connector() -> io::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(io::Error::other("the system has no CA certificates; install them"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
