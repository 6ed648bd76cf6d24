//! Jobs: an operator's order to many keys, which the gateways carry out (rule 30).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    Key, StoredWait,
    command::Order,
    records::{AuditEntry, Page},
    without_addresses,
};

/// The most keys of a job.
pub const MOST_KEYS: usize = 100_000;
/// The most running jobs, over all gateways. A tenant has one of them at most. The store's statements know the number, too.
pub const MOST_RUNNING: u32 = 4;
/// The most jobs of a tenant, or of all tenants together, that wait or run.
pub const MOST_WAITING: u32 = 100;
/// Orders of one job a second.
pub const ORDERS_A_SECOND: u32 = 50;
/// Consecutive orders without an answer after which a job fails.
pub const MOST_SILENT: u32 = 100;
/// Time after which another gateway takes a job over, if its own gateway vanished.
pub const LEASE: SignedDuration = SignedDuration::from_secs(30);
/// Age, from its end on, at which a job is deleted.
pub const KEEP: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Between two looks of a gateway for a job.
pub const LOOK: Duration = Duration::from_secs(1);

impl StoredWait {
    /// A gateway has a job, and with it one of the places.
    pub const JOB_LEASE: Self = Self::of(LEASE.unsigned_abs());
}

closed_set! {
    /// The state of a job.
    pub enum JobState {
        /// No gateway has begun.
        Waiting = "waiting",
        /// A gateway selects the keys, or gives the orders.
        Running = "running",
        /// Each key has a result.
        Done = "done",
        /// The job stopped early. Keys may be left.
        Failed = "failed",
        /// An operator cancelled the job. Keys may be left.
        Cancelled = "cancelled",
    }
}

closed_set! {
    /// The state of a key of a job.
    pub enum KeyState {
        /// The key has no order.
        Left = "left",
        /// The order was sent, and its answer is not known.
        Sent = "sent",
        /// The workflow of the key carried out the order, or had nothing to do.
        Done = "done",
        /// The order was refused or not answered.
        Failed = "failed",
    }
}

/// The order to each key, with its arguments.
// One key gets the same: from `tidings digest`, from its route of the API, and by `DigestCommands::send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobTask))]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Task {
    Flush,
    Hold {
        /// `None`: only a release ends the hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    Release,
    Drop,
    Retime {
        /// `None`: the deadline of today's configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    Reopen {
        /// `None`: the latest digest of the key that has an end, as for each key of a job.
        #[serde(skip)]
        digest_id: Option<Uuid>,
        may_duplicate: bool,
    },
}

impl Task {
    /// The name of the order.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Hold { .. } => "hold",
            Self::Release => "release",
            Self::Drop => "drop",
            Self::Retime { .. } => "retime",
            Self::Reopen { .. } => "reopen",
        }
    }

    /// Reports that a second order changes nothing, so that an order whose answer was lost is given again. A second flush or drop would
    /// reach events that came after the first one, and a second reopen another digest.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        match self {
            Self::Hold { .. } | Self::Release | Self::Retime { .. } => true,
            Self::Flush | Self::Drop | Self::Reopen { .. } => false,
        }
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    pub id: Uuid,
    #[serde(flatten)]
    pub task: Task,
    /// The words of the filter.
    #[serde(rename = "where")]
    pub words: String,
    /// The tenant of all keys. `None`: the job reaches the keys of every tenant.
    pub tenant: Option<String>,
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: Order,
    /// The job only selects its keys.
    pub dry_run: bool,
    pub state: JobState,
    /// The reason of a failed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Selected keys. `None`: the keys are not selected yet.
    pub matched: Option<u64>,
    /// Keys whose order was carried out.
    pub done: u64,
    /// Keys whose order was refused or not answered.
    pub failed: u64,
    pub posted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl Job {
    /// A job that waits.
    #[must_use]
    pub const fn new(
        id: Uuid,
        task: Task,
        words: String,
        tenant: Option<String>,
        order: Order,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            task,
            words,
            tenant,
            order,
            dry_run: false,
            state: JobState::Waiting,
            problem: None,
            matched: None,
            done: 0,
            failed: 0,
            posted_at: now,
            started_at: None,
            ended_at: None,
        }
    }

    /// The id of the update in the workflow of each key. A run of the workflow carries out one update of an id.
    #[must_use]
    pub fn update_id(&self) -> String {
        format!("job/{}", self.id)
    }

    /// The entry of the audit trail. `None`: a dry run orders nothing.
    #[must_use]
    pub fn entry(&self) -> Option<AuditEntry> {
        let entry = self.order.entry(&format!("job {}", self.task.name()), self.posted_at);
        let why = format!("{} (job {} where {})", self.order.why, self.id, self.words);
        (!self.dry_run).then_some(AuditEntry { why, ..entry })
    }
}

