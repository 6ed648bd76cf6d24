//! The end of a run, when all faults are over. Each open window needs a reason; then every window is sent, so that
//! every event is accounted for.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde_json::json;
use temporalio_client::{
    Client, QueryRejectCondition, WorkflowCountOptions, WorkflowDescribeOptions, WorkflowExecutionStatus,
    WorkflowQueryOptions,
    errors::{WorkflowInteractionError, WorkflowQueryError},
};
use tidings_model::{Key, names};
use tidings_workflows::{Digest, DigestStage, DigestStatus};
use tokio::time::{Instant, sleep};

use super::{
    act::{Act, Intervention},
    files::Files,
    interventions::Desk,
    processes::Processes,
    settings::{RELAYS, TENANTS},
};

/// Keys that are queried at the same time.
const AT_ONCE: usize = 8;
const AGAIN: Duration = Duration::from_secs(1);
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Waits at most `within` until every open window waits for something, and logs what is open.
///
/// # Errors
/// When Temporal does not answer.
pub async fn dust(processes: &mut Processes, desk: &Desk, files: &Files, within: Duration) -> Result<usize> {
    let keys = desk.plan.keys();
    unblock(desk).await?;
    // A fault may have come between an erasure and the import after it.
    desk.import().await?;
    let deadline = Instant::now() + within;
    let open = loop {
        processes.supervise()?;
        let open = open(processes, &keys, deadline).await?;
        let now = Timestamp::now();
        if Instant::now() >= deadline || open.iter().all(|(_, status)| waits(status, now)) {
            break open;
        }
        sleep(AGAIN).await;
    };
    let asked_at = Timestamp::now();
    for (key, status) in &open {
        let line = json!({"tenant": key.tenant, "digest": key.digest_type, "user": key.user,
                          "asked_at": asked_at.as_millisecond(), "state": status.state,
                          "due_at": status.due_at.map(Timestamp::as_millisecond), "hold": status.hold.is_some(),
                          "next_attempt_at": status.delivering.as_ref().and_then(|sending| sending.next_attempt_at)
                                                   .map(Timestamp::as_millisecond),
                          "why": status.why, "trouble": status.trouble});
        files.append("open.ndjson", &line)?;
    }
    Ok(open.len())
}

/// Closes the breakers of all relays and ends every pause, so that each digest can be delivered.
///
/// # Errors
/// When a command ends in a way that is not documented.
pub async fn unblock(desk: &Desk) -> Result<()> {
    let anybody = desk.plan.events[0].key.clone();
    for relay in 0..RELAYS.len() {
        desk.intervene(Intervention::CloseRelay(relay), &anybody).await?;
    }
    resume(desk).await
}

/// Ends every pause of an operator. A resume that a fault disturbed is repeated: it signals the keys again.
async fn resume(desk: &Desk) -> Result<()> {
    let mut scopes = BTreeSet::new();
    for (_, act) in &desk.plan.steps {
        let Act::Intervention(intervention, key) = act else { continue };
        let Some(resume) = intervention.resume() else { continue };
        let digest_type = if resume == Intervention::ResumeTenant { "" } else { &key.digest_type };
        if scopes.insert((&key.tenant, digest_type)) {
            desk.intervene(resume, key).await?;
        }
    }
    Ok(())
}

/// Answers `true` if the key may be open. The checker judges for itself; this only decides when to run it.
fn waits(status: &DigestStatus, now: Timestamp) -> bool {
    match status.state {
        DigestStage::Idle => true,
        DigestStage::Held => status.hold.is_some(),
        DigestStage::Collecting => status.due_at.is_some_and(|due_at| due_at > now),
        _ => false,
    }
}

/// Ends every hold and pause and flushes until no window is open, at most `within`. Answers with the keys that are
/// still open.
///
/// # Errors
/// When Temporal does not answer.
pub async fn empty(
    processes: &mut Processes,
    desk: &Desk,
    paused: &BTreeSet<Key>,
    within: Duration,
) -> Result<Vec<String>> {
    let keys = desk.plan.keys();
    for key in paused {
        desk.intervene(Intervention::Resume, key).await?;
    }
    let deadline = Instant::now() + within;
    loop {
        processes.supervise()?;
        // Before the windows: what leaves the inbox opens one.
        let inbox_is_empty = async { anyhow::Ok(desk.store.open().await?.inbox_depth().await?.events == 0) };
        let inbox_is_empty = inbox_is_empty.await.unwrap_or(false);
        // A key that does not answer must not keep the others from being sent.
        let open = open(processes, &keys, deadline.min(Instant::now() + ANSWERS_WITHIN)).await;
        let windows_are_gone = open.as_ref().is_ok_and(Vec::is_empty);
        if inbox_is_empty && windows_are_gone && singles(processes).await.is_ok_and(|singles| singles == 0) {
            return Ok(Vec::new());
        }
        if Instant::now() >= deadline {
            return Ok(open?.iter().map(|(key, status)| format!("{key}: {status:?}")).collect());
        }
        for order in ["release", "flush"] {
            for tenant in TENANTS {
                let words =
                    ["digest", order, "--filter", &format!("tenant={tenant}"), "--rate", "200", "--why", "the end"];
                desk.tell(&words.map(str::to_owned)).await?;
            }
        }
        sleep(AGAIN).await;
    }
}

/// The keys with an open run, and their status. A key that does not answer is queried again until the deadline.
///
/// # Errors
/// When a key does not answer by the deadline.
pub async fn open(processes: &Processes, keys: &BTreeSet<Key>, deadline: Instant) -> Result<Vec<(Key, DigestStatus)>> {
    loop {
        let asking = async {
            let temporal = processes.server.client().await?;
            let asked = stream::iter(keys).map(|key| ask(&temporal, key)).buffer_unordered(AT_ONCE);
            asked.try_collect::<Vec<_>>().await
        };
        match asking.await {
            Ok(answers) => return Ok(answers.into_iter().flatten().collect()),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => sleep(AGAIN).await,
        }
    }
}

/// Single messages without an outcome.
async fn singles(processes: &Processes) -> Result<usize> {
    let query = format!("WorkflowType = '{}' AND ExecutionStatus = 'Running'", names::MESSAGE_WORKFLOW_TYPE);
    let count = processes.server.client().await?.count_workflows(&query, WorkflowCountOptions::default()).await?;
    Ok(count.count())
}

async fn ask(temporal: &Client, key: &Key) -> Result<Option<(Key, DigestStatus)>> {
    let workflow = temporal.get_workflow_handle::<Digest>(key.workflow_id());
    match workflow.describe(WorkflowDescribeOptions::default()).await {
        Ok(description) if description.status() == WorkflowExecutionStatus::Running => {}
        Ok(_) | Err(WorkflowInteractionError::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let only_open = WorkflowQueryOptions::builder().reject_condition(QueryRejectCondition::NotOpen).build();
    match workflow.query(Digest::status, (), only_open).await {
        Ok(status) => Ok(Some((key.clone(), status))),
        Err(WorkflowQueryError::NotFound(_) | WorkflowQueryError::Rejected { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
