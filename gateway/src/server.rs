//! Accepts connections with limits on number, size and time, and shuts down gracefully.

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
    client_address::{PeerAddress, TrustedProxies},
    client_quota::{ClientQuota, QuotaPortion},
    problem::Problem,
};

/// Backoff after an accept error, e.g. if the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Response to a connection above its client's limit.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nConnection: close\r\nContent-Type: application/problem+json\r\n\r\n\
    {\"type\":\"/problems/too-many\",\"title\":\"Too many connections\",\"status\":429,\
    \"detail\":\"Send the request again after the seconds of Retry-After.\"}";

#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Open connections. More wait in the kernel's backlog.
    pub connections: usize,
    /// Open connections per client. More are rejected.
    pub of_client: usize,
    /// These are exempt from the limit per client, because they carry many.
    pub trusted: TrustedProxies,
    /// Timeout for request headers, which is also the keep-alive timeout.
    pub headers: Duration,
    /// Longest request headers in bytes; at least 8192.
    pub header_bytes: usize,
    /// After this age a connection accepts no more requests. This also ends clients that never read a
    /// response.
    pub age: Duration,
    /// Shutdown grace for requests in progress, per connection and for the server.
    pub ending: Duration,
}

impl ConnectionLimits {
    /// Default. This needs enough file descriptors.
    pub const CONNECTIONS: usize = 1024;
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: Self::CONNECTIONS,
            of_client: Self::CONNECTIONS / 4,
            trusted: TrustedProxies::default(),
            headers: Duration::from_secs(10),
            header_bytes: 16 * 1024,
            age: Duration::from_mins(5),
            ending: Duration::from_secs(20),
        }
    }
}

/// Serves until `shutdown` is cancelled. Then closes idle connections, and requests in progress should
/// complete within [`ConnectionLimits::ending`].
pub async fn serve(listener: TcpListener, router: Router, limits: ConnectionLimits, shutdown: CancellationToken) {
    let places = ConnectionQuota::new(&limits);
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
        tracing::warn!(open = connections.len(), "closed connections whose requests took too long");
    }
}

struct ConnectionQuota {
    all: Arc<Semaphore>,
    of_clients: ClientQuota,
    trusted: TrustedProxies,
}

struct ConnectionPermit {
    _one_of_all: OwnedSemaphorePermit,
    _of_client: QuotaPortion,
}

impl ConnectionQuota {
    fn new(ConnectionLimits { connections, of_client, trusted, .. }: &ConnectionLimits) -> Self {
        let all = Arc::new(Semaphore::new(*connections));
        Self { all, of_clients: ClientQuota::new(*connections, *of_client), trusted: trusted.clone() }
    }

    /// Waits for a permit, then for a connection whose client is below its limit.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, SocketAddr, ConnectionPermit) {
        loop {
            // The semaphore is never closed.
            let Ok(one_of_all) = self.all.clone().acquire_owned().await else { return std::future::pending().await };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let _ = stream.set_nodelay(true);
                    let client = peer.ip().to_canonical();
                    let client = (!self.trusted.is_trusted(client)).then_some(client);
                    match self.of_clients.take(client, 1) {
                        Ok(of_client) => {
                            return (stream, peer, ConnectionPermit { _one_of_all: one_of_all, _of_client: of_client });
                        }
                        Err(_) => refuse_connection(stream),
                    }
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Writes as much as the kernel accepts without blocking.
fn refuse_connection(stream: TcpStream) {
    let _ = stream.into_std().and_then(|mut stream| stream.write_all(TOO_MANY));
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: &ConnectionLimits,
    shutdown: CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            if !has_one_host(&request) {
                return Ok(without_host());
            }
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(PeerAddress(peer.ip()));
            router.oneshot(request).await
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(limits.header_bytes)
        // A client that closed its sending side may still wait for the response.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Ignored: the client disconnected or sent no HTTP. Note: this error may quote the request.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => {}
        () = sleep(limits.age) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(limits.ending, connection).await;
}

/// HTTP/1.1 requires exactly one `Host` (RFC 9112, section 3.2). Otherwise a proxy could see another host
/// than we do.
fn has_one_host(request: &Request<Incoming>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

fn without_host() -> Response {
    let problem = "is required once in HTTP/1.1 (RFC 9112, section 3.2)";
    Problem::WrongParameter.with_errors(&[json!({"field": "Host", "problem": problem})])
}

#[cfg(test)]
mod tests;
