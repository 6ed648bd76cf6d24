//! `/livez` says that the process answers. `/readyz` says that the database and Temporal answer, and remembers that for a second.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use temporalio_client::{Client, tonic::IntoRequest as _};
use temporalio_common::protos::temporal::api::workflowservice::v1::GetSystemInfoRequest;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::State;

/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time for which an answer counts.
const MEMORY: Duration = Duration::from_secs(1);

/// The answer of one dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ok,
    NoAnswer,
}

/// The answers of all dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    pub store: Answer,
    pub temporal: Answer,
}

/// Asks the dependencies, at most once a second however many ask.
#[derive(Clone)]
pub(crate) struct Health {
    state: State,
    last: Arc<Mutex<Option<(Instant, Readiness)>>>,
}

impl Health {
    pub fn new(state: State) -> Self {
        Self { state, last: Arc::default() }
    }

    /// Returns the answers of now, or those of the last second.
    pub async fn ready(&self) -> Readiness {
        let mut last = self.last.lock().await;
        if let Some((at, readiness)) = *last
            && at.elapsed() < MEMORY
        {
            return readiness;
        }
        let (store, temporal) = tokio::join!(
            answer(async { self.state.store.ping().await.is_ok() }),
            answer(async { temporal(self.state.temporal()).await })
        );
        let readiness = Readiness { store, temporal };
        *last = Some((Instant::now(), readiness));
        readiness
    }
}

async fn answer(asked: impl Future<Output = bool>) -> Answer {
    if timeout(PATIENCE, asked).await.unwrap_or(false) { Answer::Ok } else { Answer::NoAnswer }
}

async fn temporal(client: Option<Client>) -> bool {
    let Some(client) = client else { return false };
    let request = GetSystemInfoRequest::default().into_request();
    client.connection().workflow_service().get_system_info(request).await.is_ok()
}

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let ready = self.store == Answer::Ok && self.temporal == Answer::Ok;
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, Json(self)).into_response()
    }
}
