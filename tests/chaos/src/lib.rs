//! Runs Tidings under load while a schedule breaks everything around it, and judges the result. The schedule follows
//! from a seed. `./dev chaos` runs it; docs/testing.md describes it.

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
mod changes;
mod deal;
mod disasters;
mod erasure;
mod faults;
mod files;
mod gateway;
mod interventions;
mod judge;
mod load;
mod network;
mod outcome;
mod plan;
mod processes;
mod restore;
mod returned;
mod run_options;
mod settings;
mod settle;
mod setup;
mod store;
mod tidings;
pub mod upgrade;

pub use act::{Act, Intervention};
pub use outcome::Outcome;
pub use plan::Plan;
pub use processes::{Effect, Processes};
pub use run_options::RunOptions;
pub use settle::open;
pub use setup::{WORKERS, libfaketime};
pub use store::Target;
pub use tidings::{Build, Builds};

pub use files::Files;

use act::Fault;
use interventions::Desk;
use load::Producers;

/// Interval between two checks of the workers.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a plan in a folder, which is kept, and judges the result.
///
/// # Errors
/// When the run cannot start or cannot finish.
pub async fn run(plan: Plan, folder: &Path, store: Target, bar: &ProgressBar) -> Result<Outcome> {
    let plan = Arc::new(plan);
    let mut processes = Processes::start(&plan, folder, store, Builds::only(cli_env::binary()?)).await?;
    let mut run = Run::new(Arc::clone(&plan), folder, &processes)?;
    // Faults that began late end late.
    let end = plan.steps.last().map_or(plan.length, |(at, _)| plan.length.max(*at));
    run.play(&mut processes, end, bar).await?;
    run.judge(&mut processes, bar).await
}

