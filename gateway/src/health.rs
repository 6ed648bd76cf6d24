//! `/livez` returns 200 while the process runs. `/readyz` tests reads and writes of the database, and caches
//! this for a second. It also reports configuration differences between processes, and Temporal. We stay
//! ready without Temporal, because events, links and pages still work; only a freshly started gateway should
//! wait for it a while.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use temporalio_client::{Client, tonic::IntoRequest as _};
use temporalio_common::protos::temporal::api::workflowservice::v1::GetSystemInfoRequest;
use tidings_model::{ZoneData, process::ProcessAspect, zone_data};
use tidings_services::processes::compare_processes;
use tidings_store::Store;
use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::GatewayState;

/// Time limit for a check.
const PATIENCE: Duration = Duration::from_secs(1);
/// This is longer than a read, because another writer may hold the database.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// A new gateway without Temporal is not ready for this long, because others may be.
const BEGINNING: Duration = Duration::from_secs(30);
/// How long a result is cached.
const MEMORY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyState {
    Ok,
    NoAnswer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    pub store: DependencyState,
    pub temporal: DependencyState,
    pub zone_data: &'static ZoneData,
    /// Configuration differences between processes. `tidings stats` shows operators which ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<ProcessAspect>,
    #[serde(skip)]
    is_ready: bool,
}

#[derive(Clone)]
pub(crate) struct HealthCheck {
    state: GatewayState,
    begun: Instant,
    last: Arc<Mutex<LastCheck>>,
}

#[derive(Default)]
struct LastCheck {
    answered: Option<(Instant, Readiness)>,
    write: WriteProbe,
    had_temporal: bool,
}

#[derive(Default)]
struct WriteProbe {
    /// A running test write. A second one would only queue behind it.
    writing: Option<(Instant, JoinHandle<bool>)>,
    /// The last write failed or took too long.
    has_failed: bool,
}

impl HealthCheck {
    pub fn new(state: GatewayState) -> Self {
        Self { state, begun: Instant::now(), last: Arc::default() }
    }

    pub async fn check_readiness(&self) -> Readiness {
        let mut last = self.last.lock().await;
        let LastCheck { answered, write, had_temporal } = &mut *last;
        if let Some((at, readiness)) = answered
            && at.elapsed() < MEMORY
        {
            return readiness.clone();
        }
        let (reads, writes, temporal, differences) = tokio::join!(
            check_dependency(async { self.state.store.ping().await.is_ok() }),
            self.probe_write(write),
            check_dependency(async { temporal(self.state.temporal()).await }),
            differences(&*self.state.store)
        );
        let store = if writes { reads } else { DependencyState::NoAnswer };
        *had_temporal |= temporal == DependencyState::Ok;
        let is_ready = store == DependencyState::Ok && (*had_temporal || self.begun.elapsed() > BEGINNING);
        let readiness = Readiness { store, temporal, zone_data: zone_data(), differences, is_ready };
        *answered = Some((Instant::now(), readiness.clone()));
        readiness
    }

    async fn probe_write(&self, write: &mut WriteProbe) -> bool {
        let (begun, mut writing) = write.writing.take().unwrap_or_else(|| {
            let store = self.state.store.clone();
            (Instant::now(), tokio::spawn(async move { store.ping_writing().await.is_ok() }))
        });
        if let Ok(ended) = timeout(PATIENCE, &mut writing).await {
            write.has_failed = !ended.unwrap_or(false);
        } else {
            write.has_failed |= begun.elapsed() >= WRITE_PATIENCE;
            write.writing = Some((begun, writing));
        }
        !write.has_failed
    }
}

async fn check_dependency(asked: impl Future<Output = bool>) -> DependencyState {
    if timeout(PATIENCE, asked).await.unwrap_or(false) { DependencyState::Ok } else { DependencyState::NoAnswer }
}

/// Ignores versions and queues. Empty if the store does not answer.
async fn differences(store: &dyn Store) -> Vec<ProcessAspect> {
    let Ok(Ok(found)) = timeout(PATIENCE, compare_processes(store)).await else { return Vec::new() };
    found.into_iter().map(|difference| difference.aspect).filter(|aspect| !aspect.is_expected()).collect()
}

async fn temporal(client: Option<Client>) -> bool {
    let Some(client) = client else { return false };
    let request = GetSystemInfoRequest::default().into_request();
    client.connection().workflow_service().get_system_info(request).await.is_ok()
}

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let status = if self.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, Json(self)).into_response()
    }
}
