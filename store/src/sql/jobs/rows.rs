//! Rows of jobs and of their keys.

use jiff::Timestamp;
use serde_json::Value;
use tidings_model::Key;
use tidings_model::command::Order;
use tidings_model::job::{Job, JobState, KeyResult, KeyState, Task};
use uuid::Uuid;

use super::super::columns::{Json, row};

row! {
/// Columns of [`JOB`](super::JOB).
pub struct JobRow {
    job_id: Uuid,
    tenant: String,
    words: String,
    task: Json<Task>,
    dry_run: bool,
    asked_by: String,
    why: String,
    state: JobState,
    problem: Option<String>,
    matched: Option<u64>,
    done: u64,
    failed: u64,
    posted_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}
}

impl From<JobRow> for Job {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.job_id,
            task: row.task.0,
            words: row.words,
            tenant: Some(row.tenant).filter(|tenant| !tenant.is_empty()),
            order: Order { by: row.asked_by, why: row.why },
            dry_run: row.dry_run,
            state: row.state,
            problem: row.problem,
            matched: row.matched,
            done: row.done,
            failed: row.failed,
            posted_at: row.posted_at,
            started_at: row.started_at,
            ended_at: row.ended_at,
        }
    }
}

row! {
/// Columns of [`RESULTS`](super::RESULTS).
pub struct KeyRow {
    workflow_id: String,
    state: KeyState,
    answer: Option<Json<Value>>,
    problem: Option<String>,
    ended_at: Option<Timestamp>,
}
}

impl KeyRow {
    /// `None`: the row has no workflow id of ours.
    pub fn result(self) -> Option<KeyResult> {
        let Self { workflow_id, state, answer, problem, ended_at } = self;
        let key = Key::from_workflow_id(&workflow_id).ok()?;
        Some(KeyResult { key, state, answer: answer.map(|Json(answer)| answer), problem, ended_at })
    }
}
