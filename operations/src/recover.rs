//! Recovers runs which were terminated, timed out or failed (rule 31).
//!
//! This restores an operator's hold, reopens unfinished digests, and emits the events in the runs' histories
//! again. A run with a wrong workflow type or task queue is terminated first, since our workers cannot
//! execute it.

use std::{collections::BTreeSet, mem, pin::pin, time::Duration};

use futures::{
    TryStreamExt as _,
    future::{try_join, try_join_all},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use temporalio_client::{
    Client as Temporal, NamespacedClient as _, UntypedWorkflowHandle, WorkflowDescribeOptions, WorkflowExecution,
    WorkflowExecutionDescription, WorkflowExecutionInfo, WorkflowExecutionStatus, WorkflowTerminateOptions,
    errors::{ClientError, WorkflowInteractionError},
};
use temporalio_common::UntypedWorkflow;
use tidings_client::{ByteBudget, Client, CommandError, WorkflowCommands, check_namespace, start_later, v1};
use tidings_model::{
    Event, Key, Retract,
    command::{CommandContext, HoldCommand, HoldResult, ReopenCommand},
    inbox::InboxItem,
    names,
    step::{AuditInput, AuditNote},
    troubled_run::{FoundRun, RunId, RunResolution, RunTrouble},
};
use tidings_services::{
    StepError,
    history::{hold_of, run_inputs},
    visibility,
};
use tidings_store::Store;
use tidings_workflows::{DigestStatus, RunInput};
use tokio::time::sleep;
use tracing::{Instrument as _, Span, debug_span};
use uuid::Uuid;

const DIGESTS: u32 = 1_000;
const RUNS: usize = 1_000;
const PAGE: usize = 2_000;
/// How long to wait for a delivery before we reopen the next digest. The workflow rejects it before.
const DELIVERY: Duration = Duration::from_mins(1);
const UNTIL_HELD: Duration = Duration::from_secs(30);
const NOT_HELD: &str = "its key was on hold, which cannot be brought back; `tidings digest reopen` sends it";

#[derive(Clone, Copy)]
pub struct RunRecovery<'a> {
    pub temporal: &'a Temporal,
    pub events: &'a Client,
    pub task_queue: &'a str,
    pub store: &'a dyn Store,
    pub key: &'a Key,
    /// `None` recovers all of the key's runs which are not resolved yet.
    pub run_id: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    pub run_id: String,
    /// How the run ended: `terminated`, `timed out` or `failed`.
    pub ended: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EndedRun>,
    /// The run's hold, which the key has again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldCommand>,
    /// The key's unfinished digests: the one in delivery and the one for its open window. Excludes a later
    /// run's digests.
    pub digests: Vec<OpenDigest>,
    pub events: u64,
    pub retracts: u64,
    /// Events returned by failed digests. They open a window (rule 25).
    pub returned: u64,
    /// Earlier runs with unread events but deleted histories. These events are lost.
    pub gone: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndedRun {
    pub run_id: String,
    pub ended: &'static str,
    #[serde(skip)]
    trouble: RunTrouble,
    #[serde(skip)]
    since: Timestamp,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct OpenDigest {
    pub digest_id: Uuid,
    pub events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl RecoveryReport {
    #[must_use]
    pub fn incomplete_reason(&self) -> Option<String> {
        let refused = self.digests.iter().find_map(|digest| Some((digest.digest_id, digest.refused.as_ref()?)));
        let gone = self.gone.first().map(|run| format!("Temporal has no history of run {run} any more"));
        refused.map(|(digest, why)| format!("digest {digest}: {why}")).or(gone)
    }
}

#[derive(Clone, Copy)]
enum HistoryPass {
    Counted,
    Emitted,
}

#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("{0}: Temporal has no such run, or has deleted it")]
    NoSuchRun(Key),
    #[error("{key}: run {run_id} {why}")]
    NotNeeded { key: Key, run_id: String, why: &'static str },
    #[error(
        "{key}: its last run {run_id} {why}, and no earlier run waits for a recovery; name one with --run to recover it again"
    )]
    NothingLeft { key: Key, run_id: String, why: &'static str },
    #[error("run {run_id} is only partly recovered; recover the run again")]
    Unfinished { run_id: String, source: Box<Self> },
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Emit(#[from] tidings_client::EmitError),
    #[error("Temporal does not describe the run")]
    Describe(#[from] WorkflowInteractionError),
    #[error("Temporal does not list the key's runs")]
    List(#[from] ClientError),
    #[error(transparent)]
    History(#[from] StepError),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error(transparent)]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Invalid(#[from] tidings_model::limits::InvalidField),
}

impl RunRecovery<'_> {
    /// Previews [`RunRecovery::run`].
    ///
    /// # Errors
    /// If no run needs a recovery, the history is gone, or Temporal, the store or a worker fails.
    pub async fn dry_run(&self) -> Result<RecoveryReport, RecoverError> {
        let runs = self.runs_to_recover().await?;
        let mut recovered = self.assess_runs(&runs).await?;
        self.read_histories(&mut recovered, HistoryPass::Counted).await?;
        Ok(recovered)
    }

    /// Restores the hold, reopens unfinished digests, then emits the runs' events again and one event
    /// returned by failed digests. Digests come first, otherwise another one could claim their events.
    /// Running this twice is safe because duplicates change nothing (rule 3). A late write from the old run
    /// joins the window of these events ([`Ledger::stash`](tidings_store::Ledger::stash_events)). A complete
    /// recovery resolves the runs in trouble.
    ///
    /// # Errors
    /// As for [`RunRecovery::dry_run`].
    pub async fn run(&self, order: &CommandContext, resolution: RunResolution) -> Result<RecoveryReport, RecoverError> {
        let runs = self.runs_to_recover().await?;
        for run in runs.iter().filter(|run| !run.trouble.is_end()) {
            self.terminate(run, order).await?;
        }
        let mut recovered = self.assess_runs(&runs).await?;
        self.audit(order).await?;
        let first = self.read_histories(&mut recovered, HistoryPass::Counted).await?;
        if let Err(error) = Box::pin(self.reopen_and_emit(&mut recovered, first, order)).await {
            return Err(RecoverError::Unfinished { run_id: recovered.run_id, source: Box::new(error) });
        }
        let left = recovered.incomplete_reason();
        for EndedRun { run_id, trouble, since, .. } in runs {
            let id = RunId { workflow_id: self.key.workflow_id(), run_id };
            if let Some(why) = &left {
                self.store.list_run(&id, None, why, None).await?;
            } else {
                let run = FoundRun { id, trouble, since };
                self.store.resolve_run(&run, self.task_queue, resolution, None, Timestamp::now()).await?;
            }
        }
        Ok(recovered)
    }

    async fn reopen_and_emit(
        &self,
        recovered: &mut RecoveryReport,
        first: Option<Event>,
        order: &CommandContext,
    ) -> Result<(), RecoverError> {
        let returned = self.store.returned_event(self.key).await?;
        let hold = recovered.hold.clone();
        let held = match &hold {
            Some(hold) => self.restore_hold(hold, first.or_else(|| returned.clone())).await?,
            None => false,
        };
        for digest in &mut recovered.digests {
            if hold.is_some() && !held {
                digest.refused = Some(NOT_HELD.to_owned());
                continue;
            }
            self.until_delivered().await?;
            let reopen = ReopenCommand { order: order.clone(), digest_id: digest.digest_id, may_duplicate: false };
            digest.refused = self.commands().digest(self.key).reopen(reopen).await?.refused;
        }
        let (events, retracts, gone) = (recovered.events, recovered.retracts, mem::take(&mut recovered.gone));
        self.read_histories(recovered, HistoryPass::Emitted).await?;
        (recovered.events, recovered.retracts, recovered.gone) = (events, retracts, gone);
        // The ledger already has this event. Sending it only makes the workflow pick up all returned events.
        self.emit_page(RunInput { events: returned.into_iter().collect(), ..RunInput::default() }).await?;
        if let Some(hold) = hold.filter(|_| !held) {
            self.commands().digest(self.key).hold(hold).await?;
        }
        Ok(())
    }

    /// Puts the key on hold before anything is sent. A run ignores a hold without events, so we start one
    /// with an event and delay its first workflow task. Returns `false` without an event.
    async fn restore_hold(&self, hold: &HoldCommand, event: Option<Event>) -> Result<bool, RecoverError> {
        if self.live_status().await?.is_none() {
            let Some(event) = event else { return Ok(false) };
            let InboxItem { json, kind, .. } = InboxItem::from_wire_event(event_of(self.key, &event)?)?;
            let items = [(kind, json.as_str())];
            start_later(self.temporal, self.task_queue, self.key, items, UNTIL_HELD, Uuid::new_v4()).await?;
        }
        Ok(self.commands().digest(self.key).hold(hold.clone()).await? != HoldResult::default())
    }

    async fn runs_to_recover(&self) -> Result<Vec<EndedRun>, RecoverError> {
        let described = match self
            .workflow(self.run_id)
            .describe(WorkflowDescribeOptions::default())
            .instrument(self.describe_span())
            .await
        {
            Err(WorkflowInteractionError::NotFound(refusal)) => {
                check_namespace(&refusal)?;
                None
            }
            described => Some(described?),
        };
        let last = described.as_ref().map(|run| self.classify_run(run));
        if self.run_id.is_some() {
            let (run, last) = described.zip(last).ok_or_else(|| RecoverError::NoSuchRun(self.key.clone()))?;
            let not_needed =
                |why| RecoverError::NotNeeded { key: self.key.clone(), run_id: run.run_id().to_owned(), why };
            return Ok(vec![last.map_err(not_needed)?]);
        }
        let workflow_id = self.key.workflow_id();
        // Visibility lags, so the last run may be missing here.
        let query = format!("WorkflowId = '{workflow_id}' AND ExecutionStatus IN ('Terminated', 'TimedOut', 'Failed')");
        let found = visibility::list(self.temporal, query, RUNS).instrument(self.list_span()).await?;
        let mut runs: Vec<_> = found.iter().filter_map(listed).collect();
        runs.extend(last.clone().and_then(Result::ok));
        let resolved = self.store.resolved_runs(&workflow_id).await?;
        runs.retain(|run| !resolved.contains(&run.run_id));
        runs.sort_by(|a, b| (a.since, &a.run_id).cmp(&(b.since, &b.run_id)));
        runs.dedup_by(|a, b| a.run_id == b.run_id);
        match (runs.is_empty(), described) {
            (false, _) => Ok(runs),
            (true, None) => Err(RecoverError::NoSuchRun(self.key.clone())),
            (true, Some(run)) => {
                let why = last.and_then(Result::err).unwrap_or("was recovered or dismissed");
                Err(RecoverError::NothingLeft { key: self.key.clone(), run_id: run.run_id().to_owned(), why })
            }
        }
    }

    fn classify_run(&self, run: &WorkflowExecutionDescription) -> Result<EndedRun, &'static str> {
        let (trouble, ended) = match bad_end(run.status()) {
            Err(_) if run.workflow_type() != names::WORKFLOW_TYPE && is_open(run.status()) => {
                (RunTrouble::WrongType, "of another workflow type")
            }
            Err(_) if run.task_queue() != self.task_queue && is_open(run.status()) => {
                (RunTrouble::WrongQueue, "of another task queue")
            }
            end => end?,
        };
        let since = run.close_time().or_else(|| run.start_time()).and_then(|at| Timestamp::try_from(at).ok());
        Ok(EndedRun { run_id: run.run_id().to_owned(), ended, trouble, since: since.unwrap_or_else(Timestamp::now) })
    }

    async fn assess_runs(&self, runs: &[EndedRun]) -> Result<RecoveryReport, RecoverError> {
        let Self { store, key, .. } = self;
        let Some((last, earlier)) = runs.split_last() else {
            return Err(RecoverError::NoSuchRun((*key).clone()));
        };
        // A dry run does not terminate the run, and such a run cannot respond to a query.
        let live = if last.trouble.is_end() { self.live_status().await? } else { None };
        let of_a_later_run: Vec<_> = live
            .iter()
            .flat_map(|status| [status.digest_id, status.delivering.as_ref().map(|delivery| delivery.digest_id)])
            .flatten()
            .collect();
        let digests = store.digests(key, DIGESTS).await?.into_iter();
        // A digest without events is a late write from an already recovered run.
        let digests = digests.filter(|digest| digest.closed.is_none() && digest.items > 0);
        let digests = digests.filter(|digest| !of_a_later_run.contains(&digest.digest_id));
        let digests = digests.map(|open| OpenDigest { digest_id: open.digest_id, events: open.items, refused: None });
        let hold = hold_of(self.temporal.clone(), key, &last.run_id, Timestamp::now()).await?;
        Ok(RecoveryReport {
            run_id: last.run_id.clone(),
            ended: last.ended,
            earlier: earlier.to_vec(),
            // Do not replace a later run's own hold.
            hold: hold.filter(|_| live.as_ref().is_none_or(|status| status.hold.is_none())),
            digests: digests.collect(),
            events: 0,
            retracts: 0,
            returned: store.returned_events(key).await?.map_or(0, |returned| returned.event_count()),
            gone: Vec::new(),
        })
    }

    async fn terminate(&self, run: &EndedRun, order: &CommandContext) -> Result<(), RecoverError> {
        let reason = format!("tidings recover, by {}: {}", order.by, order.why);
        let options = WorkflowTerminateOptions::builder().reason(reason).build();
        let span = debug_span!("temporal", call = "terminate", key = %self.key, run = run.run_id);
        Ok(self.workflow(Some(&run.run_id)).terminate(options).instrument(span).await?)
    }

    fn workflow(&self, run_id: Option<&str>) -> UntypedWorkflowHandle<Temporal> {
        let execution = WorkflowExecutionInfo::builder()
            .namespace(self.temporal.namespace())
            .workflow_id(self.key.workflow_id())
            .maybe_run_id(run_id)
            .build();
        execution.bind_untyped(self.temporal.clone())
    }

    fn commands(&self) -> WorkflowCommands {
        WorkflowCommands::new(self.temporal.clone(), self.task_queue)
    }

    fn describe_span(&self) -> Span {
        debug_span!("temporal", call = "describe", key = %self.key)
    }

    fn list_span(&self) -> Span {
        debug_span!("temporal", call = "list_workflows", key = %self.key)
    }

    async fn audit(&self, CommandContext { by, why }: &CommandContext) -> Result<(), RecoverError> {
        let note = AuditNote { at: Timestamp::now(), by: by.clone(), action: "recover".to_owned(), why: why.clone() };
        Ok(self.store.record_audit(&AuditInput { key: self.key.clone(), notes: vec![note] }).await?)
    }

    /// A key delivers at most one digest at a time.
    async fn until_delivered(&self) -> Result<(), RecoverError> {
        let until = Timestamp::now() + DELIVERY;
        while let Some(delivery) = self.live_status().await?.and_then(|status| status.delivering) {
            if !may_end(delivery.next_attempt_at, Timestamp::now(), until) {
                break;
            }
            sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    async fn live_status(&self) -> Result<Option<DigestStatus>, RecoverError> {
        let workflow = self.temporal.get_workflow_handle::<UntypedWorkflow>(self.key.workflow_id());
        let run = workflow.describe(WorkflowDescribeOptions::default()).instrument(self.describe_span()).await?;
        if !is_open(run.status()) {
            return Ok(None);
        }
        Ok(self.commands().digest(self.key).status().await?)
    }

    /// Counts events and retracts in these runs, and in earlier ones they left unread. Returns the first
    /// event.
    async fn read_histories(
        &self,
        recovered: &mut RecoveryReport,
        pages: HistoryPass,
    ) -> Result<Option<Event>, RecoverError> {
        let mut first = None;
        let mut runs = vec![recovered.run_id.clone()];
        runs.extend(recovered.earlier.iter().rev().map(|run| run.run_id.clone()));
        let mut seen = BTreeSet::new();
        let mut page = RunInput::default();
        while let Some(run) = runs.pop() {
            if !seen.insert(run.clone()) {
                continue;
            }
            let mut history = pin!(run_inputs(self.temporal.clone(), self.key, &run));
            loop {
                let RunInput { events, retracts, runs: earlier } = match history.try_next().await {
                    Ok(Some(told)) => told,
                    Ok(None) => break,
                    Err(StepError::HistoryGone { run }) if run != recovered.run_id => {
                        recovered.gone.push(run);
                        break;
                    }
                    Err(error) => return Err(error.into()),
                };
                runs.extend(earlier);
                recovered.events += events.len() as u64;
                recovered.retracts += retracts.len() as u64;
                first = first.or_else(|| events.first().cloned());
                page.events.extend(events);
                page.retracts.extend(retracts);
                if page.events.len() + page.retracts.len() >= PAGE {
                    self.handle_page(pages, mem::take(&mut page)).await?;
                }
            }
        }
        self.handle_page(pages, page).await?;
        Ok(first)
    }

    async fn handle_page(&self, pages: HistoryPass, page: RunInput) -> Result<(), RecoverError> {
        match pages {
            HistoryPass::Counted => Ok(()),
            HistoryPass::Emitted => self.emit_page(page).await,
        }
    }

    async fn emit_page(&self, page: RunInput) -> Result<(), RecoverError> {
        let events = page.events.iter().map(|event| event_of(self.key, event)).collect::<Result<Vec<_>, _>>()?;
        let budget = ByteBudget::default();
        let events = events.into_iter().map(|event| budget.emit(self.events, event));
        // A workflow would treat a retract by id as a new one. The ledger keeps its original time.
        let is_dated = |retract: &Retract| matches!(retract, Retract::EventUntil { .. });
        let (dated, retracts): (Vec<_>, Vec<_>) = page.retracts.into_iter().partition(is_dated);
        if !dated.is_empty() {
            self.store.put_retracts(self.key, &dated, Timestamp::now()).await?;
        }
        let retracts = retracts.into_iter().map(|retract| self.events.retract(retract_of(self.key, retract)));
        try_join(try_join_all(events), try_join_all(retracts)).await?;
        Ok(())
    }
}

fn bad_end(status: WorkflowExecutionStatus) -> Result<(RunTrouble, &'static str), &'static str> {
    match status {
        WorkflowExecutionStatus::Terminated => Ok((RunTrouble::Terminated, "terminated")),
        WorkflowExecutionStatus::TimedOut => Ok((RunTrouble::TimedOut, "timed out")),
        WorkflowExecutionStatus::Failed => Ok((RunTrouble::Failed, "failed")),
        WorkflowExecutionStatus::Completed => Err("completed and left nothing behind"),
        WorkflowExecutionStatus::Canceled => {
            Err("was cancelled, and the ledger has all its events (`tidings digest reopen` sends a digest of the run)")
        }
        _ => Err("is still running"),
    }
}

const fn is_open(status: WorkflowExecutionStatus) -> bool {
    matches!(status, WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused)
}

fn listed(run: &WorkflowExecution) -> Option<EndedRun> {
    let (trouble, ended) = bad_end(run.status()).ok()?;
    let since = Timestamp::try_from(run.close_time()?).ok()?;
    Some(EndedRun { run_id: run.run_id().to_owned(), ended, trouble, since })
}

/// `next_attempt_at` is `None` during an attempt, and stays in the past for a digest on hold.
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
        Retract::Event(event_id) | Retract::EventUntil { event_id, .. } => v1::Retract { event_id, ..wire },
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
                (Ok((_, ended)), Ok(expected)) => assert_eq!(ended, expected),
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
