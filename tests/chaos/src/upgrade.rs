//! A rolling upgrade between two builds of Tidings. Workers are replaced one by one, forward, back and forward again,
//! while events arrive and windows are open. New workers hold patches back until the last round. `./dev upgrade` runs it; docs/upgrades.md describes it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use jiff::Timestamp;
use tidings_harness::{
    cli_env,
    relay::{self, At, Fault, Relay},
};
use tidings_model::Key;
use tidings_workflows::DigestStatus;
use tokio::time::Instant;

use crate::{Act, Build, Builds, Intervention, Plan, Processes, Run, Target, WORKERS};

mod long;
mod outcome;
mod tasks;

pub use outcome::Outcome;
pub use tasks::Tasks;

/// Builds of the rounds. Each round replaces all workers one after the other. In the last one patches become active.
const ROUNDS: [Build; 4] = [Build::New, Build::Old, Build::New, Build::New];
/// Seed and length of load and interventions. The schedule is the same in every run, and the run ends with the last round.
const SEED: u64 = 1;
const LENGTH: Duration = Duration::from_mins(4);
/// Time before the first round.
const BEFORE: Duration = Duration::from_secs(15);
/// Time in which an intervention takes effect before a round.
const SHOWS: Duration = Duration::from_secs(3);
/// Time between two replacements, in which both builds answer.
const BETWEEN: Duration = Duration::from_secs(6);
/// Time limit for a worker to end after SIGTERM.
const STOPS_WITHIN: Duration = Duration::from_mins(1);
/// Number of failed tasks that are printed.
const SHOWN: usize = 8;
/// Time limit for the status of the keys.
const ANSWERS_WITHIN: Duration = Duration::from_mins(1);

/// A user whose emails every relay defers.
const DEFERRED: &str = "u2";
/// A user about whose emails no relay gives a final reply.
const UNSURE: &str = "u3";
/// Users whose digests are held, who pause, and who choose one email a day.
const HELD: &str = "u4";
const PAUSED: &str = "u5";
const DAILY: &str = "u6";
/// Digest types in which these users have windows.
const TYPES: [&str; 4] = ["delayed", "sliding", "full", "hourly"];
/// A user with a window that is due within a round, also where a slow machine has handed over all of the load before it.
const WAITING: &str = "u7";
const TENANT: &str = "acme";
/// Single messages before each round.
const SINGLES: u32 = 12;

/// Runs the upgrade in a folder, which is kept, from the build at `old` to the build next to this program, and judges
/// the result.
///
/// # Errors
/// When the upgrade cannot run, or a workflow task fails before or after a round.
pub async fn run(old: PathBuf, folder: &Path, store: Target, bar: &ProgressBar) -> Result<Outcome> {
    bar.set_length(LENGTH.as_secs());
    let mut plan = Plan::calm(SEED, LENGTH);
    // Emails that the failing relay deferred go out after the upgrade, and these events after them.
    let refused: Vec<_> = plan.keys().into_iter().filter(|key| key.user == DEFERRED).collect();
    let refused = plan.add(refused);
    let (fated, waiting) = (fated()?, long::key(TENANT, "delayed", WAITING)?);
    let rounds = ROUNDS.map(|build| (build, plan.add(fated.clone()), plan.add([waiting.clone()])));
    let plan = Arc::new(plan);
    let mut processes = Processes::start(&plan, folder, store, Builds::upgrade(old, cli_env::binary()?).await?).await?;
    processes.relays.iter().for_each(trouble);
    let mut run = Run::new(Arc::clone(&plan), folder, &processes)?;
    long::grow(&processes.server.client().await?, &run.files).await?;
    run.go_on(&mut processes, BEFORE, bar).await?;
    let mut rolled = Rolled::default();
    for ((build, fated, waiting), round) in rounds.into_iter().zip(1..) {
        run.act(&Act::Emit(fated), &mut processes).await?;
        run.go_on(&mut processes, SHOWS, bar).await?;
        give_fates(&mut run, &mut processes, round).await?;
        run.act(&Act::Emit(waiting), &mut processes).await?;
        run.go_on(&mut processes, SHOWS, bar).await?;
        no_task_failed(&processes, &format!("before round {round}")).await?;
        rolled.open.push(states(&processes, &plan).await?);
        if round == 1 {
            // An operator migrates the tables before replacing workers.
            processes.prepare(Build::New, &["migrate"]).await?;
            processes.tidings.mix();
        }
        processes.hold_patches = usize::try_from(round)? < ROUNDS.len();
        for worker in 0..WORKERS {
            rolled.stops.push(processes.replace_worker(worker, build, STOPS_WITHIN).await?);
            run.go_on(&mut processes, BETWEEN, bar).await?;
        }
        no_task_failed(&processes, &format!("round {round}, to the {build:?} build")).await?;
    }
    processes.relays.iter().for_each(Relay::heal);
    run.go_on(&mut processes, SHOWS, bar).await?;
    run.act(&Act::Emit(refused), &mut processes).await?;
    let judged = run.judge(&mut processes, bar).await?;
    Ok(Outcome { rolled, tasks: Tasks::of(&processes).await?, judged })
}

