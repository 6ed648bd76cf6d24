//! Outgoing requests: SNS certificates, SNS subscription confirmations, and an issuer's keys.

use std::{io, net::SocketAddr, time::Duration};

use axum::http::{Request, StatusCode, header::HOST};
use hyper::body::Bytes;
use rustls::RootCertStore;
use tidings_net::{RequestBody, TlsConnector, http, read_body, send_request, system_roots, tls_connector};
use tokio::{net::TcpStream, time::timeout};
use url::{Position, Url};

/// Time limit for the whole request, including name resolution.
const TIME: Duration = Duration::from_secs(5);

/// Client for `GET` without redirects. The caller decides if plain http is allowed.
#[derive(Clone)]
pub struct HttpFetcher {
    tls: TlsConnector,
    server: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot be reached: {0}")]
    Connection(#[from] io::Error),
    #[error("invalid HTTP response: {0}")]
    Http(#[from] hyper::Error),
    #[error("responded with {0}")]
    Status(StatusCode),
    #[error("response is longer than {0} bytes or was cut off")]
    Body(usize),
    #[error("timed out")]
    Time,
}

impl HttpFetcher {
    /// Trusts the system's certificate authorities.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: tls_connector(system_roots()), server: None }
    }

    /// For tests: connects to `server` for every host and trusts `roots`.
    #[must_use]
    pub fn for_server(server: SocketAddr, roots: RootCertStore) -> Self {
        Self { tls: tls_connector(roots), server: Some(server) }
    }

    /// Fetches up to `bytes` of a body within five seconds. The status must be 200.
    ///
    /// # Errors
    ///
    /// See [`FetchError`].
    pub async fn get(&self, url: &str, bytes: usize) -> Result<Bytes, FetchError> {
        timeout(TIME, self.fetch(url, bytes)).await.unwrap_or(Err(FetchError::Time))
    }

    async fn fetch(&self, url: &str, bytes: usize) -> Result<Bytes, FetchError> {
        let invalid = |error: &dyn std::error::Error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
        let url = Url::parse(url).map_err(|error| invalid(&error))?;
        let request = Request::get(&url[Position::BeforePath..Position::AfterQuery]);
        let request =
            request.header(HOST, &url[Position::BeforeHost..Position::AfterPort]).body(RequestBody::default());
        let request = request.map_err(|error| invalid(&error))?;
        // IPv6 addresses have brackets only in URLs.
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let tcp = match self.server {
            Some(server) => TcpStream::connect(server).await?,
            None => TcpStream::connect((host, url.port_or_known_default().unwrap_or_default())).await?,
        };
        let mut sender = http(tcp, (url.scheme() != "http").then_some((&self.tls, host))).await?;
        let response = send_request(&mut sender, request).await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        read_body(response.into_body(), bytes).await.map_err(|_| FetchError::Body(bytes))
    }
}

impl Default for HttpFetcher {
    fn default() -> Self {
        Self::new()
    }
}
