//! Sweeps for failed and terminated runs (rule 54). One worker sweeps at a time, holding a lease in the
//! store.
//!
//! A sweep records runs which have ended since the previous one. Each worker then leases some and recovers
//! those not ended by a person, like `tidings recover`. The rest wait for an operator.

use std::{collections::BTreeMap, sync::Arc};

use futures::{
    StreamExt as _, TryStreamExt as _,
    future::{BoxFuture, try_join_all},
};
use jiff::Timestamp;
use temporalio_client::{Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowListOptions, errors::ClientError};
use tidings_client::{CommandError, WorkflowCommands};
use tidings_model::{
    AlertName, Key, MessageKey,
    command::CommandContext,
    message::{command::RetryCommand, contract::RetryResult},
    names,
    records::AuditActor,
    troubled_run::{
        DueRun, FoundRun, KEPT, LOOK, MOST_TRIES, RECOVERIES_WITHIN, RecoveryDecision, RunId, RunResolution,
        RunTrouble, SweepScope, WorkflowOwner, decide_recovery, remedy_command, try_again_after,
    },
};
use tidings_services::{
    StepError,
    history::find_termination,
    metrics,
    visibility::{self, ended_run, id_of},
};
use tidings_store::Store;
use tokio::time::sleep;
use tracing::{Instrument as _, debug_span};
use uuid::Uuid;

use crate::{
    recover::{RecoverError, RunRecovery},
    subscriptions,
};

const RECORDED: usize = 500;
/// How many open runs one sweep records. If producers misspell the task queue, there are as many as keys.
const OPEN: usize = 10_000;
const RECOVERIES: u32 = 8;
const FORGOTTEN: u32 = 1_000;

pub struct RunSweep {
    store: Arc<dyn Store>,
    temporal: Client,
    events: tidings_client::Client,
    task_queue: String,
    holder: Uuid,
}

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error("Temporal does not list the runs: {0}")]
    Visibility(#[from] ClientError),
}

enum RecoveryOutcome {
    Recovered,
    Over,
    /// Temporal, the store or a worker failed; retry.
    Again(String),
    /// Something blocks the recovery, e.g. a committed attempt. Retrying usually helps.
    Refused(String),
    /// Do not retry; an operator must decide.
    Left(String),
}

