//! What producers over Temporal get wrong and Temporal accepts: a signal of a name that no handler has, and options of a start that end
//! the run before its window is due.
//!
//! temporalio-sdk 1.1.1 has no handler for signals of any name, and drops an unknown one without a word. This interceptor hands its
//! payloads to the workflow again, as the signal `events`, before the workflow task completes: the run cannot end without them. A run
//! that tried to end when the signal came takes no other until its task is over. Then the payloads start the next run. The module is
//! needless when the SDK has such a handler.

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
use tidings_model::{Alert, Key, names, presentable};
use tidings_services::metrics;
use tidings_workflows::Inbound;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// The signals that the digest workflow handles.
const KNOWN: [&str; 2] = [names::SIGNAL, names::PREFERENCES_SIGNAL];
/// Begins the names that Temporal keeps for itself.
const RESERVED: &str = "__temporal";
/// The time for handing a signal over again.
const PATIENCE: Duration = Duration::from_mins(1);
/// The part of it for which the workflow task waits, and the other runs of this worker.
const HELD: Duration = Duration::from_secs(1);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(200);
/// Namespace of the ids of requests (UUIDv5): drawn once.
const REQUESTS: Uuid = Uuid::from_u128(0x5f0c_8f3d_2b1e_4a67_9c40_71d2_e8a5_b036);

/// A signal of an unknown name.
struct Misnamed {
    workflow: String,
    name: String,
    payloads: Vec<Payload>,
}

/// Requests that Temporal took in the last minute.
type HandedOver = Arc<Mutex<HashMap<Uuid, Instant>>>;

pub(super) struct ProducerFaults {
    client: Client,
    task_queue: String,
    /// The digest workflows in memory: run id, workflow id.
    digests: Mutex<HashMap<String, String>>,
    /// The next try of a task that failed brings its signals again. Without this memory that try, too, would wait for Temporal, which
    /// takes nothing for a run that ends until the task is over.
    handed_over: HandedOver,
}

impl ProducerFaults {
    pub fn new(client: Client, task_queue: String) -> Self {
        Self { client, task_queue, digests: Mutex::default(), handed_over: HandedOver::default() }
    }

    /// The signals of an unknown name that the activation brings.
    fn misnamed(&self, activation: &WorkflowActivation) -> Vec<Misnamed> {
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
                // A replay brings signals that were handed over before the task that it repeats had ended.
                Variant::SignalWorkflow(signal) if !is_known(&signal.signal_name) && !activation.is_replaying => {
                    let (name, payloads) = (signal.signal_name.clone(), signal.input.clone());
                    let of_digest = |workflow: &String| Misnamed { workflow: workflow.clone(), name, payloads };
                    signals.extend(digests.get(&activation.run_id).map(of_digest));
                }
                _ => {}
            }
        }
        signals
    }
}

/// The id by which a run counts the same signal once.
fn request(run_id: &str, name: &str, payloads: &[Payload]) -> Uuid {
    let data = payloads.iter().flat_map(|payload| payload.data.iter().copied());
    let content: Vec<u8> = run_id.bytes().chain([0]).chain(name.bytes()).chain([0]).chain(data).collect();
    Uuid::new_v5(&REQUESTS, &content)
}

fn is_handed_over(requests: &HandedOver, request: Uuid) -> bool {
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
            alert = %Alert::StartOptions, workflow, has_timeout, has_retry_policy, has_cron,
            "the start of a digest sets options that it must not have: see docs/producers.md"
        );
    }
}

#[async_trait(?Send)]
impl WorkerInterceptor for ProducerFaults {
    /// An error would end the worker, so a signal that cannot be handed over is logged: the history has it.
    async fn on_workflow_activation(&self, activation: &WorkflowActivation) -> anyhow::Result<()> {
        for Misnamed { workflow, name, payloads } in self.misnamed(activation) {
            let Ok(key) = Key::from_workflow_id(&workflow) else { continue };
            let payloads = Inbound::misnamed(&name, payloads);
            let signal = presentable(&name);
            let request = request(&activation.run_id, &name, &payloads);
            if is_handed_over(&self.handed_over, request) {
                continue;
            }
            let (client, task_queue, handed_over) =
                (self.client.clone(), self.task_queue.clone(), self.handed_over.clone());
            let handing = tokio::spawn(async move {
                let deadline = Instant::now() + PATIENCE;
                while let Err(error) = hand_over_payloads(&client, &task_queue, &key, payloads.clone(), request).await {
                    if !error.is_retryable() || Instant::now() >= deadline {
                        tracing::error!(alert = %Alert::MisnamedSignal, workflow, %error, "a signal of an unknown name is lost");
                        return;
                    }
                    sleep(AGAIN).await;
                }
                tracing::warn!(
                    workflow,
                    signal,
                    "a signal has a name that digests do not know: its payloads become dead letters"
                );
                handed_over.lock().unwrap_or_else(PoisonError::into_inner).insert(request, Instant::now());
            });
            // Beyond that time it goes on without the task.
            let _ = timeout(HELD, handing).await;
        }
        Ok(())
    }
}
