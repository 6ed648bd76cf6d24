//! Requests that the gateway makes: a certificate of SNS, the confirmation of a subscription, the keys of an issuer.

use std::{io, net::SocketAddr, time::Duration};

use axum::http::{Request, StatusCode, header::HOST};
use hyper::body::Bytes;
use rustls::RootCertStore;
use tidings_net::{Body, TlsConnector, connector, http, read, system_roots};
use tokio::{net::TcpStream, time::timeout};
use url::{Position, Url};

/// Time limit of a request, from the name to the last byte.
const TIME: Duration = Duration::from_secs(5);

/// A client for `GET`. It follows no redirects. Whoever names a URL decides if it may be http.
#[derive(Clone)]
pub struct Fetcher {
    tls: TlsConnector,
    /// The server that stands for every host, or else the host itself.
    server: Option<SocketAddr>,
}

/// The reason why a URL could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot be reached: {0}")]
    Connection(#[from] io::Error),
    #[error("no HTTP: {0}")]
    Http(#[from] hyper::Error),
    #[error("answers {0}")]
    Status(StatusCode),
    #[error("the answer is longer than {0} bytes, or breaks off")]
    Body(usize),
    #[error("does not answer in time")]
    Time,
}

impl Fetcher {
    /// Trusts the certificate authorities of the system.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: connector(system_roots()), server: None }
    }

    /// Connects to one server instead of any host, and trusts `roots`: for tests.
    #[must_use]
    pub fn to(server: SocketAddr, roots: RootCertStore) -> Self {
        Self { tls: connector(roots), server: Some(server) }
    }

    /// Returns the body of an answer with status 200, of at most `bytes`, within five seconds.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn get(&self, url: &str, bytes: usize) -> Result<Bytes, FetchError> {
        timeout(TIME, self.fetch(url, bytes)).await.unwrap_or(Err(FetchError::Time))
    }

    async fn fetch(&self, url: &str, bytes: usize) -> Result<Bytes, FetchError> {
        let invalid = |error: &dyn std::error::Error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
        let url = Url::parse(url).map_err(|error| invalid(&error))?;
        let request = Request::get(&url[Position::BeforePath..Position::AfterQuery]);
        let request = request.header(HOST, &url[Position::BeforeHost..Position::AfterPort]).body(Body::default());
        let request = request.map_err(|error| invalid(&error))?;
        // An IPv6 address has brackets in a URL only.
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let tcp = match self.server {
            Some(server) => TcpStream::connect(server).await?,
            None => TcpStream::connect((host, url.port_or_known_default().unwrap_or_default())).await?,
        };
        let mut sender = http(tcp, (url.scheme() != "http").then_some((&self.tls, host))).await?;
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        read(response.into_body(), bytes).await.map_err(|_| FetchError::Body(bytes))
    }
}

impl Default for Fetcher {
    fn default() -> Self {
        Self::new()
    }
}