impl RunSweep {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, temporal: Client, events: tidings_client::Client, task_queue: String) -> Self {
        Self { store, temporal, events, task_queue, holder: Uuid::new_v4() }
    }

    /// Sweeps forever. Boxing the future keeps its code in this crate.
    #[must_use]
    pub fn run(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(error) = self.name_other_queues().await {
                tracing::warn!(%error, "runs on other task queues are named when the sweep has found them");
            }
            loop {
                if let Err(error) = self.sweep_once().await {
                    tracing::warn!(%error, "sweep for troubled runs failed; retrying");
                }
                sleep(LOOK.unsigned_abs()).await;
            }
        })
    }

    /// Finds runs in trouble, unless another worker has just done so, and recovers those which are due.
    ///
    /// # Errors
    /// If the store or Temporal fails. The next sweep will find the rest.
    pub async fn sweep_once(&self) -> Result<(), SweepError> {
        let now = Timestamp::now();
        if let Some(swept) = self.store.lease_sweep(self.holder, now).await? {
            let look = swept.next(now);
            let found = self.record_ended(look, now).await;
            let place = if found.is_ok() { look.then } else { swept };
            self.store.end_sweep(self.holder, place, now).await?;
            found?;
        }
        loop {
            let due = self.store.due_runs(RECOVERIES, Timestamp::now()).await?;
            let many = due.len() >= RECOVERIES as usize;
            self.handle_all(due).await?;
            if !many {
                return Ok(());
            }
        }
    }

    async fn record_ended(&self, look: SweepScope, now: Timestamp) -> Result<(), SweepError> {
        let ended = self.temporal.list_workflows(self.ended_since(look.ended_since), WorkflowListOptions::default());
        let mut pages = ended.try_chunks(RECORDED);
        let span = debug_span!("temporal", call = "list_workflows", ended_since = %look.ended_since);
        while let Some(page) = pages.try_next().instrument(span.clone()).await.map_err(|error| error.1)? {
            let found: Vec<_> = page.iter().filter_map(ended_run).collect();
            self.store.put_ended_runs(&found, &self.task_queue, now).await?;
        }
        if look.open {
            let found = self.find_open().await?;
            let are_all = found.len() < OPEN;
            self.store.put_open_runs(&found, are_all, &self.task_queue, now).await?;
        }
        if look.far {
            self.store.forget_runs(now - KEPT, FORGOTTEN).await?;
        }
        Ok(())
    }

    /// Logs task queues with open runs this worker will not receive, e.g. after `task_queue` was changed.
    /// Each sweep lists these runs.
    async fn name_other_queues(&self) -> Result<(), SweepError> {
        let options = WorkflowListOptions::builder().limit(OPEN).build();
        let found = visibility::list_open(&self.temporal, &self.misplaced_runs(), options).try_collect::<Vec<_>>();
        let found = found.instrument(debug_span!("temporal", call = "list_workflows")).await?;
        let elsewhere = found.iter().filter_map(|run| Some((run, open_run(run, &self.task_queue)?)));
        let elsewhere = elsewhere.filter(|(_, found)| found.trouble == RunTrouble::WrongQueue);
        let mut runs = BTreeMap::<_, usize>::new();
        for (run, _) in elsewhere {
            *runs.entry(run.task_queue()).or_default() += 1;
        }
        for (task_queue, runs) in runs {
            tracing::warn!(
                task_queue,
                runs,
                "open runs are on another task queue, and count as trouble: start a worker with that task_queue beside this one until they \
                 have ended, or recover them as `tidings runs list` says"
            );
        }
        Ok(())
    }

    async fn find_open(&self) -> Result<Vec<FoundRun>, SweepError> {
        let options = || WorkflowListOptions::builder().limit(OPEN).build();
        let misplaced = visibility::list_open(&self.temporal, &self.misplaced_runs(), options());
        let paused = visibility::list_paused(&self.temporal, &self.our_ids(), options());
        let found = misplaced.chain(paused).try_collect::<Vec<_>>();
        let found = found.instrument(debug_span!("temporal", call = "list_workflows")).await?;
        let runs = found.iter().filter_map(|run| open_run(run, &self.task_queue));
        let runs: BTreeMap<_, _> = runs.map(|run| (run.id.clone(), run)).collect();
        Ok(runs.into_values().collect())
    }

    fn our_ids(&self) -> String {
        let subscriptions = quoted(&names::subscription_workflow_id(&self.task_queue, ""));
        format!(
            "(WorkflowId STARTS_WITH 'digest/' OR WorkflowId STARTS_WITH 'message/' OR WorkflowId STARTS_WITH {subscriptions})"
        )
    }

    fn ended_since(&self, since: Timestamp) -> String {
        format!(
            "ExecutionStatus IN ('Terminated', 'TimedOut', 'Failed') AND CloseTime >= '{since}' AND {}",
            self.our_ids()
        )
    }

    fn misplaced_runs(&self) -> String {
        let kinds = workflow_kinds(&self.task_queue).into_iter().map(|(prefix, workflow, queues)| {
            let elsewhere: Vec<_> = queues.iter().map(|queue| format!("TaskQueue != {}", quoted(queue))).collect();
            let (prefix, elsewhere) = (quoted(&prefix), elsewhere.join(" AND "));
            format!("(WorkflowId STARTS_WITH {prefix} AND (WorkflowType != '{workflow}' OR ({elsewhere})))")
        });
        format!("({})", kinds.collect::<Vec<_>>().join(" OR "))
    }

    async fn handle_all(&self, due: Vec<DueRun>) -> Result<(), SweepError> {
        let mut by_workflow = BTreeMap::<_, Vec<_>>::new();
        for due in due {
            by_workflow.entry(due.run.id.workflow_id.clone()).or_default().push(due);
        }
        try_join_all(by_workflow.into_values().map(|runs| self.handle_in_turn(runs))).await.map(drop)
    }

    async fn handle_in_turn(&self, runs: Vec<DueRun>) -> Result<(), SweepError> {
        for due in runs {
            self.handle(&due).await?;
        }
        Ok(())
    }

    async fn handle(&self, due: &DueRun) -> Result<(), SweepError> {
        let FoundRun { id, trouble, .. } = &due.run;
        let owner = WorkflowOwner::from_workflow_id(&id.workflow_id, &self.task_queue);
        let ended = match trouble {
            RunTrouble::Terminated => find_termination(self.temporal.clone(), &id.workflow_id, &id.run_id).await,
            _ => Ok(None),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => return self.record_outcome(due, &owner, None, history_failure(error)).await,
        };
        let (by, reason) = ended.map(|ended| (ended.identity, ended.reason)).unzip();
        let recovered = match trouble {
            RunTrouble::Terminated => 0,
            _ => self.store.count_recoveries(&id.workflow_id, Timestamp::now() - RECOVERIES_WITHIN).await?,
        };
        let tried = match decide_recovery(&owner, *trouble, by.as_deref(), recovered) {
            RecoveryDecision::List("") => RecoveryOutcome::Left(reason.unwrap_or_default()),
            RecoveryDecision::List(why) => RecoveryOutcome::Left(why.to_owned()),
            RecoveryDecision::Recover => self.recover(&owner, &due.run).await,
        };
        self.record_outcome(due, &owner, by.as_deref(), tried).await
    }

    async fn recover(&self, owner: &WorkflowOwner, run: &FoundRun) -> RecoveryOutcome {
        let why = match run.trouble {
            RunTrouble::TimedOut => "its run timed out in Temporal",
            RunTrouble::Failed => "its run failed in Temporal",
            _ => "Temporal terminated its run",
        };
        let order = CommandContext { by: AuditActor::Tidings.as_str().to_owned(), why: why.to_owned() };
        match owner {
            WorkflowOwner::Digest(key) => self.recover_digest(key, &run.id, &order).await,
            WorkflowOwner::Message(key) => Box::pin(self.recover_message(key, order))
                .await
                .unwrap_or_else(|error| RecoveryOutcome::Again(error.to_string())),
            WorkflowOwner::Subscription(name) => {
                match subscriptions::wake_subscription(&self.temporal, &self.task_queue, name).await {
                    Ok(()) => RecoveryOutcome::Recovered,
                    Err(error) => RecoveryOutcome::Again(error.to_string()),
                }
            }
            WorkflowOwner::Nobody => RecoveryOutcome::Over,
        }
    }

    async fn recover_digest(&self, key: &Key, id: &RunId, order: &CommandContext) -> RecoveryOutcome {
        let recovery = RunRecovery {
            temporal: &self.temporal,
            events: &self.events,
            task_queue: &self.task_queue,
            store: &*self.store,
            key,
            run_id: Some(&id.run_id),
        };
        match Box::pin(recovery.run(order, RunResolution::Recovered)).await {
            Ok(recovered) => recovered.incomplete_reason().map_or(RecoveryOutcome::Recovered, RecoveryOutcome::Refused),
            Err(error @ RecoverError::NoSuchRun(_)) => RecoveryOutcome::Left(error.to_string()),
            Err(RecoverError::NotNeeded { .. }) => RecoveryOutcome::Over,
            Err(RecoverError::History(error)) => history_failure(error),
            Err(error) => RecoveryOutcome::Again(with_causes(&error)),
        }
    }

    /// Retries the message; the outbox has everything we need from the run.
    async fn recover_message(
        &self,
        key: &MessageKey,
        order: CommandContext,
    ) -> Result<RecoveryOutcome, RecoverMessageError> {
        let Some(message) = self.store.message(key.message_id()).await? else { return Ok(RecoveryOutcome::Over) };
        if message.closed().is_some() {
            return Ok(RecoveryOutcome::Over);
        }
        let commands = WorkflowCommands::new(self.temporal.clone(), &self.task_queue);
        let retry = RetryCommand { order, may_duplicate: false };
        Ok(match commands.message(key, message.stream).retry(retry).await? {
            RetryResult::Queued => RecoveryOutcome::Recovered,
            RetryResult::Refused { why } => RecoveryOutcome::Refused(why),
        })
    }

    async fn record_outcome(
        &self,
        due: &DueRun,
        owner: &WorkflowOwner,
        by: Option<&str>,
        tried: RecoveryOutcome,
    ) -> Result<(), SweepError> {
        let (run, now) = (&due.run, Timestamp::now());
        let RunId { workflow_id, run_id } = &run.id;
        let (resolution, why, again_at) = match tried {
            RecoveryOutcome::Recovered => (Some(RunResolution::Recovered), String::new(), None),
            RecoveryOutcome::Over => (Some(RunResolution::Over), String::new(), None),
            RecoveryOutcome::Refused(why) if due.tries >= MOST_TRIES => (None, why, None),
            RecoveryOutcome::Again(why) | RecoveryOutcome::Refused(why) => {
                (None, why, now.checked_add(try_again_after(due.tries)).ok())
            }
            RecoveryOutcome::Left(why) => (None, why, None),
        };
        if let Some(resolution) = resolution {
            self.store.resolve_run(run, &self.task_queue, resolution, None, now).await?;
            if resolution == RunResolution::Recovered {
                metrics::run_recovered(run.trouble);
                tracing::warn!(
                    alert = %AlertName::RunRecovered, workflow = workflow_id, run = run_id, trouble = %run.trouble,
                    "recovered a run that ended without its code: look for a timeout or a conflict policy of its producer"
                );
            }
            return Ok(());
        }
        self.store.list_run(&run.id, by, &why, again_at).await?;
        if again_at.is_none() || due.tries == MOST_TRIES {
            tracing::error!(
                alert = %AlertName::RunLeft, workflow = workflow_id, run = run_id, trouble = %run.trouble,
                remedy = remedy_command(owner, &run.id, run.trouble), "a run ended without its code, and is not recovered by itself"
            );
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
enum RecoverMessageError {
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error(transparent)]
    Command(#[from] CommandError),
}

fn history_failure(error: StepError) -> RecoveryOutcome {
    match error {
        StepError::HistoryGone { .. } => RecoveryOutcome::Left(error.to_string()),
        error => RecoveryOutcome::Again(error.to_string()),
    }
}

fn with_causes(error: &RecoverError) -> String {
    match error {
        RecoverError::Unfinished { source, .. } => format!("{error}: {source}"),
        error => error.to_string(),
    }
}

fn workflow_kinds(task_queue: &str) -> [(String, &'static str, Vec<String>); 3] {
    let digests = || task_queue.to_owned();
    // Earlier versions used the digest queue for `bulk` messages.
    let messages = vec![digests(), names::transactional_queue(task_queue), names::bulk_queue(task_queue)];
    let subscriptions = vec![names::subscriptions_queue(task_queue)];
    [
        ("digest/".to_owned(), names::WORKFLOW_TYPE, vec![digests()]),
        ("message/".to_owned(), names::MESSAGE_WORKFLOW_TYPE, messages),
        (names::subscription_workflow_id(task_queue, ""), names::SUBSCRIPTION_WORKFLOW_TYPE, subscriptions),
    ]
}

/// Quotes a text for a query. Workflow ids need no escaping, but a task queue may have any name.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

fn open_run(run: &WorkflowExecution, task_queue: &str) -> Option<FoundRun> {
    let kinds = workflow_kinds(task_queue);
    let (_, workflow_type, queues) = kinds.iter().find(|(prefix, ..)| run.id().starts_with(prefix))?;
    let trouble = if run.workflow_type() != *workflow_type {
        RunTrouble::WrongType
    } else if !queues.iter().any(|queue| queue == run.task_queue()) {
        RunTrouble::WrongQueue
    } else if run.status() == WorkflowExecutionStatus::Paused {
        RunTrouble::Paused
    } else {
        return None;
    };
    Some(FoundRun { id: id_of(run), trouble, since: Timestamp::try_from(run.start_time()?).ok()? })
}
