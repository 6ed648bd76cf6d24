//! What a retract finds of the events that it covers (rule 6).

use jiff::Timestamp;
use uuid::Uuid;

use super::DigestState;
use crate::window::Outcome;

closed_set! {
    /// What a retract reached.
    pub enum Reach {
        /// No message has a covered event. None will.
        Pending = "pending",
        /// A message with a covered event waits. It is made again without the event.
        Waiting = "waiting",
        /// An attempt to deliver a message with a covered event has passed the dot: the retract is too late.
        Sent = "sent",
    }
}

/// What a retract reached, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub reach: Reach,
    /// The digest of the message, and the time of its claim.
    pub digest: Option<(Uuid, Option<Timestamp>)>,
}

impl Reached {
    /// No message.
    pub const PENDING: Self = Self { reach: Reach::Pending, digest: None };

    /// The one that counts of two digests with covered events: the one that waits, and then the later one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let rank = |reached: &Self| match reached.reach {
            Reach::Pending => 0,
            Reach::Sent => 1,
            Reach::Waiting => 2,
        };
        let claimed_at = |reached: &Self| reached.digest.and_then(|(_, claimed_at)| claimed_at);
        if (rank(&other), claimed_at(&other)) > (rank(&self), claimed_at(&self)) { other } else { self }
    }
}

impl Reach {
    /// What a retract reaches of a digest in this state, with this end, an attempt of which has passed the dot or not.
    #[must_use]
    pub const fn of(state: DigestState, outcome: Option<Outcome>, past_the_dot: bool) -> Self {
        match (state, outcome) {
            (DigestState::Closed, Some(Outcome::Sent | Outcome::Ambiguous)) => Self::Sent,
            (DigestState::Claimed | DigestState::Rendered, _) if past_the_dot => Self::Sent,
            (DigestState::Claimed | DigestState::Rendered, _) => Self::Waiting,
            (DigestState::Open | DigestState::Closed, _) => Self::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retract_reaches_a_message_until_an_attempt_passes_the_dot() {
        for (state, outcome, past_the_dot, reach) in [
            (DigestState::Open, None, false, Reach::Pending),
            (DigestState::Claimed, None, false, Reach::Waiting),
            (DigestState::Rendered, None, false, Reach::Waiting),
            (DigestState::Rendered, None, true, Reach::Sent),
            (DigestState::Closed, Some(Outcome::Sent), true, Reach::Sent),
            (DigestState::Closed, Some(Outcome::Ambiguous), true, Reach::Sent),
            (DigestState::Closed, Some(Outcome::Skipped), false, Reach::Pending),
            (DigestState::Closed, Some(Outcome::Dropped), false, Reach::Pending),
            (DigestState::Closed, Some(Outcome::Failed), true, Reach::Pending),
        ] {
            assert_eq!(Reach::of(state, outcome, past_the_dot), reach, "{state} {outcome:?} {past_the_dot}");
        }
    }

    #[test]
    fn of_two_digests_the_one_that_waits_counts_and_then_the_later_one() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let reached = |reach, id, second| Reached { reach, digest: Some((Uuid::from_u128(id), at(second))) };
        let [early, late] = [reached(Reach::Sent, 1, 1), reached(Reach::Sent, 2, 2)];
        let waiting = reached(Reach::Waiting, 3, 1);
        for (one, other, counts) in [
            (early, late, late),
            (late, early, late),
            (waiting, late, waiting),
            (late, waiting, waiting),
            (Reached::PENDING, early, early),
            (early, Reached::PENDING, early),
        ] {
            assert_eq!(one.or(other), counts);
        }
    }
}
