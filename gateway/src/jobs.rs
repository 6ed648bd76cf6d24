//! Jobs: gateways run one command for many keys (rule 30).
//!
//! A job is rows in the store with a lease, like the inbox. We decided against a workflow per job because of:
//!
//! - **Visibility.** The API pages through results per key, which workflow history cannot do. The Temporal UI
//!   shows the effect on a key as an update of its workflow.
//! - **Crash safety.** We mark a key before sending its command, and store the result afterwards. If a
//!   gateway crashes, another one will continue once the lease expires.
//! - **One owner per fact.** A workflow would duplicate the state of the job and of each key.
//! - **Less code.** A workflow for 100,000 keys needs two activities, cancellation, and several runs because
//!   history is bounded. Here it is a loop.
//!
//! Each key gets its command once. Without a response, e.g. because the gateway stopped, only `hold`, `release`
//! and `retime` are sent again, because they are idempotent. A `flush`, `drop` or `reopen` then counts as
//! failed, because a second one would affect newer events. A workflow responds late while its worker restarts,
//! so we wait one minute per command. All commands from one job to one key share an update id, so each run of
//! the workflow executes only one.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use temporalio_client::Client;
use tidings_client::WorkflowCommands;
use tidings_model::{
    job::{KEEP, LOOK},
    settings::FormerNames,
};
use tidings_store::Store;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

mod work;

use work::LeasedJob;

/// This should be longer than a worker restart. The lease is extended meanwhile.
const PATIENCE: Duration = Duration::from_mins(1);
/// Interval between purges of old jobs.
const FORGET: Duration = Duration::from_mins(10);
/// Shutdown grace for commands in flight. Those without a response give up earlier.
const ENDING: Duration = Duration::from_secs(15);

pub struct JobRunner {
    store: Arc<dyn Store>,
    temporal: watch::Receiver<Option<Client>>,
    task_queue: String,
    names: FormerNames,
}

impl JobRunner {
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        temporal: watch::Receiver<Option<Client>>,
        task_queue: &str,
        names: &FormerNames,
    ) -> Self {
        Self { store, temporal, task_queue: task_queue.to_owned(), names: names.clone() }
    }

    /// Runs until `shutdown` is cancelled, then waits for commands in flight and returns the leases.
    pub async fn run(self, shutdown: CancellationToken) {
        let jobs = TaskTracker::new();
        shutdown.run_until_cancelled(self.poll_jobs(&jobs, &shutdown)).await;
        jobs.close();
        let _ = timeout(ENDING, jobs.wait()).await;
    }

    async fn poll_jobs(&self, jobs: &TaskTracker, shutdown: &CancellationToken) {
        let mut forgotten: Option<Instant> = None;
        loop {
            if forgotten.is_none_or(|at| at.elapsed() > FORGET) {
                forgotten = Some(Instant::now());
                self.purge_jobs().await;
            }
            match self.lease(shutdown).await {
                Some(work) => {
                    jobs.spawn(work.carry_out());
                }
                None => sleep(LOOK).await,
            }
        }
    }

    async fn lease(&self, shutdown: &CancellationToken) -> Option<Arc<LeasedJob>> {
        let temporal = self.temporal.borrow().clone()?;
        let holder = Uuid::new_v4();
        let leased = self.store.lease_job(holder, Timestamp::now()).await;
        let job = leased.inspect_err(|error| tracing::warn!(%error, "cannot lease a job")).ok()??;
        let commands = WorkflowCommands::new(temporal.clone(), &self.task_queue).with_patience(PATIENCE);
        let (store, names, shutdown) = (self.store.clone(), self.names.clone(), shutdown.clone());
        Some(Arc::new(LeasedJob { store, temporal, commands, job, holder, names, shutdown }))
    }

    async fn purge_jobs(&self) {
        let before = Timestamp::now().saturating_sub(KEEP).unwrap_or(Timestamp::MIN);
        loop {
            match self.store.forget_job(before).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return tracing::warn!(%error, "cannot delete old jobs"),
            }
        }
    }
}
