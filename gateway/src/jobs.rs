//! Jobs: an operator's order to many keys, which the gateways carry out (rule 30).
//!
//! A job is rows in the store with a lease, as the inbox has them. A workflow of its own was the other choice. The reasons against it:
//!
//! - **An operator can see it.** The api shows each key with its result, in pages. History has no pages by key, so that the results would
//!   be in the store in any case. What an order did to a key is in the Temporal UI as an update of the key's own workflow.
//! - **It survives kills.** A key is marked before its order is sent, and its result is recorded afterwards. If a gateway vanishes, its
//!   lease ends, and another gateway goes on with the keys that are left.
//! - **One owner for each fact.** The store has the state of the job and of each key. A workflow would have both a second time.
//! - **Little code.** A workflow for 100,000 keys needs two activities, a cancellation, and many runs, because a history is bounded. Here
//!   one loop takes keys and sends orders.
//!
//! Each key is ordered once. The exception is an order that changes nothing the second time: `hold`, `release` and `retime` are given again
//! if the gateway ended before their answer came. A `flush`, `drop` or `reopen` in this place has failed, because a second one would reach
//! newer events. A workflow whose worker restarts answers late, and so an order waits for a minute, and one that changes nothing the second
//! time is given once more. All orders of a job to a key have one update id, so that a run of the key's workflow carries out only one of them.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use temporalio_client::Client;
use tidings_client::Commands;
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

use work::Work;

/// Time for the answer of a workflow: longer than a worker takes to restart. The lease is extended meanwhile.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two searches for old jobs.
const FORGET: Duration = Duration::from_mins(10);
/// Time for orders in flight at the end of the process. Those that have no answer give up earlier.
const ENDING: Duration = Duration::from_secs(15);

/// The part of a gateway that carries out jobs.
pub struct Runner {
    store: Arc<dyn Store>,
    temporal: watch::Receiver<Option<Client>>,
    task_queue: String,
    names: FormerNames,
}

impl Runner {
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        temporal: watch::Receiver<Option<Client>>,
        task_queue: &str,
        names: &FormerNames,
    ) -> Self {
        Self { store, temporal, task_queue: task_queue.to_owned(), names: names.clone() }
    }

    /// Carries out jobs until `shutdown` is cancelled. Orders in flight end first, and the jobs are given back.
    pub async fn run(self, shutdown: CancellationToken) {
        let jobs = TaskTracker::new();
        shutdown.run_until_cancelled(self.look(&jobs, &shutdown)).await;
        jobs.close();
        let _ = timeout(ENDING, jobs.wait()).await;
    }

    async fn look(&self, jobs: &TaskTracker, shutdown: &CancellationToken) {
        let mut forgotten: Option<Instant> = None;
        loop {
            if forgotten.is_none_or(|at| at.elapsed() > FORGET) {
                forgotten = Some(Instant::now());
                self.forget().await;
            }
            match self.lease(shutdown).await {
                Some(work) => {
                    jobs.spawn(work.carry_out());
                }
                None => sleep(LOOK).await,
            }
        }
    }

    /// Leases a job, if one is free and Temporal has answered.
    async fn lease(&self, shutdown: &CancellationToken) -> Option<Arc<Work>> {
        let temporal = self.temporal.borrow().clone()?;
        let holder = Uuid::new_v4();
        let leased = self.store.lease_job(holder, Timestamp::now()).await;
        let job = leased.inspect_err(|error| tracing::warn!(%error, "no job can be leased")).ok()??;
        let commands = Commands::new(temporal.clone(), &self.task_queue).with_patience(PATIENCE);
        let (store, names, shutdown) = (self.store.clone(), self.names.clone(), shutdown.clone());
        Some(Arc::new(Work { store, temporal, commands, job, holder, names, shutdown }))
    }

    async fn forget(&self) {
        let before = Timestamp::now().saturating_sub(KEEP).unwrap_or(Timestamp::MIN);
        loop {
            match self.store.forget_job(before).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return tracing::warn!(%error, "old jobs are not deleted"),
            }
        }
    }
}
