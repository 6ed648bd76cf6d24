//! `/metrics`: what this process counts, and what a worker's poller sees, for Prometheus.

use std::net::SocketAddr;

use anyhow::Context as _;
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use tidings_gateway::server::{self, Limits};
use tokio::{
    net::TcpListener,
    task::{AbortHandle, JoinHandle},
};
use tokio_util::sync::CancellationToken;

mod poller;

pub(super) use poller::Poller;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Open connections of the listener for metrics: few scrape them.
pub(crate) const CONNECTIONS: usize = 32;

/// A task that runs until this is dropped.
pub(crate) struct Background(AbortHandle);

impl Background {
    pub fn new<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers `GET /metrics` on this address with what `text` returns.
///
/// # Errors
/// The address is taken, or not of this machine.
pub(crate) async fn listen(address: SocketAddr, text: fn() -> String) -> anyhow::Result<Background> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("metrics_listen = \"{address}\""))?;
    let router = Router::new().route("/metrics", get(move || async move { ([(CONTENT_TYPE, OPEN_METRICS)], text()) }));
    let limits = Limits { connections: CONNECTIONS, of_client: CONNECTIONS / 4, ..Limits::default() };
    let serving = tokio::spawn(server::serve(listener, router, limits, CancellationToken::new()));
    Ok(Background::new(&serving))
}
