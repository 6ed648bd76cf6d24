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
use tidings_client::{CommandError, Commands};
use tidings_model::{
    Alert, Key, MessageKey,
    command::Order,
    message::{command::Retry, contract::Retried},
    names,
    records::Actor,
    troubled_run::{
        DueRun, FoundRun, KEPT, LOOK, Look, MOST_TRIES, Owner, RECOVERIES_WITHIN, Resolution, RunId, Trouble, Verdict,
        remedy, try_again_after, verdict,
    },
};
use tidings_services::{
    Error,
    history::termination,
    metrics,
    visibility::{self, ended_run, id_of},
};
use tidings_store::Store;
use tokio::time::sleep;
use tracing::{Instrument as _, debug_span};
use uuid::Uuid;

use crate::{
    recover::{RecoverError, Recovery},
    subscriptions,
};

const RECORDED: usize = 500;
/// How many open runs one sweep records. If producers misspell the task queue, there are as many as keys.
const OPEN: usize = 10_000;
const RECOVERIES: u32 = 8;
const FORGOTTEN: u32 = 1_000;

pub struct Sweep {
    store: Arc<dyn Store>,
    temporal: Client,
    events: tidings_client::Client,
    task_queue: String,
    holder: Uuid,
}

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error("Temporal does not list the runs: {0}")]
    Visibility(#[from] ClientError),
}

enum Tried {
    Recovered,
    Over,
    /// Temporal, the store or a worker failed; retry.
    Again(String),
    /// Something blocks the recovery, e.g. a committed attempt. Retrying usually helps.
    Refused(String),
    /// Do not retry; an operator must decide.
    Left(String),
}

