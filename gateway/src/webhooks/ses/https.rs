//! The two requests that Tidings makes because of a webhook: a certificate of SNS, and the confirmation of a subscription.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::http::{Request, StatusCode, Uri, header::HOST, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::Address;

/// Time limit of a request, from the name to the last byte.
const TIME: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const BYTES: usize = 16 * 1024;
const PORT: u16 = 443;

/// A client for `GET` over HTTPS. It follows no redirects.
pub struct Https {
    tls: TlsConnector,
    /// The server that stands for every host, or else the host itself.
    server: Option<SocketAddr>,
}

/// The reason why an address could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot be reached: {0}")]
    Connection(#[from] io::Error),
    #[error("no HTTP: {0}")]
    Http(#[from] hyper::Error),
    #[error("answers {0}")]
    Status(StatusCode),
    #[error("the answer is longer than {BYTES} bytes, or breaks off")]
    Body,
    #[error("does not answer within {} s", TIME.as_secs())]
    Time,
}

impl Https {
    /// Trusts the certificate authorities of the system.
    #[must_use]
    pub fn new() -> Self {
        Self { tls: system_tls(), server: None }
    }

    /// Connects to one server instead of any host, and trusts `roots`: for tests.
    #[must_use]
    pub fn to(server: SocketAddr, roots: RootCertStore) -> Self {
        Self { tls: connector(roots), server: Some(server) }
    }

    /// Returns the body of an answer with status 200.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn get(&self, address: &Address) -> Result<Bytes, FetchError> {
        timeout(TIME, self.fetch(address)).await.unwrap_or(Err(FetchError::Time))
    }

    async fn fetch(&self, address: &Address) -> Result<Bytes, FetchError> {
        let invalid = |error: &dyn std::error::Error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
        let tcp = match self.server {
            Some(server) => TcpStream::connect(server).await?,
            None => TcpStream::connect((address.host.as_str(), PORT)).await?,
        };
        let name = ServerName::try_from(address.host.clone()).map_err(|error| invalid(&error))?;
        let tls = self.tls.connect(name, tcp).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        let path: PathAndQuery = address.path.parse().map_err(|error| invalid(&error))?;
        let request = Request::get(Uri::from(path)).header(HOST, &address.host).body(Empty::<Bytes>::new());
        let request = request.map_err(|error| invalid(&error))?;
        let answered = async {
            let response = sender.send_request(request).await?;
            if response.status() != StatusCode::OK {
                return Err(FetchError::Status(response.status()));
            }
            let body = Limited::new(response.into_body(), BYTES).collect().await;
            Ok(body.map_err(|_| FetchError::Body)?.to_bytes())
        };
        let mut answered = pin!(answered);
        tokio::select! {
            biased;
            answered = &mut answered => answered,
            // A server may end the connection behind its answer, and not politely.
            _ = connection => answered.await,
        }
    }
}

impl Default for Https {
    fn default() -> Self {
        Self::new()
    }
}

/// Trusts the certificate authorities of the system.
pub(crate) fn system_tls() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    connector(roots)
}

fn connector(roots: RootCertStore) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