/// A run in progress.
pub struct Run {
    plan: Arc<Plan>,
    start: Instant,
    /// The same moment on the clock.
    started_at: Timestamp,
    /// Losses of Temporal's data that the checker knows of.
    losses: u64,
    /// Steps of the plan done so far.
    steps: usize,
    pub files: Files,
    producers: Arc<Producers>,
    desk: Desk,
    /// Acts of producers and operators: the name, and `true` if the act had an effect.
    tasks: JoinSet<(&'static str, Result<bool>)>,
    acts: BTreeMap<&'static str, u64>,
    done: BTreeMap<&'static str, u64>,
    kills: u64,
    /// Keys that were ever paused.
    paused: BTreeSet<Key>,
    troubles: Vec<String>,
}

impl Run {
    /// Starts a plan now, in the folder of the processes.
    ///
    /// # Errors
    /// When the folder cannot be written, or was used before.
    pub fn new(plan: Arc<Plan>, folder: &Path, processes: &Processes) -> Result<Self> {
        let files = Files::new(folder)?;
        Ok(Self {
            start: Instant::now(),
            started_at: Timestamp::now(),
            losses: 0,
            steps: 0,
            producers: Arc::new(Producers::new(
                Arc::clone(&plan),
                processes.tidings.clone(),
                processes.requests.clone(),
                files.clone(),
            )),
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

    /// Does each act up to this time since the start: at its time, or as soon after it as the act before is done.
    ///
    /// # Errors
    /// When an act cannot be done at all.
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

    /// Plays this length of the plan.
    ///
    /// # Errors
    /// As for [`Self::play`].
    pub async fn go_on(&mut self, processes: &mut Processes, time: Duration, bar: &ProgressBar) -> Result<()> {
        self.play(processes, self.start.elapsed() + time, bar).await
    }

    /// Supervises workers and tasks until then.
    async fn pass(&mut self, processes: &mut Processes, until: Duration, bar: &ProgressBar) -> Result<()> {
        while self.start.elapsed() < until {
            sleep_until((self.start + until).min(Instant::now() + LOOK)).await;
            processes.supervise()?;
            self.reap();
            bar.set_position(self.start.elapsed().as_secs());
        }
        Ok(())
    }

    /// Ends all faults, sends what is open, stops the workers and runs the checker.
    ///
    /// # Errors
    /// When the checker reaches no verdict.
    pub async fn judge(mut self, processes: &mut Processes, bar: &ProgressBar) -> Result<Outcome> {
        let within = self.plan.settle_within();
        bar.set_message("the dust settles");
        self.rest(processes, within).await;
        let open = settle::dust(processes, &self.desk, &self.files, within).await;
        let open = open.unwrap_or_else(|error| self.trouble(&error));
        bar.set_message("what is open is sent");
        let left = self.empty(processes, within).await;
        let left: Vec<String> = left.unwrap_or_else(|error| self.trouble(&error));
        self.troubles.extend(left.into_iter().map(|key| format!("does not come to its end: {key}")));
        let erased = self.desk.erase_at_the_end(&self.files, within).await;
        erased.unwrap_or_else(|error| self.trouble(&error));
        let stopped = processes.stop(within).await;
        stopped.unwrap_or_else(|error| self.trouble(&error));
        self.troubles.append(&mut processes.unexplained);
        let folder = processes.tidings.folder().to_owned();
        let logs = judge::logs(&folder)?;
        self.troubles.extend(logs.bugs);
        judge::keep(&self.files, processes).unwrap_or_else(|error| self.trouble(&error));
        let verdict = judge::verdict(&self.files, processes, &self.plan)?;
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
            stray_results: logs.stray_results,
            stale_tasks: logs.stale_tasks,
            troubles: self.troubles,
        })
    }

    /// Sends what is open, and then what Temporal lost and no workflow has, until nothing is left. Answers with the keys that stay open.
    async fn empty(&self, processes: &mut Processes, within: Duration) -> Result<Vec<String>> {
        let deadline = Instant::now() + within;
        loop {
            let left = settle::empty(processes, &self.desk, &self.paused, within).await?;
            if !left.is_empty() || Instant::now() >= deadline || !self.desk.restore_digests(self.started_at).await? {
                return Ok(left);
            }
        }
    }

    /// Does an act, or starts it in the background.
    ///
    /// # Errors
    /// When the act cannot be done at all.
    pub async fn act(&mut self, act: &Act, processes: &mut Processes) -> Result<()> {
        *self.acts.entry(act.name()).or_default() += 1;
        if !matches!(act, Act::Emit(_) | Act::Post(_)) {
            self.files.append("acts.log", &format!("{} {act:?}", Timestamp::now()))?;
        }
        let (producers, desk, name) = (Arc::clone(&self.producers), self.desk.clone(), act.name());
        match act.clone() {
            Act::Fault(fault) => {
                if fault == Fault::StartTemporal && self.losses < processes.tidings.losses() {
                    self.losses = processes.tidings.losses();
                    self.files.note_loss()?;
                }
                let effect = processes.apply(fault).await?;
                self.kills += u64::from(effect == Effect::Killed);
                *self.done.entry(name).or_default() += u64::from(effect != Effect::Nothing);
            }
            Act::KillEmit { again } => {
                producers.doom(again);
                *self.done.entry(name).or_default() += 1;
            }
            Act::Emit(batch) | Act::EmitAgain(batch) => {
                self.tasks.spawn(async move { (name, producers.emit(batch).await) });
            }
            Act::Post(batch) => {
                self.tasks.spawn(async move { (name, producers.post(batch).await) });
            }
            Act::Restore => {
                let since = self.started_at;
                self.tasks.spawn(async move { (name, desk.restore(since).await) });
            }
            Act::Retract { event } => {
                self.tasks.spawn(async move { (name, producers.retract(event).await) });
            }
            Act::Send { number } => {
                self.tasks.spawn(async move { (name, producers.send(number).await) });
            }
            Act::Intervention(intervention, key) => {
                if intervention == Intervention::Pause {
                    self.paused.insert(key.clone());
                }
                self.tasks.spawn(async move { (name, desk.intervene(intervention, &key).await) });
            }
            Act::Return { number } => {
                let (taken, files) = (processes.taken(number as usize), self.files.clone());
                self.tasks.spawn(async move {
                    let Some((_, mail)) = taken else { return (name, Ok(false)) };
                    (name, desk.hand_back(&mail, number, &files).await)
                });
            }
            Act::Click { number } => {
                let (taken, requests) = (processes.taken(number as usize), processes.requests.clone());
                let files = self.files.clone();
                self.tasks.spawn(async move {
                    let (Some((_, mail)), Some(requests)) = (taken, requests) else { return (name, Ok(false)) };
                    (name, requests.click(&mail, &files).await)
                });
            }
            Act::Report { number } => {
                let (taken, requests) = (processes.taken(number as usize), processes.requests.clone());
                let files = self.files.clone();
                self.tasks.spawn(async move {
                    let (Some((relay, mail)), Some(requests)) = (taken, requests) else { return (name, Ok(false)) };
                    (name, requests.report(&mail, relay, number, &files).await)
                });
            }
            Act::Pick(pick, number) => {
                self.tasks.spawn(async move { (name, desk.pick(pick, number).await) });
            }
        }
        Ok(())
    }

    /// Records a problem. The run continues to its verdict.
    fn trouble<T: Default>(&mut self, error: &anyhow::Error) -> T {
        self.troubles.push(format!("{error:#}"));
        T::default()
    }

    fn reap(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            self.ended(ended);
        }
    }

    /// Counts a finished act. An intervention may fail because of a fault, but a command must end with a documented exit code.
    fn ended(&mut self, ended: Result<(&'static str, Result<bool>), tokio::task::JoinError>) {
        match ended {
            Ok((name, Ok(done))) => *self.done.entry(name).or_default() += u64::from(done),
            Ok((name, Err(error))) => self.troubles.push(format!("{name}: {error:#}")),
            Err(error) => self.troubles.push(format!("{error}")),
        }
    }

    /// Waits for producers and operators, at most `within`. After half of it no producer begins, and no digest stays paused: a recovery waits
    /// for the digest that its key is delivering.
    async fn rest(&mut self, processes: &mut Processes, within: Duration) {
        let deadline = Instant::now() + within;
        let mut late = false;
        while !self.tasks.is_empty() && Instant::now() < deadline {
            if !late && Instant::now() > deadline - within / 2 {
                late = true;
                self.producers.close();
                settle::unblock(&self.desk).await.unwrap_or_else(|error| self.trouble(&error));
            }
            if let Err(error) = processes.supervise() {
                self.troubles.push(format!("{error:#}"));
            }
            if let Ok(Some(ended)) = tokio::time::timeout(LOOK, self.tasks.join_next()).await {
                self.ended(ended);
            }
        }
        for _ in 0..self.tasks.len() {
            self.troubles.push(format!("a producer or an intervention is not through within {within:?}"));
        }
        self.tasks.abort_all();
    }
}