impl Sweep {
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
                if let Err(error) = self.look().await {
                    tracing::warn!(%error, "the sweep for runs that ended without their code tries again");
                }
                sleep(LOOK.unsigned_abs()).await;
            }
        })
    }

    /// Finds runs in trouble, unless another worker has just done so, and recovers those which are due.
    ///
    /// # Errors
    /// If the store or Temporal fails. The next sweep will find the rest.
    pub async fn look(&self) -> Result<(), SweepError> {
        let now = Timestamp::now();
        if let Some(swept) = self.store.lease_sweep(self.holder, now).await? {
            let look = swept.next(now);
            let found = self.find(look, now).await;
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

    async fn find(&self, look: Look, now: Timestamp) -> Result<(), SweepError> {
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
        let found = visibility::list_open(&self.temporal, &self.misplaced(), options).try_collect::<Vec<_>>();
        let found = found.instrument(debug_span!("temporal", call = "list_workflows")).await?;
        let elsewhere = found.iter().filter_map(|run| Some((run, open_run(run, &self.task_queue)?)));
        let elsewhere = elsewhere.filter(|(_, found)| found.trouble == Trouble::WrongQueue);
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
        let misplaced = visibility::list_open(&self.temporal, &self.misplaced(), options());
        let paused = visibility::list_paused(&self.temporal, &self.ours(), options());
        let found = misplaced.chain(paused).try_collect::<Vec<_>>();
        let found = found.instrument(debug_span!("temporal", call = "list_workflows")).await?;
        let runs = found.iter().filter_map(|run| open_run(run, &self.task_queue));
        let runs: BTreeMap<_, _> = runs.map(|run| (run.id.clone(), run)).collect();
        Ok(runs.into_values().collect())
    }

    fn ours(&self) -> String {
        let subscriptions = quoted(&names::subscription(&self.task_queue, ""));
        format!(
            "(WorkflowId STARTS_WITH 'digest/' OR WorkflowId STARTS_WITH 'message/' OR WorkflowId STARTS_WITH {subscriptions})"
        )
    }

    fn ended_since(&self, since: Timestamp) -> String {
        format!(
            "ExecutionStatus IN ('Terminated', 'TimedOut', 'Failed') AND CloseTime >= '{since}' AND {}",
            self.ours()
        )
    }

    fn misplaced(&self) -> String {
        let kinds = kinds(&self.task_queue).into_iter().map(|(prefix, workflow, queues)| {
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
        let owner = Owner::of(&id.workflow_id, &self.task_queue);
        let ended = match trouble {
            Trouble::Terminated => termination(self.temporal.clone(), &id.workflow_id, &id.run_id).await,
            _ => Ok(None),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => return self.tried(due, &owner, None, unreadable(error)).await,
        };
        let (by, reason) = ended.map(|ended| (ended.identity, ended.reason)).unzip();
        let recovered = match trouble {
            Trouble::Terminated => 0,
            _ => self.store.recoveries(&id.workflow_id, Timestamp::now() - RECOVERIES_WITHIN).await?,
        };
        let tried = match verdict(&owner, *trouble, by.as_deref(), recovered) {
            Verdict::List("") => Tried::Left(reason.unwrap_or_default()),
            Verdict::List(why) => Tried::Left(why.to_owned()),
            Verdict::Recover => self.recover(&owner, &due.run).await,
        };
        self.tried(due, &owner, by.as_deref(), tried).await
    }

    async fn recover(&self, owner: &Owner, run: &FoundRun) -> Tried {
        let why = match run.trouble {
            Trouble::TimedOut => "its run timed out in Temporal",
            Trouble::Failed => "its run failed in Temporal",
            _ => "Temporal terminated its run",
        };
        let order = Order { by: Actor::Tidings.as_str().to_owned(), why: why.to_owned() };
        match owner {
            Owner::Digest(key) => self.recover_digest(key, &run.id, &order).await,
            Owner::Message(key) => {
                Box::pin(self.recover_message(key, order)).await.unwrap_or_else(|error| Tried::Again(error.to_string()))
            }
            Owner::Subscription(name) => match subscriptions::signal(&self.temporal, &self.task_queue, name).await {
                Ok(()) => Tried::Recovered,
                Err(error) => Tried::Again(error.to_string()),
            },
            Owner::Nobody => Tried::Over,
        }
    }

    async fn recover_digest(&self, key: &Key, id: &RunId, order: &Order) -> Tried {
        let recovery = Recovery {
            temporal: &self.temporal,
            events: &self.events,
            task_queue: &self.task_queue,
            store: &*self.store,
            key,
            run_id: Some(&id.run_id),
        };
        match Box::pin(recovery.run(order, Resolution::Recovered)).await {
            Ok(recovered) => recovered.left().map_or(Tried::Recovered, Tried::Refused),
            Err(error @ RecoverError::NoSuchRun(_)) => Tried::Left(error.to_string()),
            Err(RecoverError::NotNeeded { .. }) => Tried::Over,
            Err(RecoverError::History(error)) => unreadable(error),
            Err(error) => Tried::Again(with_causes(&error)),
        }
    }

    /// Retries the message; the outbox has everything we need from the run.
    async fn recover_message(&self, key: &MessageKey, order: Order) -> Result<Tried, RecoverMessageError> {
        let Some(message) = self.store.message(key.message_id()).await? else { return Ok(Tried::Over) };
        if message.closed().is_some() {
            return Ok(Tried::Over);
        }
        let commands = Commands::new(self.temporal.clone(), &self.task_queue);
        let retry = Retry { order, may_duplicate: false };
        Ok(match commands.message(key, message.stream).retry(retry).await? {
            Retried::Queued => Tried::Recovered,
            Retried::Refused { why } => Tried::Refused(why),
        })
    }

    async fn tried(&self, due: &DueRun, owner: &Owner, by: Option<&str>, tried: Tried) -> Result<(), SweepError> {
        let (run, now) = (&due.run, Timestamp::now());
        let RunId { workflow_id, run_id } = &run.id;
        let (resolution, why, again_at) = match tried {
            Tried::Recovered => (Some(Resolution::Recovered), String::new(), None),
            Tried::Over => (Some(Resolution::Over), String::new(), None),
            Tried::Refused(why) if due.tries >= MOST_TRIES => (None, why, None),
            Tried::Again(why) | Tried::Refused(why) => (None, why, now.checked_add(try_again_after(due.tries)).ok()),
            Tried::Left(why) => (None, why, None),
        };
        if let Some(resolution) = resolution {
            self.store.resolve_run(run, &self.task_queue, resolution, None, now).await?;
            if resolution == Resolution::Recovered {
                metrics::run_recovered(run.trouble);
                tracing::warn!(
                    alert = %Alert::RunRecovered, workflow = workflow_id, run = run_id, trouble = %run.trouble,
                    "recovered a run that ended without its code: look for a timeout or a conflict policy of its producer"
                );
            }
            return Ok(());
        }
        self.store.list_run(&run.id, by, &why, again_at).await?;
        if again_at.is_none() || due.tries == MOST_TRIES {
            tracing::error!(
                alert = %Alert::RunLeft, workflow = workflow_id, run = run_id, trouble = %run.trouble,
                remedy = remedy(owner, &run.id, run.trouble), "a run ended without its code, and is not recovered by itself"
            );
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
enum RecoverMessageError {
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error(transparent)]
    Command(#[from] CommandError),
}

fn unreadable(error: Error) -> Tried {
    match error {
        Error::HistoryGone { .. } => Tried::Left(error.to_string()),
        error => Tried::Again(error.to_string()),
    }
}

fn with_causes(error: &RecoverError) -> String {
    match error {
        RecoverError::Unfinished { source, .. } => format!("{error}: {source}"),
        error => error.to_string(),
    }
}

fn kinds(task_queue: &str) -> [(String, &'static str, Vec<String>); 3] {
    let digests = || task_queue.to_owned();
    // Earlier versions used the digest queue for `bulk` messages.
    let messages = vec![digests(), names::transactional(task_queue), names::bulk(task_queue)];
    let subscriptions = vec![names::subscriptions(task_queue)];
    [
        ("digest/".to_owned(), names::WORKFLOW_TYPE, vec![digests()]),
        ("message/".to_owned(), names::MESSAGE_WORKFLOW_TYPE, messages),
        (names::subscription(task_queue, ""), names::SUBSCRIPTION_WORKFLOW_TYPE, subscriptions),
    ]
}

/// Quotes a text for a query. Workflow ids need no escaping, but a task queue may have any name.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

fn open_run(run: &WorkflowExecution, task_queue: &str) -> Option<FoundRun> {
    let kinds = kinds(task_queue);
    let (_, workflow_type, queues) = kinds.iter().find(|(prefix, ..)| run.id().starts_with(prefix))?;
    let trouble = if run.workflow_type() != *workflow_type {
        Trouble::WrongType
    } else if !queues.iter().any(|queue| queue == run.task_queue()) {
        Trouble::WrongQueue
    } else if run.status() == WorkflowExecutionStatus::Paused {
        Trouble::Paused
    } else {
        return None;
    };
    Some(FoundRun { id: id_of(run), trouble, since: Timestamp::try_from(run.start_time()?).ok()? })
}
