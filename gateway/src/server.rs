//! Connections: accepted, bounded in number, size and time, and ended gracefully.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

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

use crate::{client_address::Peer, problem::Problem};

/// The pause after an error of the listener, as when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections. More wait until the kernel's queue is full.
    pub connections: usize,
    /// Time for the headers of a request, and for which an idle connection stays open.
    pub headers: Duration,
    /// Bytes of a request's headers; at least 8192.
    pub header_bytes: usize,
    /// Age after which a connection takes no more requests. A client that never reads its answer ends with it.
    pub age: Duration,
    /// Time for what was accepted, when a connection or the server ends.
    pub ending: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
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
    let places = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    while let Some((stream, peer, place)) = shutdown.run_until_cancelled(accept(&listener, &places)).await {
        let (router, shutdown) = (router.clone(), shutdown.clone());
        connections.spawn(async move {
            connection(stream, peer, router, limits, shutdown).await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if timeout(limits.ending, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections are cut off: their requests took too long");
    }
}

/// Waits for a place, and then for a connection.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                return (stream, peer, place);
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers the requests of one connection.
async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, limits: Limits, shutdown: CancellationToken) {
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
