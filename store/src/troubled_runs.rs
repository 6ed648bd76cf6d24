use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    records::AuditEntry,
    troubled_run::{DueRun, FoundRun, Resolution, RunId, Swept, Trouble},
};
use uuid::Uuid;

use crate::Result;

/// The place of the sweep over all workers, and the runs that it found. One worker looks at a time, by a lease.
#[async_trait]
pub trait TroubledRuns: Send + Sync + 'static {
    /// Leases the sweep, and returns how far it has looked. `None`: another worker looks, or the last look was just now.
    async fn lease_sweep(&self, holder: Uuid, now: Timestamp) -> Result<Option<Swept>>;

    /// Gives the sweep back until the next look, with its new place. A holder that lost its lease changes nothing.
    async fn end_sweep(&self, holder: Uuid, swept: Swept, now: Timestamp) -> Result<()>;

    /// Records runs that have ended. A run that is recorded with an end stays unchanged, however often it is found.
    async fn put_ended_runs(&self, runs: &[FoundRun], task_queue: &str, now: Timestamp) -> Result<()>;

    /// Makes these the open runs that are in trouble. If they are all such runs, an open run that is not among them leaves the list.
    async fn put_open_runs(&self, runs: &[FoundRun], are_all: bool, task_queue: &str, now: Timestamp) -> Result<()>;

    /// Leases at most `limit` ended runs whose recovery is due, the earliest ends first.
    async fn due_runs(&self, limit: u32, now: Timestamp) -> Result<Vec<DueRun>>;

    /// The number of runs of a workflow id that the sweep has recovered since then.
    async fn recoveries(&self, workflow_id: &str, since: Timestamp) -> Result<u64>;

    /// Leaves a run in the list. It is due again at `again_at`; `None`: an operator decides. `by` is who ended it.
    async fn list_run(&self, id: &RunId, by: Option<&str>, why: &str, again_at: Option<Timestamp>) -> Result<()>;

    /// Takes a run from the list, also one that was never in it. The first resolution stays. `entry` is for a run of a tenant.
    async fn resolve_run(
        &self,
        run: &FoundRun,
        task_queue: &str,
        resolution: Resolution,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<()>;

    /// The run ids of a workflow id that have left the list.
    async fn resolved_runs(&self, workflow_id: &str) -> Result<BTreeSet<String>>;

    /// The runs in the list, the latest first: of a tenant, or all.
    async fn troubled_runs(&self, tenant: Option<&str>, limit: u32) -> Result<Vec<ListedRun>>;

    /// Counts the runs in the list: of a tenant, or all. The time is that of the oldest end, or when an open run was found.
    async fn count_troubled_runs(&self, tenant: Option<&str>) -> Result<Vec<(Trouble, u64, Timestamp)>>;

    /// Deletes at most `limit` runs that left the list before.
    async fn forget_runs(&self, before: Timestamp, limit: u32) -> Result<()>;
}

/// A run in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRun {
    pub run: FoundRun,
    /// The identity that ended it, by its history.
    pub by: Option<String>,
    pub why: Option<String>,
}
