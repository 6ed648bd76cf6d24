//! Serves `/metrics` for Prometheus. A worker also polls the store and Temporal for gauges about all workers.
//!
//! Each query reads a bounded number of rows from an index. A slow poll is followed by a longer pause, so the
//! poller never uses more than a twentieth of a connection's time.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use jiff::{SignedDuration, Timestamp};
use temporalio_client::Client;
use tidings_gateway::server::{self, ConnectionLimits};
use tidings_model::{RelaysToday, settings::Settings, subscription::COUNTED};
use tidings_operations::stats::{StatsError, count_open, task_queues};
use tidings_services::{
    metrics::{
        self,
        fleet::{FleetMetrics, PolledSource},
    },
    processes::compare_processes,
};
use tidings_store::Store;
use tokio::{
    net::TcpListener,
    task::{AbortHandle, JoinHandle},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::Config;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) const CONNECTIONS: usize = 32;

/// A background task. Dropping this aborts it.
pub(crate) struct BackgroundTask(AbortHandle);

impl BackgroundTask {
    pub fn new<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves the output of `text` as `GET /metrics`.
///
/// # Errors
/// The address is taken, or does not belong to this machine.
pub(crate) async fn serve_metrics(address: SocketAddr, text: fn() -> String) -> anyhow::Result<BackgroundTask> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("metrics_listen = \"{address}\""))?;
    let router = Router::new().route("/metrics", get(move || async move { ([(CONTENT_TYPE, OPEN_METRICS)], text()) }));
    let limits =
        ConnectionLimits { connections: CONNECTIONS, of_client: CONNECTIONS / 4, ..ConnectionLimits::default() };
    let serving = tokio::spawn(server::serve(listener, router, limits, CancellationToken::new()));
    Ok(BackgroundTask::new(&serving))
}

const LOOK: Duration = Duration::from_secs(15);
const SHARE: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// Every 20th poll, i.e. about every five minutes, also updates slow gauges.
const SLOW: u64 = 20;
/// Count at most this many undelivered digests. An operator should be alerted long before.
const UNDELIVERED: u32 = 100_000;
const SUPPRESSED: u32 = 1_000_000;
/// Count known event ids with different content in this period.
const REFUSED: SignedDuration = SignedDuration::from_hours(24);
/// Count delivery events only at this age. By then every call that might still write an older one has timed
/// out.
const SETTLED: SignedDuration = SignedDuration::from_secs(150);
const SPAN: SignedDuration = SignedDuration::from_mins(15);

pub(super) struct MetricsPoller {
    store: Arc<dyn Store>,
    temporal: Client,
    settings: Settings,
    task_queue: String,
    subscriptions: BTreeSet<String>,
    gauges: &'static FleetMetrics,
    reported_until: Timestamp,
}

impl MetricsPoller {
    pub fn new(store: Arc<dyn Store>, temporal: Client, settings: Settings, config: &Config) -> Self {
        let (task_queue, gauges) = (config.task_queue.clone(), metrics::fleet());
        let subscriptions = config.subscriptions.iter().map(|one| one.name.clone()).collect();
        let reported_until = Timestamp::now() - SETTLED;
        Self { store, temporal, settings, task_queue, subscriptions, gauges, reported_until }
    }

    pub fn start(mut self) -> BackgroundTask {
        let looking = async move {
            for look in 0.. {
                let begun = Instant::now();
                self.poll_once(look % SLOW == 0).await;
                sleep(pause_after(begun.elapsed())).await;
            }
        };
        BackgroundTask::new(&tokio::spawn(looking))
    }

    /// Polls both sources. If one does not respond, its gauges keep their values, and the time of its last
    /// success shows their age.
    async fn poll_once(&mut self, slow: bool) {
        let temporal = self.temporal.clone();
        let (task_queue, gauges) = (self.task_queue.clone(), self.gauges);
        let (store, temporal) = tokio::join!(
            timeout(PATIENCE, self.ask_store(slow)),
            timeout(PATIENCE, ask_temporal(&temporal, &task_queue, gauges, slow))
        );
        self.report(PolledSource::Store, store.map(|answer| answer.map_err(StatsError::from)).ok());
        self.report(PolledSource::Temporal, temporal.ok());
    }

    fn report(&self, source: PolledSource, answer: Option<Result<(), StatsError>>) {
        match answer {
            Some(Ok(())) => self.gauges.record_success(source, Timestamp::now()),
            Some(Err(error)) => tracing::warn!(source = source.name(), %error, "the gauges are not up to date"),
            None => tracing::warn!(source = source.name(), "the gauges are not up to date: no answer in 30 s"),
        }
    }

    async fn ask_store(&mut self, slow: bool) -> Result<(), tidings_store::StoreError> {
        let now = Timestamp::now();
        self.gauges.set_undelivered(&self.settings, &self.store.count_undelivered(UNDELIVERED, now).await?, now);
        self.gauges.set_webhook_events(&self.subscriptions, &self.store.subscriptions(COUNTED).await?, now);
        let breakers = RelaysToday::from_settings(&self.settings).breakers(self.store.breakers().await?);
        self.gauges.set_breakers(self.settings.relays.keys(), &breakers);
        self.gauges.troubled_runs(&self.store.count_troubled_runs(None).await?);
        self.gauges.set_differences(&compare_processes(&*self.store).await?);
        if let Some(ended_at) = self.store.upkeep_at().await? {
            self.gauges.set_upkeep(ended_at);
        }
        self.gauges.refused_contents(self.store.refused_contents(now - REFUSED).await?);
        if let Some(until) = span_end(self.reported_until, now) {
            self.gauges.add_reports(&self.settings, &self.store.count_reported(self.reported_until, until).await?);
            self.reported_until = until;
        }
        if slow {
            self.gauges.set_suppressions(&self.store.suppressed_addresses(SUPPRESSED).await?);
        }
        Ok(())
    }
}

async fn ask_temporal(
    temporal: &Client,
    task_queue: &str,
    gauges: &FleetMetrics,
    slow: bool,
) -> Result<(), StatsError> {
    for queue in task_queues(temporal, task_queue).await? {
        gauges.task_queue(&queue);
    }
    if slow {
        gauges.set_open(count_open(temporal, None).await?);
    }
    Ok(())
}

fn pause_after(took: Duration) -> Duration {
    LOOK.max(took * SHARE)
}

fn span_end(after: Timestamp, now: Timestamp) -> Option<Timestamp> {
    Some((now - SETTLED).min(after + SPAN)).filter(|until| *until > after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_long_is_followed_by_a_longer_pause() {
        for (took, seconds) in [(0, 15), (750, 15), (1_000, 20), (30_000, 600)] {
            assert_eq!(pause_after(Duration::from_millis(took)), Duration::from_secs(seconds), "{took}");
        }
    }

    #[test]
    fn a_span_of_delivery_events_is_settled_and_short() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (after, now, until) in [(0, 100, None), (0, 150, None), (0, 165, Some(15)), (15, 9_000, Some(915))] {
            assert_eq!(span_end(at(after), at(now)), until.map(at), "{after} {now}");
        }
    }
}
