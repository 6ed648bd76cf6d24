//! State, decisions and results of the retention workflow. Pure functions, independent of the clock.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::retention::{Cutoff, Kind, Purged};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Ask,
    Purge(Cutoff),
    Finish,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// `None` until the cutoffs are available.
    pub cutoffs: Option<VecDeque<Cutoff>>,
    #[serde(default)]
    pub report: Report,
}

impl State {
    /// All decisions are made here.
    pub fn decide(&self) -> Decision {
        match &self.cutoffs {
            None => Decision::Ask,
            Some(cutoffs) => cutoffs.front().map_or(Decision::Finish, |cutoff| Decision::Purge(*cutoff)),
        }
    }

    pub fn asked(&mut self, cutoffs: Vec<Cutoff>) {
        self.report.kinds = cutoffs.iter().map(|cutoff| (cutoff.kind, Tally::new(cutoff.before))).collect();
        self.cutoffs = Some(cutoffs.into());
    }

    pub fn purged(&mut self, cutoff: Cutoff, batch: Purged) {
        let tally = self.report.kinds.entry(cutoff.kind).or_insert_with(|| Tally::new(cutoff.before));
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
pub struct Report {
    pub kinds: BTreeMap<Kind, Tally>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub before: Timestamp,
    pub purged: u64,
    /// How many of these are in the archive.
    pub archived: u64,
}

impl Tally {
    const fn new(before: Timestamp) -> Self {
        Self { before, purged: 0, archived: 0 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (kind, Tally { before, purged, archived })) in self.kinds.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{} before {before:.0}: {purged} deleted, {archived} of them archived", kind.words())?;
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

    fn cutoff(kind: Kind) -> Cutoff {
        Cutoff { kind, before: Timestamp::UNIX_EPOCH }
    }

    fn batch(purged: u64, more: bool) -> Purged {
        Purged { purged, archived: purged, more }
    }

    #[test]
    fn each_kind_is_purged_batch_by_batch_until_nothing_is_left() {
        let mut state = State::default();
        assert_eq!(state.decide(), Decision::Ask);
        state.asked(vec![cutoff(Kind::Events), cutoff(Kind::Messages)]);
        for more in [true, true, false] {
            assert_eq!(state.decide(), Decision::Purge(cutoff(Kind::Events)));
            state.purged(cutoff(Kind::Events), batch(5, more));
        }
        assert_eq!(state.decide(), Decision::Purge(cutoff(Kind::Messages)));
        state.purged(cutoff(Kind::Messages), batch(0, false));
        assert_eq!(state.decide(), Decision::Finish);
        assert_eq!((state.report.kinds[&Kind::Events].purged, state.report.kinds[&Kind::Messages].archived), (15, 0));
    }

    #[test]
    fn unlimited_retention_deletes_nothing() {
        let mut state = State::default();
        state.asked(Vec::new());
        assert_eq!(state.decide(), Decision::Finish);
        assert_eq!(state.report.to_string(), "nothing has an age at which it goes");
    }

    #[test]
    fn a_carried_state_reads_back_unchanged() {
        let mut state = State::default();
        state.asked(vec![cutoff(Kind::DeadLetters)]);
        state.purged(cutoff(Kind::DeadLetters), batch(2, true));
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
        let said = "dead letters before 1970-01-01T00:00:00Z: 2 deleted, 2 of them archived";
        assert_eq!(state.report.to_string(), said);
    }
}
