//! Recovery of a run that was terminated, timed out or failed (rule 31). Such a run executes no code of its own any more.
//!
//! The recovery finds the run, reopens the digests that it left without an end, and emits the events of its history again.

use std::{collections::BTreeSet, mem, pin::pin, time::Duration};

use futures::{
    TryStreamExt as _,
    future::{try_join, try_join_all},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use temporalio_client::{
    Client as Temporal, NamespacedClient as _, WorkflowDescribeOptions, WorkflowExecutionInfo, WorkflowExecutionStatus,
    errors::WorkflowInteractionError,
};
use temporalio_common::UntypedWorkflow;
use tidings_client::{ByteBudget, Client, CommandError, Commands, check_namespace, v1};
use tidings_model::{
    Event, Key, Retract,
    command::{Order, Reopen},
    step::{AuditInput, Note},
};
use tidings_store::Store;
use tidings_workflows::{RunInput, Status};
use tokio::time::sleep;
use tracing::{Instrument as _, Span, debug_span};
use uuid::Uuid;

use crate::{Error, history::run_inputs};

/// The most digests of a key that a recovery reads. Few keys have more than two without an end.
const DIGESTS: u32 = 1_000;
/// Events and retracts in flight together.
const PAGE: usize = 2_000;
/// The longest wait for one delivery before the next digest is reopened. The workflow refuses a digest that comes too early.
const DELIVERY: Duration = Duration::from_mins(1);

/// A recovery of one run.
#[derive(Clone, Copy)]
pub struct Recovery<'a> {
    /// The server with the history.
    pub temporal: &'a Temporal,
    /// The client that emits the events again.
    pub events: &'a Client,
    /// The digests' task queue.
    pub task_queue: &'a str,
    /// The store with the ledger.
    pub store: &'a dyn Store,
    /// The key of the run.
    pub key: &'a Key,
    /// The id of the run; `None` for the latest.
    pub run_id: Option<&'a str>,
}

/// The result of a recovery, or of its dry run.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// The id of the run.
    pub run_id: String,
    /// The end of the run: `terminated`, `timed out` or `failed`.
    pub ended: &'static str,
    /// The key's digests without an end, except those of a later run: the one in delivery, and the one of its open window.
    pub digests: Vec<OpenDigest>,
    /// Events in the run's history, with duplicates.
    pub events: u64,
    /// Retracts in the run's history.
    pub retracts: u64,
    /// Events that failed digests of the key returned. They open a window (rule 25).
    pub returned: u64,
    /// Earlier runs that left events unread, and whose histories Temporal has deleted. Their events are lost.
    pub gone: Vec<String>,
}

