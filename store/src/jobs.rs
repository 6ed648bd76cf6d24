//! Bulk commands of operators. In a row, an empty tenant means all tenants.
//!
//! A call that changes keys first locks the job's row, so a job's calls run one after another.

use jiff::Timestamp;
use serde_json::{Value, json as value};
use sqlx::{query, query_as};
use tidings_model::{
    Key, StoredWait,
    command::CommandContext,
    job::{Job, JobFilter, JobPlace, JobState, KeyResult, KeyState, LEASE, MOST_WAITING},
    records::{AuditEntry, ListPage, PageCursor, PageRequest},
};
use uuid::Uuid;

use crate::{
    Result,
    sql::{
        SqlStore, calls,
        columns::{JsonColumn, column, record, row},
        dialect::Dialect,
        no_nul, to_json,
    },
};

calls! {
    /// Commands to many keys, with one result per key. A gateway leases a job under a new id, the holder.
    pub trait JobStore {
        /// Records a request's content under an idempotency key. Returns `false` if the key already has other
        /// content, which stays.
        #[span(%id)]
        async fn use_idempotency_key(&self, id: Uuid, content_sha256: &str, now: Timestamp) -> Result<bool>;

        /// Adds a job and an audit entry, and returns the job; an existing job with this id is returned
        /// unchanged. `None` if the tenant already has [`MOST_WAITING`](tidings_model::job::MOST_WAITING)
        /// open jobs.
        #[span(job = %job.id)]
        async fn post_job(&self, job: &Job) -> Result<Option<Job>>;

        /// The job with this id, if it belongs to the tenant (or any tenant if `None`).
        #[span(job = %id)]
        async fn job(&self, tenant: Option<&str>, id: Uuid) -> Result<Option<Job>>;

        /// Latest first.
        #[span(tenant = filter.tenant)]
        async fn jobs(&self, filter: &JobFilter) -> Result<ListPage<Job, JobPlace>>;

        #[span(job = %id)]
        async fn job_results(&self, id: Uuid, page: &PageRequest<String>) -> Result<ListPage<KeyResult, String>>;

        /// Cancels and audits an open job. Returns the job, or `None` if there is none.
        #[span(job = %id)]
        async fn cancel_job(&self, id: Uuid, entry: &AuditEntry) -> Result<Option<Job>>;

        /// Leases a job: one with an expired lease, or else the oldest waiting one that can get a slot. There
        /// are [`MOST_RUNNING`](tidings_model::job::MOST_RUNNING) slots over all gateways, and at most one
        /// per tenant.
        ///
        /// A key whose command was sent but has no result is queued again if the command is idempotent.
        /// Otherwise the key fails.
        async fn lease_job(&self, holder: Uuid, now: Timestamp) -> Result<Option<Job>>;

        /// Adds keys to a job and extends the lease. The last call fixes the number of keys. Safe to repeat.
        /// Returns `false` if the holder has lost the job.
        #[span(job = %id, keys = keys.len())]
        async fn add_job_keys(&self, id: Uuid, holder: Uuid, keys: &[Key], is_last: bool, now: Timestamp) -> Result<bool>;

        /// Marks at most `limit` queued keys as sent, extends the lease, and returns them. `None` if the
        /// holder has lost the job.
        #[span(job = %id)]
        async fn send_job_keys(&self, id: Uuid, holder: Uuid, limit: u32, now: Timestamp) -> Result<Option<Vec<Key>>>;

        /// Records sent keys' results, even if the job was cancelled meanwhile. A key's first result counts.
        #[span(job = %id, keys = results.len())]
        async fn end_job_keys(&self, id: Uuid, results: &[KeyResult], now: Timestamp) -> Result<()>;

        #[span(job = %id, state = state.name())]
        async fn end_job(&self, id: Uuid, holder: Uuid, state: JobState, problem: &str, now: Timestamp) -> Result<()>;

        #[span(job = %id)]
        async fn give_job_back(&self, id: Uuid, holder: Uuid) -> Result<()>;

        /// Deletes some idempotency keys last used before this time, and one job that ended before it, with
        /// its results. Returns `false` once nothing so old is left.
        async fn forget_job(&self, before: Timestamp) -> Result<bool>;
    }
}

