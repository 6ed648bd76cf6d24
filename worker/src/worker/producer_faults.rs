//! Detects producers' mistakes that Temporal accepts: signals with a name nobody handles, and start options
//! that would end the run before its window is due.
//!
//! temporalio-sdk 1.1.1 silently drops a signal with an unknown name. This interceptor sends its payloads to
//! the workflow again, as the signal `events`, before the workflow task completes, so the run cannot end
//! without them. If the run already tried to end when the signal came, Temporal accepts no other until its task
//! is over; then the payloads start the next run. Remove this module once the SDK has a handler for arbitrary
//! signals.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use temporalio_client::Client;
use temporalio_common::protos::{
    coresdk::workflow_activation::{InitializeWorkflow, WorkflowActivation, workflow_activation_job::Variant},
    temporal::api::common::v1::Payload,
};
use temporalio_sdk::interceptors::WorkerInterceptor;
use tidings_client::hand_over_payloads;
use tidings_model::{AlertName, Key, names, presentable};
use tidings_services::metrics;
use tidings_workflows::InboundSignal;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

const KNOWN: [&str; 2] = [names::SIGNAL, names::PREFERENCES_SIGNAL];
/// Prefix reserved by Temporal.
const RESERVED: &str = "__temporal";
const PATIENCE: Duration = Duration::from_mins(1);
/// Maximum delay of the workflow task. It also blocks other runs on this worker.
const HELD: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(200);
const REQUESTS: Uuid = Uuid::from_u128(0x5f0c_8f3d_2b1e_4a67_9c40_71d2_e8a5_b036);

struct UnknownSignal {
    workflow: String,
    name: String,
    payloads: Vec<Payload>,
}

/// Requests that Temporal accepted in the last minute.
type AcceptedRequests = Arc<Mutex<HashMap<Uuid, Instant>>>;

pub(super) struct ProducerFaults {
    client: Client,
    task_queue: String,
    digests: Mutex<HashMap<String, String>>,
    /// If a workflow task fails, its next attempt contains the same signals. Sending them again would block
    /// this attempt as well: if the run is ending, Temporal accepts nothing until the task is over.
    handed_over: AcceptedRequests,
}

impl ProducerFaults {
    pub fn new(client: Client, task_queue: String) -> Self {
        Self { client, task_queue, digests: Mutex::default(), handed_over: AcceptedRequests::default() }
    }

    fn unknown_signals(&self, activation: &WorkflowActivation) -> Vec<UnknownSignal> {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut signals = Vec::new();
        for job in activation.jobs.iter().filter_map(|job| job.variant.as_ref()) {
            match job {
                Variant::InitializeWorkflow(start) if start.workflow_type == names::WORKFLOW_TYPE => {
                    digests.insert(activation.run_id.clone(), start.workflow_id.clone());
                    if !activation.is_replaying {
                        report_options(start);
                    }
                }
                Variant::RemoveFromCache(_) => {
                    digests.remove(&activation.run_id);
                }
                // Signals in a replay were sent again before the original task completed.
                Variant::SignalWorkflow(signal) if !is_known(&signal.signal_name) && !activation.is_replaying => {
                    let (name, payloads) = (signal.signal_name.clone(), signal.input.clone());
                    let of_digest = |workflow: &String| UnknownSignal { workflow: workflow.clone(), name, payloads };
                    signals.extend(digests.get(&activation.run_id).map(of_digest));
                }
                _ => {}
            }
        }
        signals
    }
}

/// Derives a request id from the content, so a run counts the same signal only once.
fn request_id(run_id: &str, name: &str, payloads: &[Payload]) -> Uuid {
    let data = payloads.iter().flat_map(|payload| payload.data.iter().copied());
    let content: Vec<u8> = run_id.bytes().chain([0]).chain(name.bytes()).chain([0]).chain(data).collect();
    Uuid::new_v5(&REQUESTS, &content)
}

fn is_handed_over(requests: &AcceptedRequests, request: Uuid) -> bool {
    let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
    requests.retain(|_, at| at.elapsed() < PATIENCE);
    requests.contains_key(&request)
}

fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || name.starts_with(RESERVED)
}

fn report_options(start: &InitializeWorkflow) {
    let timeouts = [&start.workflow_execution_timeout, &start.workflow_run_timeout];
    let has_timeout = timeouts.into_iter().flatten().any(|timeout| timeout.seconds > 0 || timeout.nanos > 0);
    let (has_retry_policy, has_cron) = (start.retry_policy.is_some(), !start.cron_schedule.is_empty());
    if has_timeout || has_retry_policy || has_cron {
        metrics::start_options();
        let workflow = &start.workflow_id;
        tracing::warn!(
            alert = %AlertName::StartOptions, workflow, has_timeout, has_retry_policy, has_cron,
            "digest started with options that it must not have: see docs/producers.md"
        );
    }
}

#[async_trait(?Send)]
impl WorkerInterceptor for ProducerFaults {
    /// Logs a signal that cannot be sent again, because an error would end the worker. The signal is still in
    /// the history.
    async fn on_workflow_activation(&self, activation: &WorkflowActivation) -> anyhow::Result<()> {
        for UnknownSignal { workflow, name, payloads } in self.unknown_signals(activation) {
            let Ok(key) = Key::from_workflow_id(&workflow) else { continue };
            let payloads = InboundSignal::misnamed_signal(&name, payloads);
            let signal = presentable(&name);
            let request = request_id(&activation.run_id, &name, &payloads);
            if is_handed_over(&self.handed_over, request) {
                continue;
            }
            let (client, task_queue, handed_over) =
                (self.client.clone(), self.task_queue.clone(), self.handed_over.clone());
            let handing = tokio::spawn(async move {
                let deadline = Instant::now() + PATIENCE;
                while let Err(error) = hand_over_payloads(&client, &task_queue, &key, payloads.clone(), request).await {
                    if !error.is_retryable() || Instant::now() >= deadline {
                        tracing::error!(alert = %AlertName::MisnamedSignal, workflow, %error, "signal with an unknown name was lost");
                        return;
                    }
                    sleep(AGAIN).await;
                }
                tracing::warn!(workflow, signal, "signal has an unknown name: its payloads become dead letters");
                handed_over.lock().unwrap_or_else(PoisonError::into_inner).insert(request, Instant::now());
            });
            let _ = timeout(HELD, handing).await;
        }
        Ok(())
    }
}