/// The place of a job in a listing: its posting, and its id.
pub type JobPlace = (Timestamp, Uuid);

/// A filter of jobs, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct JobFilter {
    /// `None`: jobs of every tenant.
    pub tenant: Option<String>,
    #[serde(skip)]
    pub page: Page<JobPlace>,
}

/// A key of a job, and what became of its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobResult))]
pub struct KeyResult {
    /// The key, `TENANT/TYPE/USER`.
    #[serde(serialize_with = "in_words")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Key,
    pub state: KeyState,
    /// The answer of the key's workflow, as the route of one key has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Time of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// As the command line writes a key.
fn in_words<S: serde::Serializer>(key: &Key, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl KeyResult {
    #[must_use]
    pub const fn done(key: Key, answer: Value) -> Self {
        Self { key, state: KeyState::Done, answer: Some(answer), problem: None, ended_at: None }
    }

    /// A failure. Addresses are taken from the reason.
    #[must_use]
    pub fn failed(key: Key, problem: &str) -> Self {
        let problem = Some(without_addresses(problem));
        Self { key, state: KeyState::Failed, answer: None, problem, ended_at: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(task: Task) -> Job {
        let order = Order { by: "token:1".into(), why: "ticket 812".into() };
        Job::new(Uuid::nil(), task, "type=alerts".into(), Some("acme".into()), order, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_job_is_one_object_with_its_order_and_counts() {
        assert_eq!(
            json!(job(Task::Hold { until: Some(Timestamp::UNIX_EPOCH) })),
            json!({
                "id": Uuid::nil(), "order": "hold", "until": "1970-01-01T00:00:00Z", "where": "type=alerts",
                "tenant": "acme", "by": "token:1", "why": "ticket 812", "dry_run": false, "state": "waiting",
                "matched": null, "done": 0, "failed": 0,
                "posted_at": "1970-01-01T00:00:00Z", "started_at": null, "ended_at": null,
            })
        );
    }

    #[test]
    fn an_order_comes_back_from_its_json_with_its_name() {
        for task in [
            Task::Flush,
            Task::Hold { until: None },
            Task::Release,
            Task::Drop,
            Task::Retime { at: Some(Timestamp::UNIX_EPOCH) },
            Task::Reopen { digest_id: None, may_duplicate: true },
        ] {
            let json = json!(task);
            assert_eq!(json["order"], task.name());
            assert_eq!(serde_json::from_value::<Task>(json).unwrap(), task);
        }
    }

    #[test]
    fn a_dry_run_is_not_audited() {
        let entry = job(Task::Drop).entry().unwrap();
        assert_eq!((entry.action.as_str(), entry.actor.as_str()), ("job drop", "token:1"));
        assert!(
            entry.why.starts_with("ticket 812 (job ") && entry.why.ends_with("where type=alerts)"),
            "{}",
            entry.why
        );
        assert_eq!(Job { dry_run: true, ..job(Task::Drop) }.entry(), None);
    }

    #[test]
    fn a_result_shows_the_key_in_words_and_no_address() {
        let key: Key = "acme/alerts/a%2Fb".parse().unwrap();
        let failed = json!(KeyResult::failed(key.clone(), "ann@example.net is away"));
        assert_eq!((&failed["key"], &failed["state"]), (&json!("acme/alerts/a%2Fb"), &json!("failed")));
        assert!(!failed["problem"].as_str().unwrap().contains('@'), "{failed}");
        let done = json!(KeyResult::done(key, json!({"events": 1})));
        assert_eq!(done, json!({"key": "acme/alerts/a%2Fb", "state": "done", "answer": {"events": 1}}));
    }
}
