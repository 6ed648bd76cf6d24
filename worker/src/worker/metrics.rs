//! `/metrics`: what this worker counts, for Prometheus.

use std::net::SocketAddr;

use anyhow::Context as _;
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use tidings_activities::metrics;
use tokio::{net::TcpListener, task::AbortHandle};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Goes on listening until it is dropped.
pub(crate) struct Listening(AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers `GET /metrics` on this address.
///
/// # Errors
/// The address is taken, or not of this machine.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<Listening> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("metrics_listen = \"{address}\""))?;
    let router = Router::new().route("/metrics", get(async || ([(CONTENT_TYPE, OPEN_METRICS)], metrics::text())));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(Listening(serving.abort_handle()))
}