/// Fails if a workflow task failed. A run with failing tasks would not answer, and later steps would wait for it.
async fn no_task_failed(processes: &Processes, when: &str) -> Result<()> {
    let failed = Tasks::of(processes).await?.failed;
    let some = failed[..failed.len().min(SHOWN)].join("\n");
    ensure!(failed.is_empty(), "{when}: {} failed tasks:\n{some}", failed.len());
    Ok(())
}

/// Measurements of the rounds.
#[derive(Default)]
pub struct Rolled {
    /// Keys in each state before each round.
    pub open: Vec<BTreeMap<&'static str, u64>>,
    /// Time that each worker took to end after SIGTERM.
    pub stops: Vec<Duration>,
}

/// Makes the relay fail for some users.
fn trouble(relay: &Relay) {
    let not_now = || relay::Act::Reply("451 4.3.0 not now".to_owned());
    relay.fault(Fault::new(At::Rcpt, not_now()).to(&format!("{DEFERRED}@{TENANT}.test")));
    let unsure = format!("{UNSURE}@{TENANT}.test");
    relay.fault(Fault::new(At::Dot, relay::Act::KeepAndClose).to(&unsure).times(1));
    relay.fault(Fault::new(At::Dot, relay::Act::Close).to(&unsure));
}

/// States that at least one key must be in before each round. Otherwise the upgrade would not test them.
const STATES: [&str; 5] = ["held", "between attempts", "paused", "due after the upgrade", "due within it"];

/// The keys that are held, paused or rescheduled.
fn fated() -> Result<Vec<Key>> {
    let users = [HELD, PAUSED, DAILY].into_iter();
    users.flat_map(|user| TYPES.map(|digest_type| long::key(TENANT, digest_type, user))).collect()
}

/// Puts keys into states that outlast a round.
async fn give_fates(run: &mut Run, processes: &mut Processes, round: u32) -> Result<()> {
    for key in fated()? {
        let intervention = match key.user.as_str() {
            HELD => Intervention::Hold,
            PAUSED => Intervention::Pause,
            _ => Intervention::Cadence(Some("daily 08:00")),
        };
        run.act(&Act::Intervention(intervention, key), processes).await?;
    }
    // One message for each user in turn.
    for number in 0..SINGLES {
        run.act(&Act::Send { number: round * 1_000 + number }, processes).await?;
    }
    Ok(())
}

/// The number of the plan's keys in each state. A key that does not answer is stuck.
async fn states(processes: &Processes, plan: &Plan) -> Result<BTreeMap<&'static str, u64>> {
    let mut states = BTreeMap::new();
    for (_, status) in crate::open(processes, &plan.keys(), Instant::now() + ANSWERS_WITHIN).await? {
        *states.entry(state(&status, Timestamp::now())).or_default() += 1;
    }
    Ok(states)
}

fn state(status: &DigestStatus, now: Timestamp) -> &'static str {
    let for_long = |due_at| due_at > now + LENGTH;
    match status {
        DigestStatus { hold: Some(_), .. } => "held",
        DigestStatus { delivering: Some(digest), .. } if digest.attempts > 0 => "between attempts",
        DigestStatus { delivering: Some(_), .. } => "on its way",
        DigestStatus { why, .. } if why.contains("paused until") => "paused",
        DigestStatus { due_at: Some(due_at), .. } if for_long(*due_at) => "due after the upgrade",
        DigestStatus { due_at: Some(_), .. } => "due within it",
        DigestStatus { .. } => "not planned, or idle",
    }
}
