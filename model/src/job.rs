//! Jobs: one operator command for many keys (rule 30).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    Key, StoredWait,
    command::CommandContext,
    records::{AuditEntry, PageRequest},
    without_addresses,
};

pub const MOST_KEYS: usize = 100_000;
/// Over all gateways, and at most one per tenant. Repeated in the store's SQL.
pub const MOST_RUNNING: u32 = 4;
/// Waiting and running, per tenant or for all tenants together.
pub const MOST_WAITING: u32 = 100;
/// For each job.
pub const ORDERS_A_SECOND: u32 = 50;
/// A job fails after this many consecutive commands without a reply.
pub const MOST_SILENT: u32 = 100;
/// Protects against a gateway that vanished.
pub const LEASE: SignedDuration = SignedDuration::from_secs(30);
/// Counted from its end.
pub const KEEP: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Poll interval of a gateway.
pub const LOOK: Duration = Duration::from_secs(1);

impl StoredWait {
    pub const JOB_LEASE: Self = Self::with_longest(LEASE.unsigned_abs());
}

closed_set! {
    pub enum JobState {
        Waiting = "waiting",
        /// A gateway is selecting keys or sending commands.
        Running = "running",
        Done = "done",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

closed_set! {
    pub enum KeyState {
        Left = "left",
        /// The result is not known yet.
        Sent = "sent",
        Done = "done",
        /// Rejected or timed out.
        Failed = "failed",
    }
}

/// The command for each key, with its arguments.
// `tidings digest`, the API route and `DigestCommands::send` give a single key the same command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobTask))]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum JobTask {
    Flush,
    Hold {
        /// Without it, only `release` ends the hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    Release,
    Drop,
    Retime {
        /// Without it, the deadline is planned again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    Reopen {
        /// `None` for the key's latest ended digest, as in every job.
        #[serde(skip)]
        digest_id: Option<Uuid>,
        may_duplicate: bool,
    },
}

impl JobTask {
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

    /// Returns `true` if the command can be sent again after a lost reply. A second flush or drop would
    /// affect newer events, and a second reopen another digest.
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
    pub task: JobTask,
    /// The filter.
    pub filter: String,
    /// Missing if the job covers every tenant.
    pub tenant: Option<String>,
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: CommandContext,
    /// The job only selects its keys.
    pub dry_run: bool,
    pub state: JobState,
    /// The reason of a failed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Missing until the keys are selected.
    pub matched: Option<u64>,
    /// Keys whose order was carried out.
    pub done: u64,
    /// Keys whose command was rejected or timed out.
    pub failed: u64,
    pub posted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl Job {
    #[must_use]
    pub const fn new(
        id: Uuid,
        task: JobTask,
        filter: String,
        tenant: Option<String>,
        order: CommandContext,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            task,
            filter,
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

    /// The same for each key, because a run accepts one update per id.
    #[must_use]
    pub fn update_id(&self) -> String {
        format!("job/{}", self.id)
    }

    #[must_use]
    pub fn audit_entry(&self) -> Option<AuditEntry> {
        let entry = self.order.audit_entry(&format!("job {}", self.task.name()), self.posted_at);
        let why = format!("{} (job {} where {})", self.order.why, self.id, self.filter);
        (!self.dry_run).then_some(AuditEntry { why, ..entry })
    }
}

pub type JobPlace = (Timestamp, Uuid);

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct JobFilter {
    pub tenant: Option<String>,
    #[serde(skip)]
    pub page: PageRequest<JobPlace>,
}

/// A key of a job and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobResult))]
pub struct KeyResult {
    /// `TENANT/TYPE/USER`.
    #[serde(serialize_with = "in_words")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Key,
    pub state: KeyState,
    /// As in the route for one key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Time of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

fn in_words<S: serde::Serializer>(key: &Key, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl KeyResult {
    #[must_use]
    pub const fn done(key: Key, answer: Value) -> Self {
        Self { key, state: KeyState::Done, answer: Some(answer), problem: None, ended_at: None }
    }

    /// Removes addresses.
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

    fn job(task: JobTask) -> Job {
        let order = CommandContext { by: "token:1".into(), why: "ticket 812".into() };
        Job::new(Uuid::nil(), task, "digest_type=alerts".into(), Some("acme".into()), order, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_job_is_one_object_with_its_order_and_counts() {
        assert_eq!(
            json!(job(JobTask::Hold { until: Some(Timestamp::UNIX_EPOCH) })),
            json!({
                "id": Uuid::nil(), "order": "hold", "until": "1970-01-01T00:00:00Z", "filter": "digest_type=alerts",
                "tenant": "acme", "by": "token:1", "why": "ticket 812", "dry_run": false, "state": "waiting",
                "matched": null, "done": 0, "failed": 0,
                "posted_at": "1970-01-01T00:00:00Z", "started_at": null, "ended_at": null,
            })
        );
    }

    #[test]
    fn an_order_comes_back_from_its_json_with_its_name() {
        for task in [
            JobTask::Flush,
            JobTask::Hold { until: None },
            JobTask::Release,
            JobTask::Drop,
            JobTask::Retime { at: Some(Timestamp::UNIX_EPOCH) },
            JobTask::Reopen { digest_id: None, may_duplicate: true },
        ] {
            let json = json!(task);
            assert_eq!(json["order"], task.name());
            assert_eq!(serde_json::from_value::<JobTask>(json).unwrap(), task);
        }
    }

    #[test]
    fn a_dry_run_is_not_audited() {
        let entry = job(JobTask::Drop).audit_entry().unwrap();
        assert_eq!((entry.action.as_str(), entry.actor.as_str()), ("job drop", "token:1"));
        assert!(
            entry.why.starts_with("ticket 812 (job ") && entry.why.ends_with("where digest_type=alerts)"),
            "{}",
            entry.why
        );
        assert_eq!(Job { dry_run: true, ..job(JobTask::Drop) }.audit_entry(), None);
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
