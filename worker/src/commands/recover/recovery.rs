//! Finds the run, reopens what it had on its way, and emits again what it was told. Its terminal is elsewhere.

use std::{collections::BTreeSet, mem, pin::pin, time::Duration};

use anyhow::{Context as _, bail};
use futures::{
    TryStreamExt as _,
    future::{try_join, try_join_all},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use temporalio_client::{
    Client as Temporal, NamespacedClient as _, WorkflowDescribeOptions, WorkflowExecutionInfo, WorkflowExecutionStatus,
    WorkflowQueryOptions, errors::WorkflowInteractionError,
};
use tidings_activities::{Error, namespace, read_back::told};
use tidings_client::{Client, v1};
use tidings_model::{
    Event, Key, Retract,
    command::{Order, Reopen},
    contract::{AuditInput, Note},
};
use tidings_store::Store;
use tidings_workflows::{Delivery, Digest, Told};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::{byte_budget::Room, key_workflow::PATIENCE};

/// Digests of a key that are looked at; of those without an end there are hardly more than two.
const DIGESTS: u32 = 1_000;
/// Events and retracts on their way at once.
const PAGE: usize = 2_000;
/// How long one digest may be on its way before the next is asked for; the workflow refuses it, if that was too soon.
const DELIVERY: Duration = Duration::from_secs(60);

/// What a recovery works with.
#[derive(Clone, Copy)]
pub struct Recovery<'a> {
    /// Where the history is.
    pub temporal: &'a Temporal,
    /// What hands the events over again.
    pub events: &'a Client,
    /// Where the digests are.
    pub store: &'a dyn Store,
    /// Whose events.
    pub key: &'a Key,
    /// The run that came to a bad end; `None`: the latest.
    pub run_id: Option<&'a str>,
}

/// What a recovery did, or would do.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// The run.
    pub run_id: String,
    /// How it ended: `terminated`, `timed out` or `failed`.
    pub ended: &'static str,
    /// The key's digests without an end, but for one that a later run has on its way.
    pub digests: Vec<OpenDigest>,
    /// Events in the run's history, as often as they are there.
    pub events: u64,
    /// Retracts there.
    pub retracts: u64,
    /// Earlier runs that left theirs unread, and whose histories Temporal has no more: what only they were told is lost.
    pub gone: Vec<String>,
}

