//! The result of a run.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use tidings_harness::checker::Verdict;

/// The result of a run.
pub struct Outcome {
    pub seed: u64,
    /// The folder of all files: logs, emails, acknowledged ids and the ledger.
    pub folder: PathBuf,
    /// Acts of each kind.
    pub acts: BTreeMap<&'static str, u64>,
    /// Acts that had an effect, for example interventions that were carried out.
    pub done: BTreeMap<&'static str, u64>,
    /// Processes that got SIGKILL.
    pub kills: u64,
    /// Workers that ended because of an outage and were started again.
    pub restarts: u64,
    /// Events handed over at least once.
    pub events: u64,
    /// Windows that were open after the faults had ended.
    pub open: u64,
    pub verdict: Verdict,
    /// Lines about results of local activities that came too late to a run (the SDK hands them to the next replay).
    pub stray_results: usize,
    /// Lines about a changed decision in a workflow task whose answer Temporal did not take.
    pub stale_tasks: usize,
    /// Problems other than violations, for example processes that ended by themselves or did not end.
    pub troubles: Vec<String>,
}

impl Outcome {
    /// Answers `true` if every guarantee held.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.code == Some(0) && self.verdict.violations.is_empty() && self.troubles.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, .. } = self;
        let counts = |of: &BTreeMap<String, u64>| {
            of.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        for (name, count) in &self.acts {
            writeln!(f, "  {count:>6}  {name} ({} with effect)", self.done.get(name).copied().unwrap_or(0))?;
        }
        writeln!(f, "kills        {} processes; {} workers ended for an outage", self.kills, self.restarts)?;
        let (acknowledged, lost) = (verdict.acknowledged, verdict.lost);
        writeln!(
            f,
            "events       {} handed over, {acknowledged} acknowledged, {lost} lost with Temporal",
            self.events
        )?;
        writeln!(
            f,
            "ledger       {} events, {} digests ({})",
            verdict.events,
            verdict.digests,
            counts(&verdict.outcomes)
        )?;
        writeln!(f, "messages     {} single ones; attempts: {}", verdict.singles, counts(&verdict.attempts))?;
        writeln!(
            f,
            "mails        {}, of them second ones {}, for {} ambiguous attempts",
            verdict.mails, verdict.second_mails, verdict.ambiguous_attempts
        )?;
        writeln!(f, "open         {} windows when the dust had settled, all with a reason or below", self.open)?;
        writeln!(f, "stray        {} lines about a result that came after its run was dropped", self.stray_results)?;
        writeln!(f, "stale        {} lines about a changed decision in a task that was over", self.stale_tasks)?;
        for violation in &verdict.violations {
            writeln!(f, "VIOLATION {}: {}", violation.rule, violation.detail)?;
        }
        for trouble in &self.troubles {
            writeln!(f, "TROUBLE {trouble}")?;
        }
        let (violations, troubles) = (verdict.violations.len(), self.troubles.len());
        write!(
            f,
            "seed {}: {violations} violations, {troubles} troubles; all files are in {}",
            self.seed,
            self.folder.display()
        )
    }
}
