//! One POST to a service of a team, over a connection of its own. Redirects are not followed: their status is the answer.

use std::{io, pin::pin, sync::LazyLock, time::Duration};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST, HeaderName},
    http::uri::PathAndQuery,
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tidings_mail::tls;
use tidings_model::{rules::seen::SeenResult, settings::SeenUrl};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// Time limit, from the name to the last byte.
const TIME: Duration = Duration::from_secs(2);

/// Read once, when the first service is asked.
static TLS: LazyLock<TlsConnector> = LazyLock::new(|| tls::connector(tls::system_roots()));

/// The failure of a request, with its reason in words that name no secret.
pub(super) struct Failure {
    pub result: SeenResult,
    pub why: String,
}

/// A failure of the network or of HTTP.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { result: SeenResult::Unreachable, why: error.to_string() }
    }
}

/// Sends JSON, and returns status and body of the answer. A body over `most` bytes is unreadable.
pub(super) async fn post(
    url: &SeenUrl,
    headers: &[(HeaderName, String)],
    body: Vec<u8>,
    most: usize,
) -> Result<(StatusCode, Bytes), Failure> {
    let request = async {
        let tcp = connected(url).await?;
        let path: PathAndQuery = url.url()[url::Position::BeforePath..].parse()?;
        let host = &url.url()[url::Position::BeforeHost..url::Position::AfterPort];
        let request = Request::post(Uri::from(path)).header(HOST, host).header(CONTENT_TYPE, "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = request.body(Full::new(Bytes::from(body)))?;
        if url.is_https() {
            let name = ServerName::try_from(url.host().to_owned())?;
            answer(TLS.connect(name, tcp).await?, request, most).await
        } else {
            answer(tcp, request, most).await
        }
    };
    let late = || Failure { result: SeenResult::TimedOut, why: format!("no answer within {} s", TIME.as_secs()) };
    timeout(TIME, request).await.unwrap_or_else(|_| Err(late()))
}

/// Connects to one of the host's addresses. Without TLS only addresses of this machine count, whatever the name says.
async fn connected(url: &SeenUrl) -> Result<TcpStream, Failure> {
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

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: Request<Full<Bytes>>,
    most: usize,
) -> Result<(StatusCode, Bytes), Failure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answered = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let unreadable = |_| Failure {
            result: SeenResult::Unreadable,
            why: format!("the answer is longer than {most} bytes, or breaks off"),
        };
        Ok((status, Limited::new(response.into_body(), most).collect().await.map_err(unreadable)?.to_bytes()))
    };
    let mut answered = pin!(answered);
    tokio::select! {
        biased;
        answered = &mut answered => answered,
        // A server may end the connection behind its answer, and not politely.
        _ = connection => answered.await,
    }
}
