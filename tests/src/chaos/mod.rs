//! A whole Tidings under load, while everything around it breaks by a schedule that follows from a seed; and whether it
//! kept its promises. `./dev chaos` runs it, docs/reliability.md tells of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use jiff::Timestamp;
use tidings_workflows::Key;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

mod act;
mod deal;
mod faults;
mod judge;
mod load;
mod orders;
mod outcome;
mod plan;
mod settings;
mod settle;
mod store;
mod world;

pub use act::Act;
pub use outcome::Outcome;
pub use plan::Plan;
pub use store::Target;

use act::Order;
use load::{Files, Producers};
use orders::Desk;
use world::World;

/// Between two looks at the workers.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a plan in a folder, which stays, and judges it.
///
/// # Errors
/// When it cannot be run at all.
pub async fn run(plan: Plan, folder: &Path, store: Target, bar: &ProgressBar) -> Result<Outcome> {
    let files = Files::new(folder)?;
    let plan = Arc::new(plan);
    let mut world = World::start(&plan, folder, store).await?;
    let mut run = Run {
        files: files.clone(),
        producers: Arc::new(Producers::new(Arc::clone(&plan), world.tidings.clone(), files.clone())),
        desk: Desk { plan: Arc::clone(&plan), tidings: world.tidings.clone(), store: world.store.place() },
        tasks: JoinSet::new(),
        acts: BTreeMap::new(),
        done: BTreeMap::new(),
        kills: 0,
        paused: BTreeSet::new(),
        troubles: Vec::new(),
    };
    run.play(&plan, &mut world, bar).await?;
    bar.set_message("the dust settles");
    run.rest(&mut world, plan.settle_within()).await;
    let open = settle::dust(&mut world, &run.desk, &files, plan.settle_within()).await;
    let open = open.unwrap_or_else(|error| run.trouble(&error));
    bar.set_message("what is open is sent");
    let left = settle::empty(&mut world, &run.desk, &run.paused, plan.settle_within()).await;
    let left: Vec<String> = left.unwrap_or_else(|error| run.trouble(&error));
    run.troubles.extend(left.into_iter().map(|key| format!("does not come to its end: {key}")));
    let stopped = world.stop_workers(plan.settle_within()).await;
    stopped.unwrap_or_else(|error| run.trouble(&error));
    run.troubles.append(&mut world.unexplained);
    run.troubles.extend(judge::logs(folder)?);
    judge::keep(&files, &world).unwrap_or_else(|error| run.trouble(&error));
    let verdict = judge::verdict(&files, &world)?;
    Ok(Outcome {
        seed: plan.seed,
        folder: folder.to_owned(),
        kills: run.kills + run.producers.killed.load(Ordering::Relaxed),
        acts: run.acts,
        done: run.done,
        restarts: world.restarts,
        events: plan.events.len() as u64,
        open: open as u64,
        verdict,
        troubles: run.troubles,
    })
}

struct Run {
    files: Files,
    producers: Arc<Producers>,
    desk: Desk,
    /// What producers and operators do: its name, and whether it had an effect.
    tasks: JoinSet<(&'static str, Result<bool>)>,
    acts: BTreeMap<&'static str, u64>,
    done: BTreeMap<&'static str, u64>,
    kills: u64,
    /// Keys that were ever paused.
    paused: BTreeSet<Key>,
    troubles: Vec<String>,
}

impl Run {
    /// Does each act at its time, or as soon after it as the one before is done.
    async fn play(&mut self, plan: &Plan, world: &mut World, bar: &ProgressBar) -> Result<()> {
        let start = Instant::now();
        for (at, act) in &plan.steps {
            while start.elapsed() < *at {
                sleep_until((start + *at).min(Instant::now() + LOOK)).await;
                world.supervise()?;
                self.reap();
                bar.set_position(start.elapsed().as_secs());
            }
            bar.set_message(act.name());
            self.act(act, world).await.with_context(|| format!("{act:?}"))?;
        }
        Ok(())
    }

    async fn act(&mut self, act: &Act, world: &mut World) -> Result<()> {
        *self.acts.entry(act.name()).or_default() += 1;
        if !matches!(act, Act::Emit(_)) {
            self.files.append("acts.log", &format!("{} {act:?}", Timestamp::now()))?;
        }
        let (producers, desk, name) = (Arc::clone(&self.producers), self.desk.clone(), act.name());
        match act.clone() {
            Act::Fault(fault) => {
                let killed = world.apply(fault).await?;
                self.kills += u64::from(killed);
                *self.done.entry(name).or_default() += 1;
            }
            Act::KillEmit { again } => {
                producers.doom(again);
                *self.done.entry(name).or_default() += 1;
            }
            Act::Emit(batch) | Act::EmitAgain(batch) => {
                self.tasks.spawn(async move { (name, producers.emit(batch).await.map(|()| true)) });
            }
            Act::Retract { event } => {
                self.tasks.spawn(async move { (name, producers.retract(event).await) });
            }
            Act::Send { number } => {
                self.tasks.spawn(async move { (name, producers.send(number).await) });
            }
            Act::Order(order, key) => {
                if order == Order::Pause {
                    self.paused.insert(key.clone());
                }
                self.tasks.spawn(async move { (name, desk.order(order, &key).await) });
            }
            Act::Pick(pick, number) => {
                self.tasks.spawn(async move { (name, desk.pick(pick, number).await) });
            }
        }
        Ok(())
    }

    /// Notes what is wrong; the run goes on to its verdict.
    fn trouble<T: Default>(&mut self, error: &anyhow::Error) -> T {
        self.troubles.push(format!("{error:#}"));
        T::default()
    }

    fn reap(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            self.ended(ended);
        }
    }

    /// An order may meet what is broken, and its failure is no wonder; one that ends as no command should is.
    fn ended(&mut self, ended: Result<(&'static str, Result<bool>), tokio::task::JoinError>) {
        match ended {
            Ok((name, Ok(done))) => *self.done.entry(name).or_default() += u64::from(done),
            Ok((name, Err(error))) => self.troubles.push(format!("{name}: {error:#}")),
            Err(error) => self.troubles.push(format!("{error}")),
        }
    }

    /// Waits until producers and operators are done, at most so long.
    async fn rest(&mut self, world: &mut World, within: Duration) {
        let deadline = Instant::now() + within;
        while !self.tasks.is_empty() && Instant::now() < deadline {
            if let Err(error) = world.supervise() {
                self.troubles.push(format!("{error:#}"));
            }
            if let Ok(Some(ended)) = tokio::time::timeout(LOOK, self.tasks.join_next()).await {
                self.ended(ended);
            }
        }
        for _ in 0..self.tasks.len() {
            self.troubles.push(format!("a producer or an order is not through within {within:?}"));
        }
        self.tasks.abort_all();
    }
}
