//! Watches for pending notices and wakes subscription workflows.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use temporalio_client::{
    Client, RpcOptions, UntypedSignal, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions,
    errors::WorkflowStartError,
};
use temporalio_common::{UntypedWorkflow, data_converters::RawValue, protos::temporal::api::common::v1::Payload};
use tidings_model::{
    AlertName, names,
    process::ProcessProfile,
    subscription::{RetiredNotices, WebhookSubscription},
};
use tidings_services::processes::require_agreement;
use tidings_store::Store;
use tokio::time::{self, sleep};
use tracing::{Instrument as _, debug_span};

/// Poll interval. A notice may be delayed by this much.
const LOOK: Duration = Duration::from_secs(5);
/// How often to signal a subscription with pending notices, even without a new one: a notice may be committed
/// after a later one.
const AGAIN: Duration = Duration::from_mins(5);
/// How often to look for notices of subscriptions no longer configured.
const RETIRE: Duration = Duration::from_hours(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts or wakes a subscription's workflow when a notice is pending. A poll is one store query, reading one
/// index row per subscription, so Temporal is idle while nothing is pending.
pub struct NoticeWatch {
    store: Arc<dyn Store>,
    temporal: Client,
    task_queue: String,
    signalled: BTreeMap<String, (i64, time::Instant)>,
    retired_at: Option<time::Instant>,
    file: Option<(Vec<WebhookSubscription>, ProcessProfile)>,
}

impl NoticeWatch {
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, temporal: Client, task_queue: String) -> Self {
        Self { store, temporal, task_queue, signalled: BTreeMap::new(), retired_at: None, file: None }
    }

    /// Also retires subscriptions missing from this configuration, once all workers use it.
    #[must_use]
    pub fn of_file(self, subscriptions: Vec<WebhookSubscription>, own: ProcessProfile) -> Self {
        Self { file: Some((subscriptions, own)), ..self }
    }

    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.poll_once().await {
                tracing::warn!(%error, "cannot look for webhook events; retrying");
            }
            sleep(LOOK).await;
        }
    }

    /// Signals each subscription with a pending notice we have not seen yet.
    ///
    /// # Errors
    /// If the store or Temporal fails. The next poll will signal the rest.
    pub async fn poll_once(&mut self) -> Result<(), WatchError> {
        if self.retired_at.is_none_or(|at| at.elapsed() >= RETIRE) {
            if let Some((subscriptions, own)) = &self.file
                && require_agreement(&*self.store, Some(own)).await.is_ok()
            {
                self.store.subscribe(subscriptions, true).await?;
            }
            self.store.retire_notices(Timestamp::now()).await?.iter().for_each(report_retired);
            self.retired_at = Some(time::Instant::now());
        }
        let waiting = self.store.newest_notices().await?;
        // An operator's replay can make earlier notices pending again.
        self.signalled.retain(|subscription, _| waiting.iter().any(|(name, _)| name == subscription));
        for (subscription, newest) in waiting {
            let known = self.signalled.get(&subscription);
            if known.is_some_and(|(seq, at)| *seq == newest && at.elapsed() < AGAIN) {
                continue;
            }
            wake_subscription(&self.temporal, &self.task_queue, &subscription).await?;
            self.signalled.insert(subscription, (newest, time::Instant::now()));
        }
        Ok(())
    }
}

fn report_retired(RetiredNotices { subscription, waiting, ended }: &RetiredNotices) {
    if *waiting > 0 {
        tracing::error!(
            alert = %AlertName::SubscriptionRemoved, subscription, waiting,
            "notices wait for a subscription that no file has, and are dead letters after 24 hours: write its table again, or `was` in the \
             table that it has now"
        );
    }
    if *ended > 0 {
        tracing::error!(
            alert = %AlertName::NoticesUndelivered, subscription, dead = ended,
            "no file had the subscription for 24 hours, and its webhook events are dead letters"
        );
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error(transparent)]
    Temporal(#[from] WorkflowStartError),
}

/// Wakes a subscription's workflow, or starts it.
///
/// # Errors
/// If Temporal fails.
pub async fn wake_subscription(
    temporal: &Client,
    task_queue: &str,
    subscription: &str,
) -> Result<(), WorkflowStartError> {
    let id = names::subscription_workflow_id(task_queue, subscription);
    let options = WorkflowStartOptions::new(names::subscriptions_queue(task_queue), id.clone())
        .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicate)
        .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
        .rpc_options(RpcOptions::builder().timeout(PATIENCE).build())
        .build();
    let data = serde_json::json!({ "name": subscription }).to_string().into_bytes();
    let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
    let input = RawValue::new(vec![Payload { metadata, data, ..Payload::default() }]);
    let workflow = UntypedWorkflow::new(names::SUBSCRIPTION_WORKFLOW_TYPE);
    let notice = UntypedSignal::new(names::NOTICE_SIGNAL);
    // `RawValue::empty()` would send one empty argument.
    let signalled = temporal.signal_with_start_workflow(workflow, input, notice, RawValue::default(), options);
    signalled.instrument(debug_span!("temporal", call = "signal_with_start", id)).await.map(drop)
}
