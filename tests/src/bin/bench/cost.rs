//! What does a digest cost: history events and bytes, workflow tasks, and the actions that Temporal Cloud would count?

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use futures::future::try_join_all;
use temporalio_client::WorkflowFetchHistoryOptions;
use temporalio_common::protos::temporal::api::history::v1::{HistoryEvent, history_event::Attributes};
use tidings_tests::{
    spent::Spent,
    stage::{Running, Stage, event, eventually, key, settings, signal},
};
use tidings_workflows::{Inbound, Key, names};
use tokio::sync::watch;

use crate::{
    Rounds,
    figure::{Figure, Target, count},
    shapes::{CADENCE, Shape},
};

/// Longer than any of these digests takes.
const DEADLINE: Duration = Duration::from_mins(3);
const MILLION: f64 = 1e6;

/// History, workflow tasks and actions of a digest; compared with a signal and a re-armed timer for each event, and with
/// load, render and send as remote activities.
#[derive(Args)]
pub struct Cost {
    /// In the digest.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000])]
    events: Vec<usize>,
}

impl Cost {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for round in 0..rounds.count {
            rounds.say(round, "events at once, through the client");
            let burst = self.ours(true).await?;
            rounds.say(round, "events one after the other");
            let apart = self.ours(false).await?;
            rounds.say(round, "a signal and a re-armed timer for each event");
            let naive = self.naive().await?;
            for (at, events) in self.events.iter().enumerate() {
                for (how, ours) in [("at once", &burst[at]), ("one by one", &apart[at])] {
                    for (n, (what, value, baseline)) in beside(ours, &naive[at]).into_iter().enumerate() {
                        let figure = || {
                            let figure = Figure::new(format!("{events} events {how}"), what);
                            let budget = [24.0, f64::INFINITY, 3.0].get(n).copied().unwrap_or(f64::INFINITY);
                            let figure = figure.against("a timer re-armed by each event");
                            if *events == 1 && budget.is_finite() {
                                figure.target(Target::AtMost(budget))
                            } else {
                                figure
                            }
                        };
                        put(&mut figures, figure(), value, baseline);
                    }
                }
            }
        }
        Ok(figures)
    }

    /// The cost of a digest of Tidings for each number of events.
    async fn ours(&self, at_once: bool) -> Result<Vec<Spent>> {
        let stage = Stage::start(settings(CADENCE, CADENCE)).await?;
        let feed = self.events.iter().map(|events| feed(&stage, *events, at_once));
        try_join_all(feed).await?;
        self.spent(&stage).await
    }

    /// The same of a workflow that arms its timer anew for each event.
    async fn naive(&self) -> Result<Vec<Spent>> {
        let stage = Stage::without_worker(settings(CADENCE, CADENCE)).await?;
        let (sent, _) = watch::channel(0);
        let worker = Running::start(stage.temporal.clone(), Shape::Rearmed.worker(names::TASK_QUEUE, sent)?)?;
        let feed = self.events.iter().map(|events| feed(&stage, *events, false));
        try_join_all(feed).await?;
        let spent = self.spent(&stage).await?;
        worker.stop()?;
        Ok(spent)
    }

    async fn spent(&self, stage: &Stage) -> Result<Vec<Spent>> {
        let mut all = Vec::new();
        for events in &self.events {
            let key = user(*events);
            eventually("the digest is sent", DEADLINE, async || Ok(stage.is_idle(&key).await?.then_some(()))).await?;
            all.push(Spent::of(&histories(stage, &key).await?)?);
        }
        Ok(all)
    }
}

/// The histories of all runs of the key, latest first.
async fn histories(stage: &Stage, key: &Key) -> Result<Vec<HistoryEvent>> {
    let (mut all, mut run) = (Vec::new(), None::<String>);
    loop {
        let handle = stage.run_handle(key, run.as_deref());
        let history = handle.fetch_history(WorkflowFetchHistoryOptions::default()).into_events().await?;
        let started = history.first().and_then(|event| event.attributes.as_ref());
        let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) = started else {
            bail!("a history that does not begin with a start")
        };
        run = Some(started.continued_execution_run_id.clone()).filter(|run| !run.is_empty());
        all.extend(history);
        if run.is_none() {
            return Ok(all);
        }
    }
}

/// The key that gets so many events.
fn user(events: usize) -> Key {
    key("activity", &format!("user-{events}"))
}

/// All at once through the client, or one signal after the other.
async fn feed(stage: &Stage, events: usize, at_once: bool) -> Result<()> {
    let key = user(events);
    let ids = (0..events).map(|n| format!("e{n}"));
    if at_once {
        try_join_all(ids.map(|id| stage.events.emit(event(&key, &id)))).await?;
        return Ok(());
    }
    for id in ids {
        let event = serde_json::to_string(&event(&key, &id))?;
        signal(&stage.temporal, &key, Inbound::from_json_events([event.as_str()])).await?;
    }
    Ok(())
}

/// Adds a round to the figure of that name, or the figure.
fn put(figures: &mut Vec<Figure>, new: Figure, value: f64, baseline: f64) {
    let at = figures.iter().position(|figure| (&figure.what, &figure.unit) == (&new.what, &new.unit));
    let at = at.unwrap_or_else(|| {
        figures.push(new);
        figures.len() - 1
    });
    figures[at].push_both(value, baseline);
}

/// Each cost with its name, beside another's.
fn beside(ours: &Spent, other: &Spent) -> [(&'static str, f64, f64); 5] {
    let actions = (count(ours.actions), count(other.actions));
    [
        ("history events", count(ours.events), count(other.events)),
        ("bytes of history", count(ours.bytes), count(other.bytes)),
        ("workflow tasks", count(ours.tasks), count(other.tasks)),
        ("actions", actions.0, actions.1),
        ("actions for a million digests", actions.0 * MILLION, actions.1 * MILLION),
    ]
}
