//! Sends one signed request to a team's service over a new connection. Redirects are not followed; we return
//! their status.

use std::{io, sync::LazyLock, time::Duration};

use hyper::{
    Method, Request, StatusCode, Uri,
    body::Bytes,
    header::{ACCEPT, CONTENT_TYPE, HOST},
    http::uri::PathAndQuery,
};
use jiff::Timestamp;
use tidings_model::{settings::ServiceUrl, webhook_secret::SigningSecret};
use tidings_net::{RequestBody, TlsConnector, http, read_body, system_roots, tls_connector};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use uuid::Uuid;

const TIME: Duration = Duration::from_secs(2);

static TLS: LazyLock<TlsConnector> = LazyLock::new(|| tls_connector(system_roots()));

pub enum ServiceRequest<'a> {
    /// A `GET`; the path and query are signed instead of a body.
    Get(&'a str),
    Post(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    Unreachable,
    TimedOut,
    Unreadable,
}

#[derive(Debug)]
pub struct ServiceFailure {
    pub result: NoAnswer,
    pub why: String,
}

impl<E: std::error::Error> From<E> for ServiceFailure {
    fn from(error: E) -> Self {
        Self { result: NoAnswer::Unreachable, why: error.to_string() }
    }
}

/// Named as in Standard Webhooks.
pub struct SignatureHeaders {
    pub id: String,
    /// Seconds since 1970.
    pub timestamp: i64,
    pub signature: String,
}

/// Returns the response's status and body. A body over `most` bytes is unreadable.
///
/// # Errors
/// If the service does not respond in time, or its response is invalid.
pub async fn send_signed(
    url: &ServiceUrl,
    secret: &SigningSecret,
    question: ServiceRequest<'_>,
    most: usize,
) -> Result<(StatusCode, Bytes), ServiceFailure> {
    // A retry is a new request with its own id, since the response may have changed.
    let (id, timestamp) = (Uuid::new_v4().to_string(), Timestamp::now().as_second());
    let signature = match &question {
        ServiceRequest::Get(target) => secret.sign(&id, timestamp, target.as_bytes()),
        ServiceRequest::Post(body) => secret.sign(&id, timestamp, body),
    };
    let (status, body) = send_request(url, question, SignatureHeaders { id, timestamp, signature }, most, TIME).await?;
    let unreadable = || ServiceFailure {
        result: NoAnswer::Unreadable,
        why: format!("the answer is longer than {most} bytes, or breaks off"),
    };
    Ok((status, body.ok_or_else(unreadable)?))
}

/// Returns the response's status and body, or no body if it is over `most` bytes or incomplete.
///
/// # Errors
/// If the service does not respond in time, or its response is invalid.
pub async fn send_request(
    url: &ServiceUrl,
    question: ServiceRequest<'_>,
    signed: SignatureHeaders,
    most: usize,
    within: Duration,
) -> Result<(StatusCode, Option<Bytes>), ServiceFailure> {
    let request = async {
        let tcp = connect_host(url).await?;
        let request = request(url, question, signed)?;
        let mut sender = http(tcp, url.is_https().then(|| (&*TLS, url.host()))).await?;
        let response = tidings_net::send_request(&mut sender, request).await?;
        Ok((response.status(), read_body(response.into_body(), most).await.ok()))
    };
    let late =
        || ServiceFailure { result: NoAnswer::TimedOut, why: format!("no answer within {} s", within.as_secs()) };
    timeout(within, request).await.unwrap_or_else(|_| Err(late()))
}

fn request(
    url: &ServiceUrl,
    question: ServiceRequest<'_>,
    signed: SignatureHeaders,
) -> Result<Request<RequestBody>, ServiceFailure> {
    let of_url = &url.url()[url::Position::BeforePath..];
    let (method, target, body) = match question {
        ServiceRequest::Get(target) => (Method::GET, target, Vec::new()),
        ServiceRequest::Post(body) => (Method::POST, of_url, body),
    };
    let path: PathAndQuery = target.parse()?;
    let host = &url.url()[url::Position::BeforeHost..url::Position::AfterPort];
    let request = Request::builder().method(&method).uri(Uri::from(path)).header(HOST, host);
    let request = match method {
        Method::POST => request.header(CONTENT_TYPE, "application/json"),
        _ => request.header(ACCEPT, "application/json"),
    };
    let request = request.header("webhook-id", signed.id).header("webhook-timestamp", signed.timestamp.to_string());
    Ok(request.header("webhook-signature", signed.signature).body(Bytes::from(body).into())?)
}

/// Connects to one of the host's addresses. Without TLS, only addresses on this machine are allowed, whatever
/// the host's name.
async fn connect_host(url: &ServiceUrl) -> Result<TcpStream, ServiceFailure> {
    let port = url.url().port_or_known_default().unwrap_or_default();
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name has no address that may be asked");
    for address in lookup_host((url.host(), port)).await? {
        if !url.is_https() && !address.ip().is_loopback() {
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => problem = error,
        }
    }
    Err(problem.into())
}
