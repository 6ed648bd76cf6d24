//! State, decisions and results of the retention workflow. Pure, independent of the clock.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::retention::{PurgeAnswer, RetentionCutoff, RetentionKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetentionDecision {
    Ask,
    Purge(RetentionCutoff),
    Finish,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetentionRunState {
    /// `None` until the cutoffs are available.
    pub cutoffs: Option<VecDeque<RetentionCutoff>>,
    #[serde(default)]
    pub report: RetentionReport,
}

impl RetentionRunState {
    pub fn decide(&self) -> RetentionDecision {
        match &self.cutoffs {
            None => RetentionDecision::Ask,
            Some(cutoffs) => {
                cutoffs.front().map_or(RetentionDecision::Finish, |cutoff| RetentionDecision::Purge(*cutoff))
            }
        }
    }

    pub fn set_cutoffs(&mut self, cutoffs: Vec<RetentionCutoff>) {
        self.report.kinds = cutoffs.iter().map(|cutoff| (cutoff.kind, PurgeTally::new(cutoff.before))).collect();
        self.cutoffs = Some(cutoffs.into());
    }

    pub fn add_purged(&mut self, cutoff: RetentionCutoff, batch: PurgeAnswer) {
        let tally = self.report.kinds.entry(cutoff.kind).or_insert_with(|| PurgeTally::new(cutoff.before));
        tally.purged += batch.purged;
        tally.archived += batch.archived;
        if let Some(cutoffs) = self.cutoffs.as_mut().filter(|_| !batch.more) {
            cutoffs.retain(|other| other.kind != cutoff.kind);
        }
    }
}

/// Kinds that are kept for ever are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RetentionReport {
    pub kinds: BTreeMap<RetentionKind, PurgeTally>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeTally {
    pub before: Timestamp,
    pub purged: u64,
    /// How many of these are in the archive.
    pub archived: u64,
}

impl PurgeTally {
    const fn new(before: Timestamp) -> Self {
        Self { before, purged: 0, archived: 0 }
    }
}

impl fmt::Display for RetentionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (kind, PurgeTally { before, purged, archived })) in self.kinds.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(
                f,
                "{separator}{} before {before:.0}: {purged} deleted, {archived} of them archived",
                kind.display_name()
            )?;
        }
        if self.kinds.is_empty() {
            write!(f, "nothing has an age at which it goes")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutoff(kind: RetentionKind) -> RetentionCutoff {
        RetentionCutoff { kind, before: Timestamp::UNIX_EPOCH }
    }

    fn batch(purged: u64, more: bool) -> PurgeAnswer {
        PurgeAnswer { purged, archived: purged, more }
    }

    #[test]
    fn each_kind_is_purged_batch_by_batch_until_nothing_is_left() {
        let mut state = RetentionRunState::default();
        assert_eq!(state.decide(), RetentionDecision::Ask);
        state.set_cutoffs(vec![cutoff(RetentionKind::Events), cutoff(RetentionKind::Messages)]);
        for more in [true, true, false] {
            assert_eq!(state.decide(), RetentionDecision::Purge(cutoff(RetentionKind::Events)));
            state.add_purged(cutoff(RetentionKind::Events), batch(5, more));
        }
        assert_eq!(state.decide(), RetentionDecision::Purge(cutoff(RetentionKind::Messages)));
        state.add_purged(cutoff(RetentionKind::Messages), batch(0, false));
        assert_eq!(state.decide(), RetentionDecision::Finish);
        assert_eq!(
            (state.report.kinds[&RetentionKind::Events].purged, state.report.kinds[&RetentionKind::Messages].archived),
            (15, 0)
        );
    }

    #[test]
    fn unlimited_retention_deletes_nothing() {
        let mut state = RetentionRunState::default();
        state.set_cutoffs(Vec::new());
        assert_eq!(state.decide(), RetentionDecision::Finish);
        assert_eq!(state.report.to_string(), "nothing has an age at which it goes");
    }

    #[test]
    fn a_carried_state_reads_back_unchanged() {
        let mut state = RetentionRunState::default();
        state.set_cutoffs(vec![cutoff(RetentionKind::DeadLetters)]);
        state.add_purged(cutoff(RetentionKind::DeadLetters), batch(2, true));
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<RetentionRunState>(&json).unwrap(), state);
        let said = "dead letters before 1970-01-01T00:00:00Z: 2 deleted, 2 of them archived";
        assert_eq!(state.report.to_string(), said);
    }
}
