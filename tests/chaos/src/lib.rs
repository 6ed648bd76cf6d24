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
use tidings_harness::cli_env;
use tidings_model::Key;
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
mod processes;
mod run_options;
mod settings;
mod settle;
mod store;
mod tidings;
pub mod upgrade;

pub use act::{Act, Order};
pub use outcome::Outcome;
pub use plan::{Plan, WORKERS};
pub use processes::Processes;
pub use run_options::RunOptions;
pub use settle::open;
pub use store::Target;
pub use tidings::{Build, Builds};

pub use load::Files;

use load::Producers;
use orders::Desk;

/// Between two looks at the workers.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a plan in a folder, which stays, and judges it.
///
/// # Errors
/// When it cannot be run at all.
pub async fn run(plan: Plan, folder: &Path, store: Target, bar: &ProgressBar) -> Result<Outcome> {
    let plan = Arc::new(plan);
    let mut processes = Processes::start(&plan, folder, store, Builds::only(cli_env::binary()?)).await?;
    let mut run = Run::new(Arc::clone(&plan), folder, &processes)?;
    // What broke late is mended later.
    let end = plan.steps.last().map_or(plan.length, |(at, _)| plan.length.max(*at));
    run.play(&mut processes, end, bar).await?;
    run.judge(&mut processes, bar).await
}

/// A plan that is being carried out.
pub struct Run {
    plan: Arc<Plan>,
    start: Instant,
    /// Steps of the plan so far.
    steps: usize,
    pub files: Files,
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
    /// Of a plan, in the folder of a processes, from now on.
    ///
    /// # Errors
    /// When the folder cannot be written, or was used before.
    pub fn new(plan: Arc<Plan>, folder: &Path, processes: &Processes) -> Result<Self> {
        let files = Files::new(folder)?;
        Ok(Self {
            start: Instant::now(),
            steps: 0,
            producers: Arc::new(Producers::new(Arc::clone(&plan), processes.tidings.clone(), files.clone())),
            files,
            desk: Desk { plan: Arc::clone(&plan), tidings: processes.tidings.clone(), store: processes.store.place() },
            plan,
            tasks: JoinSet::new(),
            acts: BTreeMap::new(),
            done: BTreeMap::new(),
            kills: 0,
            paused: BTreeSet::new(),
            troubles: Vec::new(),
        })
    }

    /// Does each act up to this time since the start: when it comes, or as soon after it as the one before is done.
    ///
    /// # Errors
    /// When one cannot be done at all.
    pub async fn play(&mut self, processes: &mut Processes, until: Duration, bar: &ProgressBar) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        while let Some((at, act)) = plan.steps.get(self.steps).filter(|(at, _)| *at <= until) {
            self.pass(processes, *at, bar).await?;
            bar.set_message(act.name());
            self.act(act, processes).await.with_context(|| format!("{act:?}"))?;
            self.steps += 1;
        }
        self.pass(processes, until, bar).await
    }

    /// [`Self::play`] for so long.
    ///
    /// # Errors
    /// As there.
    pub async fn go_on(&mut self, processes: &mut Processes, time: Duration, bar: &ProgressBar) -> Result<()> {
        self.play(processes, self.start.elapsed() + time, bar).await
    }

    /// Looks after workers and tasks until then.
    async fn pass(&mut self, processes: &mut Processes, until: Duration, bar: &ProgressBar) -> Result<()> {
        while self.start.elapsed() < until {
            sleep_until((self.start + until).min(Instant::now() + LOOK)).await;
            processes.supervise()?;
            self.reap();
            bar.set_position(self.start.elapsed().as_secs());
        }
        Ok(())
    }

    /// Lets the dust settle, sends what is open, stops the workers, and asks the checker.
    ///
    /// # Errors
    /// When there is no verdict.
    pub async fn judge(mut self, processes: &mut Processes, bar: &ProgressBar) -> Result<Outcome> {
        let within = self.plan.settle_within();
        bar.set_message("the dust settles");
        self.rest(processes, within).await;
        let open = settle::dust(processes, &self.desk, &self.files, within).await;
        let open = open.unwrap_or_else(|error| self.trouble(&error));
        bar.set_message("what is open is sent");
        let left = settle::empty(processes, &self.desk, &self.paused, within).await;
        let left: Vec<String> = left.unwrap_or_else(|error| self.trouble(&error));
        self.troubles.extend(left.into_iter().map(|key| format!("does not come to its end: {key}")));
        let stopped = processes.stop_workers(within).await;
        stopped.unwrap_or_else(|error| self.trouble(&error));
        self.troubles.append(&mut processes.unexplained);
        let folder = processes.tidings.folder().to_owned();
        self.troubles.extend(judge::logs(&folder)?);
        judge::keep(&self.files, processes).unwrap_or_else(|error| self.trouble(&error));
        let verdict = judge::verdict(&self.files, processes)?;
        Ok(Outcome {
            seed: self.plan.seed,
            folder,
            kills: self.kills + self.producers.killed.load(Ordering::Relaxed),
            acts: self.acts,
            done: self.done,
            restarts: processes.restarts,
            events: self.files.handed_over(&self.plan),
            open: open as u64,
            verdict,
            troubles: self.troubles,
        })
    }

    /// Does something, or has it begun.
    ///
    /// # Errors
    /// When it cannot be done at all.
    pub async fn act(&mut self, act: &Act, processes: &mut Processes) -> Result<()> {
        *self.acts.entry(act.name()).or_default() += 1;
        if !matches!(act, Act::Emit(_)) {
            self.files.append("acts.log", &format!("{} {act:?}", Timestamp::now()))?;
        }
        let (producers, desk, name) = (Arc::clone(&self.producers), self.desk.clone(), act.name());
        match act.clone() {
            Act::Fault(fault) => {
                let killed = processes.apply(fault).await?;
                self.kills += u64::from(killed);
                *self.done.entry(name).or_default() += 1;
            }
            Act::KillEmit { again } => {
                producers.doom(again);
                *self.done.entry(name).or_default() += 1;
            }
            Act::Emit(batch) | Act::EmitAgain(batch) => {
                self.tasks.spawn(async move { (name, producers.emit(batch).await) });
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
    async fn rest(&mut self, processes: &mut Processes, within: Duration) {
        let deadline = Instant::now() + within;
        while !self.tasks.is_empty() && Instant::now() < deadline {
            if Instant::now() > deadline - within / 2 {
                self.producers.close();
            }
            if let Err(error) = processes.supervise() {
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