macro_rules! job_columns {
    () => {
        "job_id, tenant, words, task, dry_run, asked_by, why, state, problem, matched, done, failed, posted_at, started_at, ended_at"
    };
}

pub const USE_KEY: &str = "
INSERT INTO idempotency_keys (id, content_sha256, used_at) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET used_at = excluded.used_at RETURNING content_sha256";

pub const POST: &str = "
INSERT INTO jobs (job_id, tenant, words, task, dry_run, asked_by, why, state, posted_at)
SELECT $1, $2, $3, $4, $5, $6, $7, 'waiting', $8
WHERE (SELECT COUNT(*) FROM jobs WHERE tenant = $2 AND ended_at IS NULL) < $9 ON CONFLICT DO NOTHING";

pub const JOB: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE job_id = $1 AND ($2 = '' OR tenant = $2)");

pub const JOBS: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE ($1 = '' OR tenant = $1) AND (posted_at, job_id) < ($2, $3)
      ORDER BY posted_at DESC, job_id DESC LIMIT $4"
);

pub const RESULTS: &str = "
SELECT workflow_id, state, answer, problem, ended_at FROM job_keys
WHERE job_id = $1 AND workflow_id > $2 ORDER BY workflow_id LIMIT $3";

pub const CANCEL: &str =
    "UPDATE jobs SET state = 'cancelled', ended_at = $2, place = NULL WHERE job_id = $1 AND ended_at IS NULL";

pub const IS_FREE: &str = "SELECT job_id FROM jobs WHERE ended_at IS NULL AND (free_at <= $1 OR free_at > $2) LIMIT 1";

/// `$4` is the latest plausible end of a lease. Note that two concurrent calls may choose the same slot, or
/// two jobs of one tenant; the second then violates a unique index.
pub const LEASE_JOB: &str = concat!(
    "
WITH free(place) AS (
    SELECT MIN(n) FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) places
    WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE place = n)
), chosen(id, its_place) AS (
    SELECT j.job_id, COALESCE(j.place, f.place) FROM jobs j CROSS JOIN free f
    WHERE j.ended_at IS NULL AND (j.free_at <= $3 OR j.free_at > $4)
      AND (j.place IS NOT NULL OR f.place IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM jobs r WHERE r.tenant = j.tenant AND r.place IS NOT NULL))
    ORDER BY CASE WHEN j.place IS NULL THEN 1 ELSE 0 END, j.posted_at, j.job_id LIMIT 1
)
UPDATE jobs SET holder = $1, free_at = $2, state = 'running', place = chosen.its_place,
    started_at = COALESCE(started_at, $3)
FROM chosen WHERE job_id = chosen.id AND ended_at IS NULL AND (free_at <= $3 OR free_at > $4)
RETURNING ",
    job_columns!()
);

pub const SEND_AGAIN: &str = "UPDATE job_keys SET state = 'left' WHERE job_id = $1 AND state = 'sent'";

pub const FAIL_SENT: &str =
    "UPDATE job_keys SET state = 'failed', problem = $2, ended_at = $3 WHERE job_id = $1 AND state = 'sent'";

pub const EXTEND: &str = "UPDATE jobs SET free_at = $3 WHERE job_id = $1 AND holder = $2 AND ended_at IS NULL";

pub const ADD_KEYS: &str = "
INSERT INTO job_keys (job_id, workflow_id, state) SELECT $2, value->>0, 'left' FROM {each} WHERE TRUE
ON CONFLICT DO NOTHING";

pub const MATCHED: &str =
    "UPDATE jobs SET matched = (SELECT COUNT(*) FROM job_keys WHERE job_id = $1) WHERE job_id = $1";

pub const SEND: &str = "
UPDATE job_keys SET state = 'sent' WHERE job_id = $1 AND workflow_id IN
    (SELECT workflow_id FROM job_keys WHERE job_id = $1 AND state = 'left' ORDER BY workflow_id LIMIT $2)
