//! One Temporal namespace belongs to one installation (rule 50). An installation has an identity, which its database and its
//! namespace have. A second database of the same identity is a copy, and only one of them is at work.
//!
//! The workers at work change a beat in both places now and then, the database first. A copy does not get the beats of the other, so
//! that it is known by them. It is known at once if it lies in another place: another file or another database.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The schedule in the namespace whose argument is the [`Claim`]. It never starts anything. A schedule outlives the namespace's
/// retention, and needs no more than the role of a writer.
pub const SCHEDULE: &str = "tidings-installation";
/// The pause between two beats, over all workers.
pub const BEAT: SignedDuration = SignedDuration::from_secs(20);
/// Workers whose last beat is older are gone.
pub const GONE_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The installation, as a database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    pub identity: Uuid,
    /// The latest beat.
    pub beat: Uuid,
    /// The beat before, which the namespace may still have.
    pub before: Uuid,
    /// The place of the database, as a hash.
    pub place: String,
}

/// The installation, as a namespace has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub identity: Uuid,
    pub beat: Uuid,
    pub place: String,
    /// The time of the beat; `None`: no worker has run yet.
    #[serde(default)]
    pub at: Option<Timestamp>,
}

/// The standing of a database in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The namespace has no owner.
    Vacant,
    /// It belongs to this database.
    Ours,
    /// It belongs to another installation.
    Foreign { identity: Uuid },
    /// It belongs to another database of this identity, whose workers were seen then.
    Copy { seen_at: Timestamp },
}

impl Installation {
    /// The claim of this database with its latest beat.
    #[must_use]
    pub fn claim(&self, at: Option<Timestamp>) -> Claim {
        Claim { identity: self.identity, beat: self.beat, place: self.place.clone(), at }
    }

    /// The standing in a namespace with this claim.
    #[must_use]
    pub fn standing(&self, claim: Option<&Claim>, now: Timestamp) -> Standing {
        let Some(claim) = claim else { return Standing::Vacant };
        if claim.identity != self.identity {
            return Standing::Foreign { identity: claim.identity };
        }
        match claim.seen_lately(now) {
            Some(seen_at) if !self.has(claim) => Standing::Copy { seen_at },
            _ => Standing::Ours,
        }
    }

    /// Reports that the beat of the claim is one of this database, and that the places are equal.
    #[must_use]
    pub fn has(&self, claim: &Claim) -> bool {
        claim.place == self.place && [self.beat, self.before].contains(&claim.beat)
    }
}

impl Claim {
    /// The time of the beat, unless the workers are gone. Clocks differ, so that a beat may be of the future.
    #[must_use]
    pub fn seen_lately(&self, now: Timestamp) -> Option<Timestamp> {
        self.at.filter(|at| now.duration_since(*at).abs() < GONE_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_refused_only_while_workers_of_the_other_are_seen() {
        let id = Uuid::from_u128;
        let at = |seconds| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let ours = Installation { identity: id(1), beat: id(20), before: id(19), place: "here".into() };
        let claim = |identity, beat, place: &str, seen: Option<i64>| {
            Some(Claim { identity: id(identity), beat: id(beat), place: place.into(), at: seen.map(at) })
        };
        let copy = |seconds| Standing::Copy { seen_at: at(seconds) };
        for (claim, expected) in [
            (None, Standing::Vacant),
            (claim(1, 20, "here", Some(0)), Standing::Ours),
            (claim(1, 19, "here", Some(0)), Standing::Ours),
            (claim(1, 21, "here", Some(0)), copy(0)),
            (claim(1, 20, "there", Some(0)), copy(0)),
            (claim(1, 21, "there", Some(59)), copy(59)),
            (claim(1, 21, "there", Some(-59)), copy(-59)),
            (claim(1, 21, "there", Some(-60)), Standing::Ours),
            (claim(1, 21, "there", None), Standing::Ours),
            (claim(2, 20, "here", None), Standing::Foreign { identity: id(2) }),
            (claim(2, 20, "here", Some(0)), Standing::Foreign { identity: id(2) }),
        ] {
            assert_eq!(ours.standing(claim.as_ref(), at(0)), expected, "{claim:?}");
        }
    }
}
