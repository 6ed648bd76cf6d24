//! The body of `POST /v1/jobs`.

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_activities::operations::key_filter::KeyFilter;
use tidings_model::{
    job::{Job, Task},
    settings::FormerNames,
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    api::{
        body,
        caller::Caller,
        operate::later,
        refusal::{Fault, Refusal},
    },
    problem::Problem,
};

/// A job as an operator writes it.
#[derive(Deserialize, ToSchema)]
#[schema(as = PostedJob)]
#[serde(deny_unknown_fields)]
pub(super) struct Posted {
    #[schema(required = true, nullable = false)]
    order: Option<Order>,
    /// The filter: `tenant=`, `type=` and `user=`, joined by `and`.
    #[serde(rename = "where", default)]
    #[schema(required = true)]
    words: String,
    /// The reason, for the audit trail.
    #[serde(default)]
    #[schema(required = true)]
    why: String,
    /// Of hold: the end, a time or a span from now.
    until: Option<String>,
    /// Of retime: the deadline, a time or a span from now.
    at: Option<String>,
    /// Of reopen: also digests that recipients may have already.
    may_duplicate: Option<bool>,
    /// Only selects the keys.
    #[serde(default)]
    dry_run: bool,
}

/// The order to each key.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[schema(as = JobOrder)]
#[serde(rename_all = "snake_case")]
enum Order {
    Flush,
    Hold,
    Release,
    Drop,
    Retime,
    Reopen,
}

/// Reads a job. `tenant` narrows its filter.
pub(super) fn read(
    headers: &HeaderMap,
    bytes: &[u8],
    caller: &Caller,
    tenant: Option<String>,
    names: &FormerNames,
    id: Uuid,
    now: Timestamp,
) -> Result<Job, Refusal> {
    let mut posted: Posted = body::read(headers, bytes)?;
    let tenant = filter(&posted.words)?.within(tenant, names).ok_or(Problem::NotFound)?.tenant;
    let task = task(&mut posted)?;
    let Posted { words, why, dry_run, .. } = posted;
    Ok(Job { dry_run, ..Job::new(id, task, words, tenant, caller.order(why)?, now) })
}

fn filter(words: &str) -> Result<KeyFilter, Refusal> {
    // No key has one.
    if words.contains(char::is_control) {
        return Err(Refusal::body(Fault::new("where", "has a control character")));
    }
    words.parse().map_err(|invalid| Refusal::body(Fault::new("where", format!("{invalid}"))))
}

/// Takes the order with its arguments, and refuses those of other orders.
fn task(posted: &mut Posted) -> Result<Task, Refusal> {
    let missing = || Fault::new("order", "is required: flush, hold, release, drop, retime or reopen");
    let task = match posted.order.ok_or_else(|| Refusal::body(missing()))? {
        Order::Flush => Task::Flush,
        Order::Hold => Task::Hold { until: later("until", posted.until.take())? },
        Order::Release => Task::Release,
        Order::Drop => Task::Drop,
        Order::Retime => Task::Retime { at: later("at", posted.at.take())? },
        Order::Reopen => Task::Reopen { may_duplicate: posted.may_duplicate.take().unwrap_or_default() },
    };
    let others = [
        ("until", posted.until.is_some()),
        ("at", posted.at.is_some()),
        ("may_duplicate", posted.may_duplicate.is_some()),
    ];
    match others.into_iter().find(|(_, is_there)| *is_there) {
        Some((field, _)) => Err(Refusal::body(Fault::new(field, format!("is no argument of {}", task.name())))),
        None => Ok(task),
    }
}
