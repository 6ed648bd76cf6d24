//! The watch over notices, which wakes the workflows of subscriptions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use temporalio_client::{
    Client, RpcOptions, UntypedSignal, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions,
    errors::WorkflowStartError,
};
use temporalio_common::{UntypedWorkflow, data_converters::RawValue, protos::temporal::api::common::v1::Payload};
use tidings_model::{
    Alert, names,
    process::ProcessProfile,
    subscription::{RetiredNotices, Subscription},
};
use tidings_services::processes::agreed;
use tidings_store::Store;
use tokio::time::{self, sleep};
use tracing::{Instrument as _, debug_span};

/// The pause between two looks. A notice is late by as much.
const LOOK: Duration = Duration::from_secs(5);
/// A subscription with notices that wait is signalled this often, also if none is new: a notice may be committed after a later one.
const AGAIN: Duration = Duration::from_mins(5);
/// Notices of subscriptions that no file has any more are looked for this often.
const RETIRE: Duration = Duration::from_hours(1);
/// Time limit of a signal.
const PATIENCE: Duration = Duration::from_secs(10);

/// The watch of one worker over notices: it starts the workflow of a subscription, or wakes it, when a notice waits. A look is one question
/// to the store, which reads one row of an index for each subscription. So Temporal has nothing to do while nothing waits, and a digest
/// costs no call for its notices.
pub struct Watch {
    store: Arc<dyn Store>,
    temporal: Client,
    /// The task queue of the digests.
    task_queue: String,
    /// The latest notice of each subscription that was signalled, and when.
    signalled: BTreeMap<String, (i64, time::Instant)>,
    /// The last look for notices of subscriptions that no file has any more.
    retired_at: Option<time::Instant>,
    /// The subscriptions of the file, and what this worker works with.
    file: Option<(Vec<Subscription>, ProcessProfile)>,
}

impl Watch {
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, temporal: Client, task_queue: String) -> Self {
        Self { store, temporal, task_queue, signalled: BTreeMap::new(), retired_at: None, file: None }
    }

    /// The same watch, which takes subscriptions away that this file lacks once all workers have it.
    #[must_use]
    pub fn of_file(self, subscriptions: Vec<Subscription>, own: ProcessProfile) -> Self {
        Self { file: Some((subscriptions, own)), ..self }
    }

    /// Looks again and again.
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "notices to subscriptions wait: the watch tries again");
            }
            sleep(LOOK).await;
        }
    }

    /// Signals each subscription for which a notice waits that this watch has not seen.
    ///
    /// # Errors
    /// The store or Temporal does not answer. The next look signals what this one did not.
    pub async fn look(&mut self) -> Result<(), WatchError> {
        if self.retired_at.is_none_or(|at| at.elapsed() >= RETIRE) {
            if let Some((subscriptions, own)) = &self.file
                && agreed(&*self.store, Some(own)).await.is_ok()
            {
                self.store.subscribe(subscriptions, true).await?;
            }
            self.store.retire_notices(Timestamp::now()).await?.iter().for_each(report_retired);
            self.retired_at = Some(time::Instant::now());
        }
        let waiting = self.store.newest_notices().await?;
        // An operator's replay lets earlier notices wait again.
        self.signalled.retain(|subscription, _| waiting.iter().any(|(name, _)| name == subscription));
        for (subscription, newest) in waiting {
            let known = self.signalled.get(&subscription);
            if known.is_some_and(|(seq, at)| *seq == newest && at.elapsed() < AGAIN) {
                continue;
            }
            signal(&self.temporal, &self.task_queue, &subscription).await?;
            self.signalled.insert(subscription, (newest, time::Instant::now()));
        }
        Ok(())
    }
}

/// Tells operators of what waits for nobody, while they can still do something about it.
fn report_retired(RetiredNotices { subscription, waiting, ended }: &RetiredNotices) {
    if *waiting > 0 {
        tracing::error!(
            alert = %Alert::SubscriptionRemoved, subscription, waiting,
            "notices wait for a subscription that no file has, and are dead letters after 24 hours: write its table again, or `was` in the \
             table that it has now"
        );
    }
    if *ended > 0 {
        tracing::error!(
            alert = %Alert::NoticesUndelivered, subscription, dead = ended,
            "no file had the subscription for 24 hours, and its notices are dead letters"
        );
    }
}

/// A look that failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error(transparent)]
    Temporal(#[from] WorkflowStartError),
}

/// Wakes the workflow of a subscription, or starts it.
///
/// # Errors
/// Temporal does not answer.
pub async fn signal(temporal: &Client, task_queue: &str, subscription: &str) -> Result<(), WorkflowStartError> {
    let id = names::subscription(task_queue, subscription);
    let options = WorkflowStartOptions::new(names::subscriptions(task_queue), id.clone())
        .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicate)
        .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
        .rpc_options(RpcOptions::builder().timeout(PATIENCE).build())
        .build();
    let data = serde_json::json!({ "name": subscription }).to_string().into_bytes();
    let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
    let input = RawValue::new(vec![Payload { metadata, data, ..Payload::default() }]);
    let workflow = UntypedWorkflow::new(names::SUBSCRIPTION_WORKFLOW_TYPE);
    let notice = UntypedSignal::new(names::NOTICE_SIGNAL);
    // `RawValue::empty()` would be one empty argument.
    let signalled = temporal.signal_with_start_workflow(workflow, input, notice, RawValue::default(), options);
    signalled.instrument(debug_span!("temporal", call = "signal_with_start", id)).await.map(drop)
}
