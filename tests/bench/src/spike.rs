//! Checks that time, memory and history of one window grow no faster than the number of its events.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use temporalio_client::{WorkflowExecuteUpdateOptions, WorkflowListOptions};
use tidings_harness::{
    env::{event, key},
    wait::eventually,
};
use tidings_model::command::CommandContext;
use tidings_workflows::Digest;

use crate::{
    figure::{Figure, Target, count},
    rounds::Rounds,
    worker::{Tidings, user},
};

/// The window stays open until it is flushed.
const CADENCE: &str = "after 1d";
/// Concurrent calls of `emit`.
const AT_ONCE: usize = 20_000;
/// Groups that the events form in the email, before it is cut.
const ENTITIES: usize = 997;
/// Time for the visibility store, which lags.
const LISTED: Duration = Duration::from_mins(1);
/// Budgets for 100,000 events: memory in MiB, and events of a run's history.
const MEMORY: f64 = 256.0;
const HISTORY: f64 = 10_000.0;

/// This many events for one key in one window: time, memory and history; compared with one event, and with the smallest
/// of the larger spikes
#[derive(Args)]
pub struct Spike {
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1_000, 10_000, 100_000])]
    events: Vec<usize>,
}

impl Spike {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut sizes: Vec<_> = self.events.iter().copied().filter(|events| *events > 1).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let smallest = sizes.first().copied().unwrap_or(1);
        let mut alone = Figure::new("1 event, emitted to mailed", "s");
        let mut spikes: Vec<_> = sizes.iter().map(|events| Figures::of(*events, smallest)).collect();
        for round in 0..rounds.count {
            rounds.say(round, "1 event");
            let one = measured(1).await?;
            alone.push(one.seconds);
            let mut slowest = None;
            for figures in &mut spikes {
                rounds.say(round, &format!("{} events", figures.events));
                let many = measured(figures.events).await?;
                figures.push(&many, &one, *slowest.get_or_insert(many.rate()));
            }
        }
        Ok([alone].into_iter().chain(spikes.into_iter().flat_map(Figures::all)).collect())
    }
}

/// The result of one size.
struct Figures {
    events: usize,
    seconds: Figure,
    rate: Figure,
    memory: Figure,
    history: Figure,
}

impl Figures {
    fn of(events: usize, smallest: usize) -> Self {
        let figure = |what: &str, unit: &str| Figure::new(format!("{events} events, {what}"), unit);
        let rate = figure("emitted to mailed", "events/s");
        Self {
            events,
            seconds: figure("emitted to mailed", "s").against("1 event"),
            rate: if events == smallest { rate } else { rate.against(&format!("{smallest} events")) },
            memory: figure("the worker's peak memory", "MiB").against("1 event").target(Target::AtMost(MEMORY)),
            history: figure("the longest history of a run", "history events")
                .against("1 event")
                .target(Target::AtMost(HISTORY)),
        }
    }

    fn push(&mut self, many: &Measured, one: &Measured, smallest: f64) {
        self.seconds.push_both(many.seconds, one.seconds);
        self.rate.push_both(many.rate(), smallest);
        self.memory.push_both(many.memory, one.memory);
        self.history.push_both(count(many.history), count(one.history));
    }

    fn all(self) -> [Figure; 4] {
        [self.seconds, self.rate, self.memory, self.history]
    }
}

struct Measured {
    events: usize,
    /// Seconds from the first emit to the email.
    seconds: f64,
    /// The worker's peak memory, in MiB.
    memory: f64,
    /// The length of the longest history.
    history: usize,
}

impl Measured {
    fn rate(&self) -> f64 {
        count(self.events) / self.seconds
    }
}

/// Emits, flushes and waits for the email, on a new server with a new worker.
async fn measured(events: usize) -> Result<Measured> {
    let mut tidings = Tidings::start(CADENCE, Duration::ZERO).await?;
    tidings.start_worker()?;
    // The worker is ready once it has planned the window of another key, which stays open.
    tidings.open(1..2).await?;
    let key = key("activity", &user(0));
    let emit = |n: usize| {
        let mut event = event(&key, &format!("e{n}"));
        event.entity_id = format!("p{}", n % ENTITIES);
        tidings.events.emit(event)
    };
    let started = Instant::now();
    stream::iter(0..events).map(emit).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let order = CommandContext { by: "bench".to_owned(), why: "every event is emitted".to_owned() };
    tidings.workflow(0).execute_update(Digest::flush, order.into(), WorkflowExecuteUpdateOptions::default()).await?;
    tidings.sent(1, |_| ()).await?;
    let seconds = started.elapsed().as_secs_f64();
    let history = longest_history(&tidings).await?;
    let mails = *tidings.sink.accepted().borrow();
    let kept = tidings.ledger.count("SELECT COUNT(*) FROM events").await?;
    ensure!(mails == 1 && kept == i64::try_from(events)?, "{events} events: {mails} mails, {kept} in the ledger");
    Ok(Measured { events, seconds, memory: tidings.peak_memory()?, history })
}

/// The number of events in the longest history of the key's runs, once all of them are listed as closed.
async fn longest_history(tidings: &Tidings) -> Result<usize> {
    let query = format!("WorkflowId = '{}'", key("activity", &user(0)).workflow_id());
    let longest = eventually("every run is listed as closed", LISTED, async || {
        let runs = tidings.temporal.list_workflows(&query, WorkflowListOptions::default());
        let lengths: Vec<_> = runs.map_ok(|run| run.history_length()).try_collect().await?;
        // An open run is listed without the length of its history.
        Ok(lengths.iter().all(|length| *length > 0).then_some(lengths.into_iter().max()).flatten())
    });
    usize::try_from(longest.await?).context("a history of less than no events")
}