/// A digest without an end.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct OpenDigest {
    /// The id of the digest.
    pub digest_id: Uuid,
    /// Events in the digest.
    pub events: u64,
    /// The reason why the workflow did not reopen the digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A recovery that failed.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// Temporal does not know the run.
    #[error("{0}: Temporal has no such run, or has deleted it")]
    NoSuchRun(Key),
    /// The run needs no recovery.
    #[error("{key}: run {run_id} {why}")]
    NotNeeded {
        /// The key of the run.
        key: Key,
        /// The id of the run.
        run_id: String,
        /// The reason.
        why: &'static str,
    },
    /// The recovery started, and must run again.
    #[error("run {run_id} is only partly recovered; recover the run again")]
    Unfinished {
        /// The id of the run.
        run_id: String,
        /// The cause.
        source: Box<Self>,
    },
    /// A workflow did not carry out a command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Temporal did not take an event or a retract.
    #[error(transparent)]
    Emit(#[from] tidings_client::Error),
    /// Temporal does not describe a run.
    #[error("Temporal does not describe the run")]
    Describe(#[from] WorkflowInteractionError),
    /// The history cannot be read.
    #[error(transparent)]
    History(#[from] Error),
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    /// An event cannot be emitted as it was recorded.
    #[error(transparent)]
    Event(#[from] serde_json::Error),
}

impl Recovery<'_> {
    /// Returns what [`Recovery::run`] would do.
    ///
    /// # Errors
    /// The run needs no recovery, its history is gone, or Temporal, the store or a worker does not answer.
    pub async fn dry_run(&self) -> Result<Recovered, RecoverError> {
        let mut recovered = self.find().await?;
        self.read(&mut recovered, async |_| Ok(())).await?;
        Ok(recovered)
    }

    /// Reopens the key's digests without an end, then emits the run's events again, and one of the events that failed digests
    /// returned. Digests come first, so that no other digest claims their events. Running a recovery twice is safe, because known
    /// events change nothing (rule 3). A late write of the old run joins the window of these events
    /// ([`Ledger::stash`](tidings_store::Ledger::stash)).
    ///
    /// # Errors
    /// As for [`Recovery::dry_run`].
    pub async fn run(&self, order: &Order) -> Result<Recovered, RecoverError> {
        let mut recovered = self.find().await?;
        self.audit(order).await?;
        match self.resume(&mut recovered, order).await {
            Ok(()) => Ok(recovered),
            Err(error) => Err(RecoverError::Unfinished { run_id: recovered.run_id, source: Box::new(error) }),
        }
    }

    async fn resume(&self, recovered: &mut Recovered, order: &Order) -> Result<(), RecoverError> {
        for digest in &mut recovered.digests {
            self.until_delivered().await?;
            let reopen = Reopen { order: order.clone(), digest_id: digest.digest_id, may_duplicate: false };
            digest.refused = self.commands().digest(self.key).reopen(reopen).await?.refused;
        }
        self.read(recovered, async |page| self.emit(page).await).await?;
        // The ledger knows this event, so that the event itself changes nothing. The workflow learns of all that wait.
        let events = self.store.returned_event(self.key).await?.into_iter().collect();
        self.emit(RunInput { events, ..RunInput::default() }).await
    }

    async fn find(&self) -> Result<Recovered, RecoverError> {
        let Self { temporal, store, key, .. } = self;
        let execution = WorkflowExecutionInfo::builder()
            .namespace(temporal.namespace())
            .workflow_id(key.workflow_id())
            .maybe_run_id(self.run_id)
            .build();
        let workflow = execution.bind_untyped((*temporal).clone());
        let run = match workflow.describe(WorkflowDescribeOptions::default()).instrument(self.describing()).await {
            Err(WorkflowInteractionError::NotFound(refusal)) => {
                check_namespace(&refusal)?;
                return Err(RecoverError::NoSuchRun((*key).clone()));
            }
            run => run?,
        };
        let not_needed = |why| RecoverError::NotNeeded { key: (*key).clone(), run_id: run.run_id().to_owned(), why };
        let ended = bad_end(run.status()).map_err(not_needed)?;
        let live = self.live().await?;
        let of_a_later_run: Vec<_> = live
            .iter()
            .flat_map(|status| [status.digest_id, status.delivering.as_ref().map(|delivery| delivery.digest_id)])
            .flatten()
            .collect();
        let digests = store.digests(key, DIGESTS).await?.into_iter();
        // A digest without events is a late write of a run that was already recovered.
        let digests = digests.filter(|digest| digest.closed.is_none() && digest.items > 0);
        let digests = digests.filter(|digest| !of_a_later_run.contains(&digest.digest_id));
        let digests = digests.map(|open| OpenDigest { digest_id: open.digest_id, events: open.items, refused: None });
        let (run_id, digests) = (run.run_id().to_owned(), digests.collect());
        let returned = store.returned(key).await?.map_or(0, |returned| returned.events());
        Ok(Recovered { run_id, ended, digests, events: 0, retracts: 0, returned, gone: Vec::new() })
    }

    fn commands(&self) -> Commands {
        Commands::new(self.temporal.clone(), self.task_queue)
    }

    fn describing(&self) -> Span {
        debug_span!("temporal", call = "describe", key = %self.key)
    }

    async fn audit(&self, Order { by, why }: &Order) -> Result<(), RecoverError> {
        let note = Note { at: Timestamp::now(), by: by.clone(), action: "recover".to_owned(), why: why.clone() };
        Ok(self.store.audit(&AuditInput { key: self.key.clone(), notes: vec![note] }).await?)
    }

    /// Waits for the delivery of the key's other digest. A key has at most one digest in delivery.
    async fn until_delivered(&self) -> Result<(), RecoverError> {
        let until = Timestamp::now() + DELIVERY;
        while let Some(delivery) = self.live().await?.and_then(|status| status.delivering) {
            if !may_end(delivery.next_attempt_at, Timestamp::now(), until) {
                break;
            }
            sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// The status of the later run, if one is open.
    async fn live(&self) -> Result<Option<Status>, RecoverError> {
        let workflow = self.temporal.get_workflow_handle::<UntypedWorkflow>(self.key.workflow_id());
        let run = workflow.describe(WorkflowDescribeOptions::default()).instrument(self.describing()).await?;
        if run.status() != WorkflowExecutionStatus::Running {
            return Ok(None);
        }
        Ok(self.commands().digest(self.key).status().await?)
    }

    /// Counts the events and retracts of the run, and of earlier runs that left theirs unread. Passes them on in pages.
    async fn read(
        &self,
        recovered: &mut Recovered,
        mut take: impl AsyncFnMut(RunInput) -> Result<(), RecoverError>,
    ) -> Result<(), RecoverError> {
        let mut runs = vec![recovered.run_id.clone()];
        let mut seen = BTreeSet::new();
        let mut page = RunInput::default();
        while let Some(run) = runs.pop() {
            // Several runs may point to one.
            if !seen.insert(run.clone()) {
                continue;
            }
            let mut history = pin!(run_inputs(self.temporal.clone(), self.key, &run));
            loop {
                let RunInput { events, retracts, runs: earlier } = match history.try_next().await {
                    Ok(Some(told)) => told,
                    Ok(None) => break,
                    Err(Error::HistoryGone { run }) if run != recovered.run_id => {
                        recovered.gone.push(run);
                        break;
                    }
                    Err(error) => return Err(error.into()),
                };
                runs.extend(earlier);
                recovered.events += events.len() as u64;
                recovered.retracts += retracts.len() as u64;
                page.events.extend(events);
                page.retracts.extend(retracts);
                if page.events.len() + page.retracts.len() >= PAGE {
                    take(mem::take(&mut page)).await?;
                }
            }
        }
        take(page).await
    }

    async fn emit(&self, page: RunInput) -> Result<(), RecoverError> {
        let events = page.events.iter().map(|event| event_of(self.key, event)).collect::<Result<Vec<_>, _>>()?;
        let budget = ByteBudget::default();
        let events = events.into_iter().map(|event| budget.emit(self.events, event));
        let retracts = page.retracts.into_iter().map(|retract| self.events.retract(retract_of(self.key, retract)));
        try_join(try_join_all(events), try_join_all(retracts)).await?;
        Ok(())
    }
}

/// Names the end of a run that needs a recovery; otherwise, says why the run needs none.
fn bad_end(status: WorkflowExecutionStatus) -> Result<&'static str, &'static str> {
    match status {
        WorkflowExecutionStatus::Terminated => Ok("terminated"),
        WorkflowExecutionStatus::TimedOut => Ok("timed out"),
        WorkflowExecutionStatus::Failed => Ok("failed"),
        WorkflowExecutionStatus::Completed => {
            Err("completed and left nothing behind; name an earlier run that was terminated with --run")
        }
        WorkflowExecutionStatus::Canceled => Err(
            "was cancelled, and the ledger has all its events; reopen a digest of the run with `tidings digest reopen`",
        ),
        _ => Err("is still running; name an earlier run that was terminated with --run"),
    }
}

/// Reports if a delivery may end in time. Without a next attempt, one is in progress. For a digest on hold, the next attempt
/// stays in the past.
fn may_end(next_attempt_at: Option<Timestamp>, now: Timestamp, until: Timestamp) -> bool {
    next_attempt_at.map_or(now, |at| at.max(now)) < until
}

fn event_of(key: &Key, event: &Event) -> serde_json::Result<v1::Event> {
    let Key { tenant, digest_type: digest, user } = key.clone();
    Ok(v1::Event { tenant, digest, user, ..serde_json::from_value(json!(event))? })
}

fn retract_of(key: &Key, retract: Retract) -> v1::Retract {
    let Key { tenant, digest_type: digest, user } = key.clone();
    let wire = v1::Retract { tenant, digest, user, ..v1::Retract::default() };
    match retract {
        Retract::Event(event_id) => v1::Retract { event_id, ..wire },
        Retract::Entity { category, entity_type, entity_id, until } => {
            v1::Retract { category, entity_type, entity_id, occurred_at: Some(until.into()), ..wire }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        "acme/activity/ann".parse().unwrap()
    }

    #[test]
    fn only_a_terminated_timed_out_or_failed_run_is_recovered() {
        for (status, says) in [
            (WorkflowExecutionStatus::Terminated, Ok("terminated")),
            (WorkflowExecutionStatus::TimedOut, Ok("timed out")),
            (WorkflowExecutionStatus::Failed, Ok("failed")),
            (WorkflowExecutionStatus::Running, Err("is still running")),
            (WorkflowExecutionStatus::ContinuedAsNew, Err("is still running")),
            (WorkflowExecutionStatus::Completed, Err("completed")),
            (WorkflowExecutionStatus::Canceled, Err("was cancelled")),
        ] {
            match (bad_end(status), says) {
                (Ok(ended), Ok(expected)) => assert_eq!(ended, expected),
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (found, _) => panic!("{status:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_recovery_waits_for_a_delivery_only_within_its_deadline() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (next_attempt_at, now, waits) in [
            (None, 0, true),
            (None, 60, false),
            (Some(59), 0, true),
            (Some(60), 0, false),
            (Some(-5), 59, true),
            (Some(-5), 60, false),
        ] {
            assert_eq!(may_end(next_attempt_at.map(at), at(now), at(60)), waits, "{next_attempt_at:?} {now}");
        }
    }

    #[test]
    fn an_emitted_event_equals_the_recorded_one() {
        let json = r#"{"event_id":"e1","category":"comment","entity_type":"page","actor":"Ann","counts":{"critical":2},
                       "occurred_at":"2026-01-31T08:00:00.5Z","urgent":true,"payload":{"title":"Plan","n":3}}"#;
        let event: Event = serde_json::from_str(json).unwrap();
        assert_eq!(Event::from_wire(event_of(&key(), &event).unwrap(), None).unwrap(), (key(), event));
        let until = "2026-01-31T08:00:00.5Z".parse().unwrap();
        let (category, entity_type, entity_id) = ("comment".to_owned(), "page".to_owned(), String::new());
        for retract in [Retract::Event("e1".to_owned()), Retract::Entity { category, entity_type, entity_id, until }] {
            let wire = retract_of(&key(), retract.clone());
            assert_eq!(Retract::from_wire(wire, None).unwrap(), (key(), retract));
        }
    }
}
