//! The result of an upgrade.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{Rolled, STATES, Tasks};
use crate::Build;

/// The result of an upgrade.
pub struct Outcome {
    pub rolled: Rolled,
    /// Tasks at the end.
    pub tasks: Tasks,
    /// The result of load, interventions and checker.
    pub judged: crate::Outcome,
}

impl Outcome {
    /// Answers `true` if everything went well.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.judged.is_good() && self.complaints().is_empty()
    }

    /// Problems other than the checker's violations: failed tasks, or states that no key was in.
    fn complaints(&self) -> Vec<String> {
        let failed = self.tasks.failed.iter().map(|failed| format!("workflow task failed: {failed}"));
        let rounds = self.rolled.open.iter().zip(1..);
        let missing = rounds.flat_map(|(states, round)| {
            let missing = STATES.into_iter().filter(|state| !states.contains_key(state));
            missing.map(move |state| format!("before round {round} no key was {state}"))
        });
        let builds = [Build::Old, Build::New].into_iter();
        let idle = builds.filter(|build| !self.tasks.workflow_tasks.contains_key(build));
        let idle = idle.map(|build| format!("no workflow task ran on the {build:?} build"));
        let short = (self.tasks.continued == 0).then(|| "no run continued as new".to_owned());
        failed.chain(missing).chain(idle).chain(short).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rolled, tasks, judged } = self;
        writeln!(f, "{judged}")?;
        for (states, round) in rolled.open.iter().zip(1..) {
            let states: Vec<_> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
            writeln!(f, "round {round}      {}", states.join(", "))?;
        }
        let slowest = rolled.stops.iter().max().copied().unwrap_or(Duration::ZERO);
        writeln!(f, "replaced     {} workers, the slowest within {slowest:.1?}", rolled.stops.len())?;
        let of = |tasks: &BTreeMap<Build, u64>| {
            let [old, new] = [Build::Old, Build::New].map(|build| tasks.get(&build).copied().unwrap_or(0));
            format!("{old} on the old build, {new} on the new one")
        };
        writeln!(
            f,
            "runs         {}, {} on both builds, {} continued as new",
            tasks.runs, tasks.on_both, tasks.continued
        )?;
        writeln!(f, "tasks        {}", of(&tasks.workflow_tasks))?;
        writeln!(f, "activities   {}", of(&tasks.activities))?;
        let complaints = self.complaints();
        for complaint in &complaints {
            writeln!(f, "TROUBLE {complaint}")?;
        }
        write!(
            f,
            "{} workflow tasks failed, {} in a usual way; {} more troubles",
            tasks.failed.len(),
            tasks.usual,
            complaints.len() - tasks.failed.len()
        )
    }
}