/// A digest that nobody ended.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct OpenDigest {
    /// Which one.
    pub digest_id: Uuid,
    /// Its events.
    pub events: u64,
    /// Why it was not taken up again, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Recovery<'_> {
    /// Says what [`Recovery::run`] would do.
    ///
    /// # Errors
    /// The run came to no bad end, its history is gone, or Temporal or the store do not answer; or a later run goes on
    /// and no worker answers.
    pub async fn dry_run(&self) -> anyhow::Result<Recovered> {
        let mut recovered = self.find().await?;
        self.read(&mut recovered, async |_| Ok(())).await?;
        Ok(recovered)
    }

    /// Reopens the key's digests without an end first, so that nobody claims what they hold, and then emits the run's
    /// events again. What the ledger knows changes nothing (rule 3): all of it may be done twice. What a call of the run
    /// writes later still, the window of these events takes over ([`Store::stash`]).
    ///
    /// # Errors
    /// As for [`Recovery::dry_run`]; or no worker answers.
    pub async fn run(&self, order: &Order) -> anyhow::Result<Recovered> {
        let mut recovered = self.find().await?;
        let again = format!("once more: tidings recover {} --run {} --why ...", self.key, recovered.run_id);
        self.audit(order).await?;
        for digest in &mut recovered.digests {
            self.until_delivered().await.with_context(|| again.clone())?;
            let reopen = Reopen { order: order.clone(), digest_id: digest.digest_id, may_duplicate: false };
            let asking = timeout(PATIENCE, self.events.reopen(self.key, reopen)).await;
            let reopened = asking.with_context(|| self.silent()).and_then(|answer| Ok(answer?));
            digest.refused = reopened.with_context(|| again.clone())?.refused;
        }
        self.read(&mut recovered, async |page| self.emit(page).await).await.with_context(|| again)?;
        Ok(recovered)
    }

    async fn find(&self) -> anyhow::Result<Recovered> {
        let Self { temporal, store, key, .. } = self;
        let execution = WorkflowExecutionInfo::builder()
            .namespace(temporal.namespace())
            .workflow_id(key.workflow_id())
            .maybe_run_id(self.run_id)
            .build();
        let run = match execution.bind_untyped((*temporal).clone()).describe(WorkflowDescribeOptions::default()).await {
            Err(WorkflowInteractionError::NotFound(refusal)) => {
                namespace::is_there(&refusal)?;
                bail!("{key}: Temporal has no such run (any more)")
            }
            run => run.context("Temporal does not describe the run")?,
        };
        let ended = bad_end(run.status()).map_err(|why| anyhow::anyhow!("{key}: run {} {why}", run.run_id()))?;
        let on_its_way = self.on_its_way().await?.map(|delivery| delivery.digest_id);
        let digests = store.digests(key, DIGESTS).await?.into_iter();
        // One without events is a call that came through after its run was recovered.
        let digests = digests.filter(|digest| digest.closed.is_none() && digest.items > 0);
        let digests = digests.filter(|digest| Some(digest.digest_id) != on_its_way);
        let digests = digests.map(|open| OpenDigest { digest_id: open.digest_id, events: open.items, refused: None });
        let (run_id, digests) = (run.run_id().to_owned(), digests.collect());
        Ok(Recovered { run_id, ended, digests, events: 0, retracts: 0, gone: Vec::new() })
    }

    async fn audit(&self, Order { by, why }: &Order) -> anyhow::Result<()> {
        let note = Note { at: Timestamp::now(), by: by.clone(), action: "recover".to_owned(), why: why.clone() };
        Ok(self.store.audit(&AuditInput { key: self.key.clone(), notes: vec![note] }).await?)
    }

    /// A key has at most one digest on its way.
    async fn until_delivered(&self) -> anyhow::Result<()> {
        let until = Timestamp::now() + DELIVERY;
        while let Some(delivery) = self.on_its_way().await? {
            if !may_end(delivery.next_attempt_at, Timestamp::now(), until) {
                break;
            }
            sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// What a run that goes on has on its way.
    async fn on_its_way(&self) -> anyhow::Result<Option<Delivery>> {
        let workflow = self.temporal.get_workflow_handle::<Digest>(self.key.workflow_id());
        let run = workflow.describe(WorkflowDescribeOptions::default()).await?;
        if run.status() != WorkflowExecutionStatus::Running {
            return Ok(None);
        }
        let asking = workflow.query(Digest::status, (), WorkflowQueryOptions::default());
        let answer = timeout(PATIENCE, asking).await.with_context(|| self.silent())?;
        Ok(answer.with_context(|| self.silent())?.delivering)
    }

    fn silent(&self) -> String {
        format!("{} does not answer; is a worker running?", self.key)
    }

    /// Counts what the run was told, with what earlier runs had left to it unread, and hands it on in pages.
    async fn read(
        &self,
        recovered: &mut Recovered,
        mut take: impl AsyncFnMut(Told) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut runs = vec![recovered.run_id.clone()];
        let mut seen = BTreeSet::new();
        let mut page = Told::default();
        while let Some(run) = runs.pop() {
            // Several runs may point to one.
            if !seen.insert(run.clone()) {
                continue;
            }
            let mut history = pin!(told(self.temporal.clone(), self.key, &run));
            loop {
                let Told { events, retracts, runs: earlier } = match history.try_next().await {
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

    async fn emit(&self, page: Told) -> anyhow::Result<()> {
        let events = page.events.iter().map(|event| event_of(self.key, event)).collect::<Result<Vec<_>, _>>()?;
        let room = Room::new();
        let events = events.into_iter().map(|event| room.emit(self.events, event));
        let retracts = page.retracts.into_iter().map(|retract| self.events.retract(retract_of(self.key, retract)));
        try_join(try_join_all(events), try_join_all(retracts)).await?;
        Ok(())
    }
}

/// How a run ended that needs a recovery; or why it needs none.
fn bad_end(status: WorkflowExecutionStatus) -> Result<&'static str, &'static str> {
    match status {
        WorkflowExecutionStatus::Terminated => Ok("terminated"),
        WorkflowExecutionStatus::TimedOut => Ok("timed out"),
        WorkflowExecutionStatus::Failed => Ok("failed"),
        WorkflowExecutionStatus::Completed => {
            Err("came to its end by itself and left nothing behind; --run names an earlier one that was terminated")
        }
        WorkflowExecutionStatus::Canceled => {
            Err("was cancelled, and all of it is in the ledger; `tidings digest reopen` takes a digest of it up again")
        }
        _ => Err("goes on; --run names an earlier one that was terminated"),
    }
}

/// Whether it is worth while to wait for a digest. Its next attempt may be too far away, and that of one on hold stays in the
/// past; without one an attempt is under way.
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
    fn only_a_run_that_came_to_a_bad_end_is_recovered() {
        for (status, says) in [
            (WorkflowExecutionStatus::Terminated, Ok("terminated")),
            (WorkflowExecutionStatus::TimedOut, Ok("timed out")),
            (WorkflowExecutionStatus::Failed, Ok("failed")),
            (WorkflowExecutionStatus::Running, Err("goes on")),
            (WorkflowExecutionStatus::ContinuedAsNew, Err("goes on")),
            (WorkflowExecutionStatus::Completed, Err("came to its end by itself")),
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
    fn a_digest_on_its_way_is_waited_for_unless_its_attempt_is_far_away_and_never_for_ever() {
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
    fn what_is_emitted_again_is_what_was_read() {
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
