//! Counts the cost of a digest: history events and bytes, workflow tasks, state transitions, and the actions that Temporal
//! Cloud would count.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use futures::future::try_join_all;
use jiff::Timestamp;
use temporalio_client::WorkflowFetchHistoryOptions;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use tidings_harness::{
    cost::{HistoryCost, transitions},
    env::{Env, event, key, settings},
    signals::{json_events, signal},
    wait::eventually,
    worker::Running,
};
use tidings_model::{Key, names};
use tokio::sync::watch;

use crate::{
    figure::{Figure, Target, count},
    rounds::Rounds,
    shapes::{CADENCE, Shape},
    slot::{opening, sleep_until},
};

/// Time limit, longer than any of these digests takes.
const DEADLINE: Duration = Duration::from_mins(3);
const EVENTS: &str = "history events";
const ACTIONS: &str = "actions";
const TASKS: &str = "workflow tasks";
/// The index of a digest of one event.
const BUDGETS: [(&str, f64); 2] = [(EVENTS, 24.0), (TASKS, 3.0)];
/// Rules whose savings are measured.
const PAID_FOR: [&str; 2] = [EVENTS, ACTIONS];

/// History, workflow tasks, state transitions and actions of a digest; compared with a signal and a re-armed timer for
/// each event and with remote activities for load, render and send; and the savings of each rule
#[derive(Args)]
pub struct Cost {
    /// Numbers of events in the digests
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000])]
    events: Vec<usize>,
}

impl Cost {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for round in 0..rounds.count {
            rounds.say(round, "events at once, through the client");
            let batched = self.ours(true).await?;
            rounds.say(round, "a signal for each event");
            let signalled = self.ours(false).await?;
            rounds.say(round, "a signal for each event, and all activities remote");
            let remote = self.of(Shape::Textbook).await?;
            rounds.say(round, "a signal and a re-armed timer for each event, and all activities remote");
            let naive = self.of(Shape::Rearmed).await?;
            for (at, events) in self.events.iter().enumerate() {
                for (what, value, other) in beside(&batched[at], &naive[at]) {
                    let figure = Figure::new(format!("{events} events"), what).against("the naive way");
                    let budget = BUDGETS.iter().find(|(of, _)| *events == 1 && *of == what);
                    let figure = match budget {
                        Some((_, most)) => figure.target(Target::AtMost(*most)),
                        None => figure,
                    };
                    put(&mut figures, figure, value, other);
                }
                for (rule, ours, without, other) in [
                    ("the client's batches", &batched, "a signal for each event", &signalled),
                    ("plan, load and render local", &signalled, "load and render remote", &remote),
                    ("a timer that is armed once", &remote, "armed again by each event", &naive),
                ] {
                    let saved = beside(&ours[at], &other[at]).into_iter().filter(|(what, ..)| PAID_FOR.contains(what));
                    for (what, value, other) in saved {
                        let figure = Figure::new(format!("{events} events, {rule}"), what).against(without);
                        put(&mut figures, figure, value, other);
                    }
                }
            }
        }
        Ok(figures)
    }

    /// Measures Tidings for each number of events.
    async fn ours(&self, at_once: bool) -> Result<Vec<HistoryCost>> {
        let env = Env::start(settings(CADENCE, CADENCE)).await?;
        let feed = self.events.iter().map(|events| feed(&env, *events, at_once));
        try_join_all(feed).await?;
        self.costs(&env).await
    }

    /// Measures another workflow, with one signal for each event.
    async fn of(&self, shape: Shape) -> Result<Vec<HistoryCost>> {
        let env = Env::without_worker(settings(CADENCE, CADENCE)).await?;
        let (sent, _) = watch::channel(0);
        let worker = Running::start(env.temporal.clone(), shape.worker(names::TASK_QUEUE, sent)?)?;
        // Windows at full minutes take longer.
        sleep_until(opening(Timestamp::now())?).await;
        let feed = self.events.iter().map(|events| feed(&env, *events, false));
        try_join_all(feed).await?;
        let spent = self.costs(&env).await?;
        worker.stop()?;
        Ok(spent)
    }

    async fn costs(&self, env: &Env) -> Result<Vec<HistoryCost>> {
        let mut all = Vec::new();
        for events in &self.events {
            let key = user(*events);
            eventually("the digest is sent", DEADLINE, async || Ok(env.is_idle(&key).await?.then_some(()))).await?;
            all.push(spent(env, &key).await?);
        }
        Ok(all)
    }
}

/// The cost of all runs of the key.
async fn spent(env: &Env, key: &Key) -> Result<HistoryCost> {
    let (mut all, mut writes, mut run) = (Vec::new(), 0, None::<String>);
    loop {
        let handle = env.run_handle(key, run.as_deref());
        writes += transitions(&handle).await?;
        let history = handle.fetch_history(WorkflowFetchHistoryOptions::default()).into_events().await?;
        let started = history.first().and_then(|event| event.attributes.as_ref());
        let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) = started else {
            bail!("a history that does not begin with a start")
        };
        run = Some(started.continued_execution_run_id.clone()).filter(|run| !run.is_empty());
        all.extend(history);
        if run.is_none() {
            return HistoryCost::of(&all, writes);
        }
    }
}

/// The key of the digest with this number of events.
fn user(events: usize) -> Key {
    key("activity", &format!("user-{events}"))
}

/// Emits all events at once through the client, or sends one signal after the other.
async fn feed(env: &Env, events: usize, at_once: bool) -> Result<()> {
    let key = user(events);
    let ids = (0..events).map(|n| format!("e{n}"));
    if at_once {
        try_join_all(ids.map(|id| env.events.emit(event(&key, &id)))).await?;
        return Ok(());
    }
    for id in ids {
        let event = serde_json::to_string(&event(&key, &id))?;
        signal(&env.temporal, &key, json_events([event.as_str()])).await?;
    }
    Ok(())
}

/// Adds a round to the figure of this name, or adds the figure.
fn put(figures: &mut Vec<Figure>, new: Figure, value: f64, baseline: f64) {
    let at = figures.iter().position(|figure| (&figure.what, &figure.unit) == (&new.what, &new.unit));
    let at = at.unwrap_or_else(|| {
        figures.push(new);
        figures.len() - 1
    });
    figures[at].push_both(value, baseline);
}

/// Pairs each cost with the other's.
fn beside(ours: &HistoryCost, other: &HistoryCost) -> [(&'static str, f64, f64); 5] {
    [
        (EVENTS, count(ours.events), count(other.events)),
        (ACTIONS, count(ours.actions), count(other.actions)),
        (TASKS, count(ours.tasks), count(other.tasks)),
        ("bytes of history", count(ours.bytes), count(other.bytes)),
        ("state transitions", count(ours.transitions), count(other.transitions)),
    ]
}
