//! Connections: accepted, bounded in number, size and time, and ended gracefully.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body, response::Response};
use hyper::{Request, Version, body::Incoming, header::HOST, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use crate::{
    client_address::{Networks, Peer},
    problem::Problem,
    quota::{Portion, Quota},
};

/// The pause after an error of the listener, as when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// The answer to a connection over the limit of its client.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nConnection: close\r\nContent-Type: application/problem+json\r\n\r\n\
    {\"type\":\"/problems/too-many\",\"title\":\"This client has too many connections\",\"status\":429,\
    \"detail\":\"Send the request again after the seconds of Retry-After.\"}";

/// The limits of connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections. More wait until the kernel's queue is full.
    pub connections: usize,
    /// Open connections of one client. More are refused.
    pub of_client: usize,
    /// Proxies, whose connections are those of many clients.
    pub trusted: Networks,
    /// Time for the headers of a request, and for which an idle connection stays open.
    pub headers: Duration,
    /// Bytes of a request's headers; at least 8192.
    pub header_bytes: usize,
    /// Age after which a connection takes no more requests. A client that never reads its answer ends with it.
    pub age: Duration,
    /// Time for what was accepted, when a connection or the server ends.
    pub ending: Duration,
}

impl Limits {
    /// Open connections where file descriptors suffice.
    pub const CONNECTIONS: usize = 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: Self::CONNECTIONS,
            of_client: Self::CONNECTIONS / 4,
            trusted: Networks::default(),
            headers: Duration::from_secs(10),
            header_bytes: 16 * 1024,
            age: Duration::from_mins(5),
            ending: Duration::from_secs(20),
        }
    }
}

/// Serves until `shutdown` is cancelled. Then no connection is accepted, requests in progress are answered within
/// [`Limits::ending`], and idle connections are closed at once.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, shutdown: CancellationToken) {
    let places = Places::new(&limits);
    let (limits, connections) = (Arc::new(limits), TaskTracker::new());
    while let Some((stream, peer, place)) = shutdown.run_until_cancelled(places.accept(&listener)).await {
        let (router, limits, shutdown) = (router.clone(), limits.clone(), shutdown.clone());
        connections.spawn(async move {
            connection(stream, peer, router, &limits, shutdown).await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if timeout(limits.ending, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections are cut off: their requests took too long");
    }
}

/// The places of open connections.
struct Places {
    all: Arc<Semaphore>,
    of_clients: Quota,
    trusted: Networks,
}

/// The place of one connection.
struct Place {
    _one_of_all: OwnedSemaphorePermit,
    _of_client: Portion,
}

impl Places {
    fn new(Limits { connections, of_client, trusted, .. }: &Limits) -> Self {
        let all = Arc::new(Semaphore::new(*connections));
        Self { all, of_clients: Quota::new(*connections, *of_client), trusted: trusted.clone() }
    }

    /// Waits for a place, and then for a connection of a client that may have one more.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, SocketAddr, Place) {
        loop {
            // The semaphore is never closed.
            let Ok(one_of_all) = self.all.clone().acquire_owned().await else { return std::future::pending().await };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let _ = stream.set_nodelay(true);
                    let client = peer.ip().to_canonical();
                    let client = (!self.trusted.contain(client)).then_some(client);
                    match self.of_clients.take(client, 1) {
                        Ok(of_client) => {
                            return (stream, peer, Place { _one_of_all: one_of_all, _of_client: of_client });
                        }
                        Err(_) => refuse(stream),
                    }
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Answers as far as the kernel takes it at once, and closes the connection.
fn refuse(stream: TcpStream) {
    let _ = stream.into_std().and_then(|mut stream| stream.write_all(TOO_MANY));
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers the requests of one connection.
async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, limits: &Limits, shutdown: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            if !has_one_host(&request) {
                return Ok(without_host());
            }
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer.ip()));
            router.oneshot(request).await
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(limits.header_bytes)
        // A client that sends no more may still wait for its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // An error is the client's: it went away, or sent no HTTP. Its text may quote the request.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => {}
        () = sleep(limits.age) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(limits.ending, connection).await;
}

/// HTTP/1.1 requires `Host` once (RFC 9112, section 3.2). Whoever routes by it may see another host than we do.
fn has_one_host(request: &Request<Incoming>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

fn without_host() -> Response {
    let problem = "is required once in HTTP/1.1 (RFC 9112, section 3.2)";
    Problem::WrongParameter.with_errors(&[json!({"field": "Host", "problem": problem})])
}

#[cfg(test)]
mod tests;
