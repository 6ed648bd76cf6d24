//! One Temporal namespace belongs to one installation (rule 50). Database and namespace both store its
//! identity. A second database with this identity is a copy, and only one may be active.
//!
//! Workers write a new beat to both places now and then, the database first. A copy misses the original's
//! beats, which is how we detect it. In another place (file or database), we detect it immediately.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Never starts anything; its argument is the [`InstallationClaim`]. A schedule outlives the namespace's retention and
/// only needs the writer role.
pub const SCHEDULE: &str = "tidings-installation";
/// Over all workers.
pub const BEAT: SignedDuration = SignedDuration::from_secs(20);
/// Workers without a beat for this long are gone.
pub const GONE_AFTER: SignedDuration = SignedDuration::from_mins(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    pub identity: Uuid,
    pub beat: Uuid,
    /// The previous beat, which the namespace may still have.
    pub before: Uuid,
    /// A hash of the database's location.
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallationClaim {
    pub identity: Uuid,
    pub beat: Uuid,
    pub place: String,
    /// `None` if no worker has run yet.
    #[serde(default)]
    pub at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceOwnership {
    Vacant,
    Ours,
    /// Another installation owns the namespace.
    Foreign {
        identity: Uuid,
    },
    /// Another database with this identity owns it.
    Copy {
        seen_at: Timestamp,
    },
}

impl Installation {
    #[must_use]
    pub fn claim(&self, at: Option<Timestamp>) -> InstallationClaim {
        InstallationClaim { identity: self.identity, beat: self.beat, place: self.place.clone(), at }
    }

    #[must_use]
    pub fn check_ownership(&self, claim: Option<&InstallationClaim>, now: Timestamp) -> NamespaceOwnership {
        let Some(claim) = claim else { return NamespaceOwnership::Vacant };
        if claim.identity != self.identity {
            return NamespaceOwnership::Foreign { identity: claim.identity };
        }
        match claim.seen_lately(now) {
            Some(seen_at) if !self.matches_claim(claim) => NamespaceOwnership::Copy { seen_at },
            _ => NamespaceOwnership::Ours,
        }
    }

    #[must_use]
    pub fn matches_claim(&self, claim: &InstallationClaim) -> bool {
        claim.place == self.place && [self.beat, self.before].contains(&claim.beat)
    }
}

impl InstallationClaim {
    /// `None` if the workers are gone. May be in the future, because clocks differ.
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
            Some(InstallationClaim { identity: id(identity), beat: id(beat), place: place.into(), at: seen.map(at) })
        };
        let copy = |seconds| NamespaceOwnership::Copy { seen_at: at(seconds) };
        for (claim, expected) in [
            (None, NamespaceOwnership::Vacant),
            (claim(1, 20, "here", Some(0)), NamespaceOwnership::Ours),
            (claim(1, 19, "here", Some(0)), NamespaceOwnership::Ours),
            (claim(1, 21, "here", Some(0)), copy(0)),
            (claim(1, 20, "there", Some(0)), copy(0)),
            (claim(1, 21, "there", Some(59)), copy(59)),
            (claim(1, 21, "there", Some(-59)), copy(-59)),
            (claim(1, 21, "there", Some(-60)), NamespaceOwnership::Ours),
            (claim(1, 21, "there", None), NamespaceOwnership::Ours),
            (claim(2, 20, "here", None), NamespaceOwnership::Foreign { identity: id(2) }),
            (claim(2, 20, "here", Some(0)), NamespaceOwnership::Foreign { identity: id(2) }),
        ] {
            assert_eq!(ours.check_ownership(claim.as_ref(), at(0)), expected, "{claim:?}");
        }
    }
}
