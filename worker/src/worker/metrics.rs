//! `/metrics`: what this worker counts, and what its poller sees, for Prometheus.

use std::net::SocketAddr;

use anyhow::Context as _;
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use tidings_activities::metrics;
use tokio::{net::TcpListener, task::AbortHandle};

mod poller;

pub(super) use poller::Poller;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A task that runs until this is dropped.
pub(crate) struct Background(AbortHandle);

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers `GET /metrics` on this address.
///
/// # Errors
/// The address is taken, or not of this machine.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<Background> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("metrics_listen = \"{address}\""))?;
    let router = Router::new().route("/metrics", get(async || ([(CONTENT_TYPE, OPEN_METRICS)], metrics::text())));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(Background(serving.abort_handle()))
}