RETURNING workflow_id";

pub const LOCK: &str = "UPDATE jobs SET done = done WHERE job_id = $1";

pub const END_KEYS: &str = "
UPDATE job_keys SET state = value->>1, answer = value->>2, problem = value->>3, ended_at = $3
FROM {each} WHERE job_id = $2 AND workflow_id = value->>0 AND state = 'sent'
RETURNING state";

pub const COUNT: &str = "UPDATE jobs SET done = done + $2, failed = failed + $3 WHERE job_id = $1";

pub const END: &str = "
UPDATE jobs SET state = $3, problem = NULLIF($4, ''), ended_at = $5, place = NULL
WHERE job_id = $1 AND holder = $2 AND ended_at IS NULL";

pub const GIVE_BACK: &str = "UPDATE jobs SET free_at = 0 WHERE job_id = $1 AND holder = $2";

pub const OLD: &str = "SELECT job_id FROM jobs WHERE ended_at < $1 ORDER BY posted_at LIMIT 1";
pub const FORGET_IDEMPOTENCY_KEYS: &str = "
DELETE FROM idempotency_keys WHERE id IN (SELECT id FROM idempotency_keys WHERE used_at < $1 ORDER BY used_at LIMIT $2)";
pub const FORGET_KEYS: &str = "DELETE FROM job_keys WHERE job_id = $1";
pub const FORGET: &str = "DELETE FROM jobs WHERE job_id = $1";

const FORGOTTEN_KEYS: i64 = 500;

const NO_ANSWER: &str =
    "the gateway ended before the answer came; the order may have been carried out, and is not given again";

impl<D: Dialect> SqlStore<D> {
    async fn use_idempotency_key(&self, id: Uuid, content_sha256: &str, now: Timestamp) -> Result<bool> {
        let used = query_as(USE_KEY).bind(id.to_string()).bind(content_sha256.to_owned());
        let used = used.bind(now.as_millisecond()).fetch_one(&mut *self.writer.acquire().await?).await?;
        let (first,): (String,) = used;
        Ok(first == content_sha256)
    }

    async fn post_job(&self, job: &Job) -> Result<Option<Job>> {
        let tenant = job.tenant.clone().unwrap_or_default();
        let mut tx = self.begin_write().await?;
        let post = query(POST).bind(job.id.to_string()).bind(tenant.clone()).bind(no_nul(&job.filter));
        let post = post.bind(to_json(&job.task)?).bind(job.dry_run).bind(no_nul(&job.order.by));
        let post = post.bind(no_nul(&job.order.why)).bind(job.posted_at.as_millisecond());
        let post = post.bind(i64::from(MOST_WAITING));
        if D::changed_rows(&post.execute(&mut *tx).await?) > 0
            && let Some(entry) = job.audit_entry()
        {
            Self::audit_tenant(&mut tx, &tenant, &entry).await?;
        }
        let posted = Self::find_job(&mut tx, None, job.id).await?;
        tx.commit().await?;
        Ok(posted)
    }

