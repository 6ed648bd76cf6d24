//! Workflow runs our code will not finish. An empty tenant means none.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json as value};
use sqlx::{query, query_as};
use tidings_model::{
    Key, StoredWait,
    records::AuditEntry,
    troubled_run::{
        DueRun, FoundRun, LEASE, LOOK, RECOVERY_LEASE, RunId, RunResolution, RunTrouble, SweepProgress, WorkflowOwner,
    },
};
use uuid::Uuid;

use crate::{
    Result,
    sql::{
        SqlStore, calls, checked_number,
        columns::{record, row},
        dialect::Dialect,
        no_nul, or_zero, to_json,
    },
};

calls! {
    /// The progress of a sweep shared by all workers, and the runs it found. A lease lets one worker sweep at
    /// a time.
    pub trait TroubledRuns {
        /// Leases the sweep, and returns its progress. `None` if another worker has it, or the last sweep was
        /// just now.
        async fn lease_sweep(&self, holder: Uuid, now: Timestamp) -> Result<Option<SweepProgress>>;

        /// Stores the progress and releases the sweep until it is due again. Does nothing if the holder lost
        /// its lease.
        async fn end_sweep(&self, holder: Uuid, swept: SweepProgress, now: Timestamp) -> Result<()>;

        /// Records ended runs; one already recorded as ended stays unchanged.
        #[span(runs = runs.len())]
        async fn put_ended_runs(&self, runs: &[FoundRun], task_queue: &str, now: Timestamp) -> Result<()>;

        /// Records open runs in trouble. If `are_all`, other open runs leave the list.
        #[span(runs = runs.len())]
        async fn put_open_runs(&self, runs: &[FoundRun], are_all: bool, task_queue: &str, now: Timestamp) -> Result<()>;

        async fn due_runs(&self, limit: u32, now: Timestamp) -> Result<Vec<DueRun>>;

        #[span(workflow = workflow_id)]
        async fn count_recoveries(&self, workflow_id: &str, since: Timestamp) -> Result<u64>;

        /// Keeps a run in the list, due again at `again_at`; with `None` an operator must decide. `by` ended
        /// the run.
        #[span(workflow = id.workflow_id, run = id.run_id)]
        async fn list_run(&self, id: &RunId, by: Option<&str>, why: &str, again_at: Option<Timestamp>) -> Result<()>;

        /// Resolves a run, even one never listed. Keeps the first resolution. `entry` is for a tenant's run.
        #[span(workflow = run.id.workflow_id, run = run.id.run_id)]
        async fn resolve_run(
            &self,
            run: &FoundRun,
            task_queue: &str,
            resolution: RunResolution,
            entry: Option<&AuditEntry>,
            now: Timestamp,
        ) -> Result<()>;

        #[span(workflow = workflow_id)]
        async fn resolved_runs(&self, workflow_id: &str) -> Result<BTreeSet<String>>;

        /// Listed runs, latest first, for a tenant or all.
        #[span(tenant)]
        async fn troubled_runs(&self, tenant: Option<&str>, limit: u32) -> Result<Vec<ListedRun>>;

        /// Counts listed runs by trouble, for a tenant or all, with the oldest end, or for open runs when the
        /// first was found.
        #[span(tenant)]
        async fn count_troubled_runs(&self, tenant: Option<&str>) -> Result<Vec<(RunTrouble, u64, Timestamp)>>;

        async fn forget_runs(&self, before: Timestamp, limit: u32) -> Result<()>;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRun {
    pub run: FoundRun,
    /// The identity that ended it, from its history.
    pub by: Option<String>,
    pub why: Option<String>,
}

const NAME: &str = "runs";

pub const SWEEP: &str = "SELECT free_at, until_at, far_at, open_at FROM sweep WHERE name = $1";

/// `$2` holder, `$3` end of the lease, `$4` now (where a first sweep starts), `$5` the latest plausible end
/// of another lease.
pub const LEASE_SWEEP: &str = "
INSERT INTO sweep (name, holder, free_at, until_at, far_at, open_at) VALUES ($1, $2, $3, $4, $4, 0)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, free_at = excluded.free_at
WHERE sweep.free_at <= $4 OR sweep.free_at > $5
RETURNING free_at, until_at, far_at, open_at";

pub const END_SWEEP: &str =
    "UPDATE sweep SET free_at = $3, until_at = $4, far_at = $5, open_at = $6 WHERE name = $1 AND holder = $2";

pub const PUT_ENDED: &str = "
INSERT INTO troubled_runs (workflow_id, run_id, tenant, trouble, since, found_at, due_at)
SELECT value->>0, value->>1, value->>2, value->>3, CAST(value->>4 AS BIGINT), $2, $2 FROM {each} WHERE TRUE
ON CONFLICT (workflow_id, run_id) DO UPDATE SET trouble = excluded.trouble, since = excluded.since,
    found_at = excluded.found_at, due_at = excluded.due_at, resolution = NULL, resolved_at = NULL
WHERE troubled_runs.trouble IN ('wrong_type', 'wrong_queue', 'paused')";

/// A run paused for a second time is listed again.
pub const PUT_OPEN: &str = "
INSERT INTO troubled_runs (workflow_id, run_id, tenant, trouble, since, found_at)
SELECT value->>0, value->>1, value->>2, value->>3, CAST(value->>4 AS BIGINT), $2 FROM {each} WHERE TRUE
ON CONFLICT (workflow_id, run_id) DO UPDATE SET trouble = excluded.trouble, found_at = excluded.found_at,
    resolution = NULL, resolved_at = NULL
WHERE troubled_runs.trouble IN ('wrong_type', 'wrong_queue', 'paused') AND troubled_runs.resolution = 'over'";

pub const OVER: &str = "
UPDATE troubled_runs SET resolution = 'over', resolved_at = $2
WHERE resolved_at IS NULL AND trouble IN ('wrong_type', 'wrong_queue', 'paused')
  AND run_id NOT IN (SELECT value->>1 FROM {each})";

pub const IS_DUE: &str = "SELECT run_id FROM troubled_runs WHERE due_at <= $1 OR due_at > $2 LIMIT 1";

/// `$2` end of the lease. Of two concurrent calls, the second finds the row leased.
pub const DUE: &str = "
UPDATE troubled_runs SET due_at = $2, tries = tries + 1
WHERE (due_at <= $1 OR due_at > $4) AND (workflow_id, run_id) IN
    (SELECT workflow_id, run_id FROM troubled_runs WHERE due_at <= $1 OR due_at > $4 ORDER BY due_at, since LIMIT $3)
RETURNING workflow_id, run_id, trouble, tries, since";

pub const RECOVERIES: &str = "
SELECT COUNT(*) FROM troubled_runs WHERE workflow_id = $1 AND resolution = 'recovered' AND resolved_at >= $2";

pub const LIST: &str = "
UPDATE troubled_runs SET ended_by = COALESCE(NULLIF($3, ''), ended_by), why = COALESCE(NULLIF($4, ''), why),
    due_at = NULLIF($5, 0)
WHERE workflow_id = $1 AND run_id = $2 AND resolved_at IS NULL";

pub const RESOLVE: &str = "
INSERT INTO troubled_runs (workflow_id, run_id, tenant, trouble, since, found_at, resolution, resolved_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $6)
ON CONFLICT (workflow_id, run_id) DO UPDATE SET due_at = NULL, resolution = excluded.resolution,
    resolved_at = excluded.resolved_at
WHERE troubled_runs.resolved_at IS NULL";

pub const RESOLVED: &str =
    "SELECT run_id FROM troubled_runs WHERE workflow_id = $1 AND resolution IN ('recovered', 'by_hand', 'dismissed')";

pub const LISTED: &str = "
SELECT workflow_id, run_id, trouble, since, ended_by, why FROM troubled_runs
WHERE resolved_at IS NULL AND ($1 = '' OR tenant = $1) ORDER BY since DESC, run_id LIMIT $2";

/// Open runs use `found_at`, because their trouble is younger than the run.
pub const COUNT: &str = "
SELECT trouble, COUNT(*) AS runs,
    MIN(CASE WHEN trouble IN ('wrong_type', 'wrong_queue', 'paused') THEN found_at ELSE since END) AS oldest_at
FROM troubled_runs
WHERE resolved_at IS NULL AND ($1 = '' OR tenant = $1) GROUP BY trouble ORDER BY trouble";

pub const FORGET: &str = "
DELETE FROM troubled_runs WHERE (workflow_id, run_id) IN
    (SELECT workflow_id, run_id FROM troubled_runs WHERE resolved_at < $1 ORDER BY resolved_at LIMIT $2)";

impl<D: Dialect> SqlStore<D> {
    async fn lease_sweep(&self, holder: Uuid, now: Timestamp) -> Result<Option<SweepProgress>> {
        let mut reader = self.reader.acquire().await?;
        let found = query_as(SWEEP).bind(NAME.to_owned()).fetch_optional(&mut *reader).await?;
        reader.release();
        // Most workers find the sweep leased, and should write nothing.
        if found.is_some_and(|SweepRow { free_at, .. }| StoredWait::SWEEP_LEASE.is_active(free_at, now)) {
            return Ok(None);
        }
        let lease = query_as(LEASE_SWEEP).bind(NAME.to_owned()).bind(holder.to_string());
        let lease = lease.bind((now + LEASE).as_millisecond()).bind(now.as_millisecond());
        let lease = lease.bind(StoredWait::SWEEP_LEASE.latest_plausible(now).as_millisecond());
        let leased: Option<SweepRow> = lease.fetch_optional(&mut *self.writer.acquire().await?).await?;
        Ok(leased.map(|row| SweepProgress { until: row.until_at, far_at: row.far_at, open_at: row.open_at }))
    }

    async fn end_sweep(&self, holder: Uuid, swept: SweepProgress, now: Timestamp) -> Result<()> {
        let SweepProgress { until, far_at, open_at } = swept;
        let end = query(END_SWEEP).bind(NAME.to_owned()).bind(holder.to_string());
        let end = end.bind((now + LOOK).as_millisecond()).bind(until.as_millisecond());
        let end = end.bind(far_at.as_millisecond()).bind(open_at.as_millisecond());
        end.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn put_ended_runs(&self, runs: &[FoundRun], task_queue: &str, now: Timestamp) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        let put =
            query(Self::expand_each(PUT_ENDED)).bind(to_json(&run_rows(runs, task_queue))?).bind(now.as_millisecond());
        put.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn put_open_runs(&self, runs: &[FoundRun], are_all: bool, task_queue: &str, now: Timestamp) -> Result<()> {
        let rows = to_json(&run_rows(runs, task_queue))?;
        let mut tx = self.begin_write().await?;
        query(Self::expand_each(PUT_OPEN)).bind(rows.clone()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        if are_all {
            query(Self::expand_each(OVER)).bind(rows).bind(now.as_millisecond()).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn due_runs(&self, limit: u32, now: Timestamp) -> Result<Vec<DueRun>> {
        let farthest = StoredWait::RUN_RETRY.latest_plausible(now).as_millisecond();
        let any = query_as(IS_DUE).bind(now.as_millisecond()).bind(farthest);
        let any: Option<(String,)> = any.fetch_optional(&mut *self.reader.acquire().await?).await?;
        if any.is_none() {
            return Ok(Vec::new());
        }
        let due = query(DUE).bind(now.as_millisecond()).bind((now + RECOVERY_LEASE).as_millisecond());
        let due = due.bind(i64::from(limit)).bind(farthest);
        let mut due: Vec<DueRun> = due.try_map(Self::to_record).fetch_all(&mut *self.writer.acquire().await?).await?;
        due.sort_by(|DueRun { run: a, .. }, DueRun { run: b, .. }| {
            (a.since, &a.id.run_id).cmp(&(b.since, &b.id.run_id))
        });
        Ok(due)
    }

    async fn count_recoveries(&self, workflow_id: &str, since: Timestamp) -> Result<u64> {
        let count = query_as(RECOVERIES).bind(no_nul(workflow_id)).bind(since.as_millisecond());
        let (runs,): (i64,) = count.fetch_one(&mut *self.reader.acquire().await?).await?;
        checked_number(runs)
    }

    async fn list_run(&self, id: &RunId, by: Option<&str>, why: &str, again_at: Option<Timestamp>) -> Result<()> {
        let list = query(LIST).bind(no_nul(&id.workflow_id)).bind(no_nul(&id.run_id));
        let list = list.bind(no_nul(by.unwrap_or_default())).bind(no_nul(why)).bind(or_zero(again_at));
        list.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn resolve_run(
        &self,
        run: &FoundRun,
        task_queue: &str,
        resolution: RunResolution,
        entry: Option<&AuditEntry>,
        now: Timestamp,
    ) -> Result<()> {
        let FoundRun { id, trouble, since } = run;
        let owner = WorkflowOwner::from_workflow_id(&id.workflow_id, task_queue);
        let mut tx = self.begin_write().await?;
        let resolve = query(RESOLVE).bind(no_nul(&id.workflow_id)).bind(no_nul(&id.run_id));
        let resolve = resolve.bind(owner.tenant().to_owned()).bind(trouble.name().to_owned());
        let resolve = resolve.bind(since.as_millisecond()).bind(now.as_millisecond());
        let resolved = D::changed_rows(&resolve.bind(resolution.name().to_owned()).execute(&mut *tx).await?) > 0;
        if let Some(entry) = entry.filter(|_| resolved) {
            Self::audit_change(&mut tx, &audit_key(&owner), None, entry).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn resolved_runs(&self, workflow_id: &str) -> Result<BTreeSet<String>> {
        let rows = query_as(RESOLVED).bind(no_nul(workflow_id));
        let rows: Vec<(String,)> = rows.fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(rows.into_iter().map(|(run,)| run).collect())
    }

    async fn troubled_runs(&self, tenant: Option<&str>, limit: u32) -> Result<Vec<ListedRun>> {
        let rows = query(LISTED).bind(no_nul(tenant.unwrap_or_default())).bind(i64::from(limit));
        self.read_records(rows).await
    }

    async fn count_troubled_runs(&self, tenant: Option<&str>) -> Result<Vec<(RunTrouble, u64, Timestamp)>> {
        let rows = query_as(COUNT).bind(no_nul(tenant.unwrap_or_default()));
        let rows: Vec<CountRow> = rows.fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(rows.into_iter().map(|row| (row.trouble, row.runs, row.oldest_at)).collect())
    }

    async fn forget_runs(&self, before: Timestamp, limit: u32) -> Result<()> {
        let forget = query(FORGET).bind(before.as_millisecond()).bind(i64::from(limit));
        forget.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }
}

fn run_rows(runs: &[FoundRun], task_queue: &str) -> Vec<Value> {
    // Sorted, so two workers cannot deadlock.
    let mut runs: Vec<_> = runs.iter().collect();
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    // Temporal's visibility may return a run on two pages.
    runs.dedup_by(|a, b| a.id == b.id);
    let row = |FoundRun { id, trouble, since }: &FoundRun| {
        let owner = WorkflowOwner::from_workflow_id(&id.workflow_id, task_queue);
        let (workflow, run) = (no_nul(&id.workflow_id), no_nul(&id.run_id));
        value!([workflow, run, owner.tenant(), trouble, since.as_millisecond()])
    };
    runs.into_iter().map(row).collect()
}

fn audit_key(owner: &WorkflowOwner) -> Key {
    match owner {
        WorkflowOwner::Digest(key) => key.clone(),
        _ => Key { tenant: owner.tenant().to_owned(), digest_type: String::new(), user: String::new() },
    }
}

row! {
#[expect(clippy::struct_field_names, reason = "times end in `at`, as their columns do")]
pub struct SweepRow {
    free_at: Timestamp,
    until_at: Timestamp,
    far_at: Timestamp,
    open_at: Timestamp,
}
}

row! {
pub struct CountRow {
    trouble: RunTrouble,
    runs: u64,
    oldest_at: Timestamp,
}
}

record!(row => DueRun { run: FoundRun::read::<D>(row)?, tries });
record!(row => ListedRun { run: FoundRun::read::<D>(row)?, by = "ended_by", why });
record!(row => FoundRun { id: RunId::read::<D>(row)?, trouble, since });
record!(row => RunId { workflow_id, run_id });
