use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key,
    job::{Job, JobFilter, JobPlace, JobState, KeyResult},
    records::{AuditEntry, Listed, Page},
};
use uuid::Uuid;

use crate::Result;

/// Jobs: operators' orders to many keys, each with a result by key.
///
/// A gateway leases a job under a new id, the holder. A call of a holder that lost its job changes nothing, and says so.
#[async_trait]
pub trait Jobs: Send + Sync + 'static {
    /// Records that a request with this content came under an idempotency key. `false`: the key was used for another content, which
    /// stays.
    async fn use_idempotency_key(&self, id: Uuid, content_sha256: &str, now: Timestamp) -> Result<bool>;

    /// Adds a job with its entry of the audit trail, and returns the job. A job with this id is left unchanged and returned.
    /// `None`: the tenant has [`MOST_WAITING`](tidings_model::job::MOST_WAITING) jobs without an end.
    async fn post_job(&self, job: &Job) -> Result<Option<Job>>;

    /// The job with this id, of a tenant or of any.
    async fn job(&self, tenant: Option<&str>, id: Uuid) -> Result<Option<Job>>;

    /// Lists jobs, the latest first.
    async fn jobs(&self, filter: &JobFilter) -> Result<Listed<Job, JobPlace>>;

    /// Lists the keys of a job with their results, in the order of their workflow ids.
    async fn job_results(&self, id: Uuid, page: &Page<String>) -> Result<Listed<KeyResult, String>>;

    /// Ends a job that has no end, with an entry of the audit trail. Returns the job. `None`: there is no such job.
    async fn cancel_job(&self, id: Uuid, entry: &AuditEntry) -> Result<Option<Job>>;

    /// Leases a job: one whose lease has ended, or else the oldest that waits and has a place. All gateways together have
    /// [`MOST_RUNNING`](tidings_model::job::MOST_RUNNING) places, and a tenant has one of them at most.
    ///
    /// A key whose order was sent without a recorded answer is left again if the order is idempotent. Otherwise the key fails.
    async fn lease_job(&self, holder: Uuid, now: Timestamp) -> Result<Option<Job>>;

    /// Adds keys to a job, and extends the lease. The last call fixes the number of keys. A repeated call adds no key twice. `false`: the
    /// holder has lost the job.
    async fn add_job_keys(&self, id: Uuid, holder: Uuid, keys: &[Key], is_last: bool, now: Timestamp) -> Result<bool>;

    /// Marks at most `limit` keys that are left as sent, extends the lease, and returns the keys. `None`: the holder has lost the job.
    async fn send_job_keys(&self, id: Uuid, holder: Uuid, limit: u32, now: Timestamp) -> Result<Option<Vec<Key>>>;

    /// Records the results of keys whose order was sent, also of a job that was cancelled meanwhile. Only the first result of a key
    /// counts.
    async fn end_job_keys(&self, id: Uuid, results: &[KeyResult], now: Timestamp) -> Result<()>;

    /// Ends a job, if the holder still has it.
    async fn end_job(&self, id: Uuid, holder: Uuid, state: JobState, problem: &str, now: Timestamp) -> Result<()>;

    /// Gives a job back, if the holder still has it, so that another gateway goes on at once.
    async fn give_job_back(&self, id: Uuid, holder: Uuid) -> Result<()>;

    /// Deletes some idempotency keys that were last used before, and one job that ended before, with its results. `false`: nothing that old
    /// is left.
    async fn forget_job(&self, before: Timestamp) -> Result<bool>;
}