    async fn job(&self, tenant: Option<&str>, id: Uuid) -> Result<Option<Job>> {
        Self::find_job(&mut *self.reader.acquire().await?, tenant, id).await
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<ListPage<Job, JobPlace>> {
        let JobFilter { tenant, page } = filter;
        let after = page.after.as_ref().map(|PageCursor((at, id))| (at.as_millisecond(), id.to_string()));
        let (after_at, after_id) = after.unwrap_or((i64::MAX, String::new()));
        let rows = query(JOBS).bind(no_nul(tenant.as_deref().unwrap_or_default())).bind(after_at);
        let rows = rows.bind(after_id).bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        Ok(page.build_page(rows, |last: &Job| (last.posted_at, last.id)))
    }

    async fn job_results(&self, id: Uuid, page: &PageRequest<String>) -> Result<ListPage<KeyResult, String>> {
        let after = page.after.as_ref().map_or(String::new(), |PageCursor(id)| no_nul(id));
        let rows = query_as(RESULTS).bind(id.to_string()).bind(after).bind(page.rows_to_read());
        let rows: Vec<KeyRow> = rows.fetch_all(&mut *self.reader.acquire().await?).await?;
        let rows = rows.into_iter().filter_map(KeyRow::into_result).collect();
        Ok(page.build_page(rows, |last: &KeyResult| last.key.workflow_id()))
    }

    async fn cancel_job(&self, id: Uuid, entry: &AuditEntry) -> Result<Option<Job>> {
        let mut tx = self.begin_write().await?;
        let cancel = query(CANCEL).bind(id.to_string()).bind(entry.at.as_millisecond());
        let cancelled = D::changed_rows(&cancel.execute(&mut *tx).await?) > 0;
        let job = Self::find_job(&mut tx, None, id).await?;
        if let Some(job) = job.as_ref().filter(|_| cancelled) {
            Self::audit_tenant(&mut tx, job.tenant.as_deref().unwrap_or_default(), entry).await?;
        }
        tx.commit().await?;
        Ok(job)
    }

    async fn lease_job(&self, holder: Uuid, now: Timestamp) -> Result<Option<Job>> {
        let farthest = StoredWait::JOB_LEASE.latest_plausible(now).as_millisecond();
        let free = query_as(IS_FREE).bind(now.as_millisecond()).bind(farthest);
        let free: Option<(String,)> = free.fetch_optional(&mut *self.reader.acquire().await?).await?;
        if free.is_none() {
            return Ok(None);
        }
        let mut tx = self.begin_write().await?;
        let lease = query(LEASE_JOB).bind(holder.to_string()).bind(free_at(now)).bind(now.as_millisecond());
        let lease = lease.bind(farthest).try_map(Self::to_record);
        let leased: Option<Job> = match lease.fetch_optional(&mut *tx).await {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => None,
            leased => leased?,
        };
        let Some(job) = leased else {
            tx.rollback().await?;
            return Ok(None);
        };
        if job.task.is_idempotent() {
            query(SEND_AGAIN).bind(job.id.to_string()).execute(&mut *tx).await?;
        } else {
            let fail = query(FAIL_SENT).bind(job.id.to_string()).bind(NO_ANSWER.to_owned()).bind(now.as_millisecond());
            let failed = D::changed_rows(&fail.execute(&mut *tx).await?);
            Self::count_keys(&mut tx, job.id, 0, failed).await?;
        }
        tx.commit().await?;
        Ok(Some(job))
    }

    async fn add_job_keys(&self, id: Uuid, holder: Uuid, keys: &[Key], is_last: bool, now: Timestamp) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        if !Self::extend_lease(&mut tx, id, holder, now).await? {
            return Ok(false);
        }
        let ids: Vec<_> = keys.iter().map(|key| [key.workflow_id()]).collect();
        let add = query(Self::expand_each(ADD_KEYS)).bind(to_json(&ids)?).bind(id.to_string());
        add.execute(&mut *tx).await?;
        if is_last {
            query(MATCHED).bind(id.to_string()).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    async fn send_job_keys(&self, id: Uuid, holder: Uuid, limit: u32, now: Timestamp) -> Result<Option<Vec<Key>>> {
        let mut tx = self.begin_write().await?;
        if !Self::extend_lease(&mut tx, id, holder, now).await? {
            return Ok(None);
        }
        let keys = query_as(SEND).bind(id.to_string()).bind(i64::from(limit));
        let keys: Vec<(String,)> = keys.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(keys.into_iter().filter_map(|(id,)| Key::from_workflow_id(&id).ok()).collect()))
    }

    async fn end_job_keys(&self, id: Uuid, results: &[KeyResult], now: Timestamp) -> Result<()> {
        let row = |result: &KeyResult| -> Result<Value> {
            let KeyResult { key, state, answer, problem, .. } = result;
            let answer = answer.as_ref().map(to_json).transpose()?;
            let problem = problem.as_deref().map(no_nul);
            Ok(value!([key.workflow_id(), state, answer, problem]))
        };
        let rows: Vec<_> = results.iter().map(row).collect::<Result<_>>()?;
        let mut tx = self.begin_write().await?;
        query(LOCK).bind(id.to_string()).execute(&mut *tx).await?;
        let ended = query_as(Self::expand_each(END_KEYS)).bind(to_json(&rows)?).bind(id.to_string());
        let ended: Vec<(String,)> = ended.bind(now.as_millisecond()).fetch_all(&mut *tx).await?;
        let count = |state: KeyState| ended.iter().filter(|(name,)| name == state.name()).count() as u64;
        Self::count_keys(&mut tx, id, count(KeyState::Done), count(KeyState::Failed)).await?;
        Ok(tx.commit().await?)
    }

    async fn end_job(&self, id: Uuid, holder: Uuid, state: JobState, problem: &str, now: Timestamp) -> Result<()> {
        let end = query(END).bind(id.to_string()).bind(holder.to_string()).bind(state.name().to_owned());
        let end = end.bind(no_nul(problem)).bind(now.as_millisecond());
        end.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn give_job_back(&self, id: Uuid, holder: Uuid) -> Result<()> {
        let give = query(GIVE_BACK).bind(id.to_string()).bind(holder.to_string());
        give.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    async fn forget_job(&self, before: Timestamp) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let forget = query(FORGET_IDEMPOTENCY_KEYS).bind(before.as_millisecond()).bind(FORGOTTEN_KEYS);
        let forgotten = forget.execute(&mut *tx).await?;
        let has_more = i64::try_from(D::changed_rows(&forgotten)) == Ok(FORGOTTEN_KEYS);
        let old = query_as(OLD).bind(before.as_millisecond());
        let old: Option<(String,)> = old.fetch_optional(&mut *tx).await?;
        if let Some((id,)) = &old {
            for forget in [FORGET_KEYS, FORGET] {
                query(forget).bind(id.clone()).execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        Ok(old.is_some() || has_more)
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn find_job(connection: &mut D::Connection, tenant: Option<&str>, id: Uuid) -> Result<Option<Job>> {
        let job = query(JOB).bind(id.to_string()).bind(no_nul(tenant.unwrap_or_default()));
        Ok(job.try_map(Self::to_record).fetch_optional(connection).await?)
    }

    async fn extend_lease(connection: &mut D::Connection, id: Uuid, holder: Uuid, now: Timestamp) -> Result<bool> {
        let extend = query(EXTEND).bind(id.to_string()).bind(holder.to_string()).bind(free_at(now));
        Ok(D::changed_rows(&extend.execute(connection).await?) > 0)
    }

    async fn count_keys(connection: &mut D::Connection, id: Uuid, done: u64, failed: u64) -> Result<()> {
        let count = query(COUNT).bind(id.to_string()).bind(done.cast_signed()).bind(failed.cast_signed());
        count.execute(connection).await?;
        Ok(())
    }
}

fn free_at(now: Timestamp) -> i64 {
    now.saturating_add(LEASE).unwrap_or(Timestamp::MAX).as_millisecond()
}

row! {
pub struct KeyRow {
    workflow_id: String,
    state: KeyState,
    answer: Option<JsonColumn<Value>>,
    problem: Option<String>,
    ended_at: Option<Timestamp>,
}
}

impl KeyRow {
    fn into_result(self) -> Option<KeyResult> {
        let Self { workflow_id, state, answer, problem, ended_at } = self;
        let key = Key::from_workflow_id(&workflow_id).ok()?;
        Some(KeyResult { key, state, answer: answer.map(|JsonColumn(answer)| answer), problem, ended_at })
    }
}

record!(row => Job {
    id = "job_id",
    task: column(row, "task").map(|JsonColumn(task)| task)?,
    filter = "words",
    tenant: Some(column(row, "tenant")?).filter(|tenant: &String| !tenant.is_empty()),
    order: CommandContext { by: column(row, "asked_by")?, why: column(row, "why")? },
    dry_run,
    state,
    problem,
    matched,
    done,
    failed,
    posted_at,
    started_at,
    ended_at,
});
