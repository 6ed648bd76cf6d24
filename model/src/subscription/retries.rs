//! The next try of a notice that was not delivered.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{DeliveryResult, Notice};
use crate::StoredWait;

/// The time from the first try of a notice to its last.
pub const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Seconds between the first tries of a notice. Later ones are an hour apart.
const BETWEEN: [i64; 6] = [10, 30, 60, 300, 900, 1_800];
const LATER: i64 = 3_600;

impl StoredWait {
    /// A notice to a subscription is tried again.
    pub const NOTICE_RETRY: Self = Self::of(Duration::from_secs(LATER.unsigned_abs()));
}

/// Seconds between looks at a receiver that does not answer. Later ones are five minutes apart.
const AWAY: [u64; 5] = [5, 15, 30, 60, 120];
const STILL_AWAY: u64 = 300;

/// Returns the time of the next try of a notice that was tried `tries` times before this one. The last try is 24 hours after
/// the first. `None`: that was the last.
#[must_use]
pub fn retry_at(first_tried_at: Timestamp, tries: u32, now: Timestamp) -> Option<Timestamp> {
    let last = first_tried_at.saturating_add(GIVE_UP_AFTER).unwrap_or(Timestamp::MAX);
    let seconds = BETWEEN.get(usize::try_from(tries).unwrap_or(usize::MAX)).copied().unwrap_or(LATER);
    let next = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    (now < last).then(|| next.min(last))
}

/// Returns the pause before a receiver that did not answer `times` times in a row is tried again.
#[must_use]
pub fn away_for(times: u32) -> Duration {
    let before = usize::try_from(times).unwrap_or(usize::MAX).saturating_sub(1);
    Duration::from_secs(AWAY.get(before).copied().unwrap_or(STILL_AWAY))
}

/// The ends of deliveries, as the store records them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    pub delivered: Vec<i64>,
    /// Notices that failed by themselves, each with the time of its next try. `None`: it is a dead letter.
    pub failed: Vec<(i64, DeliveryResult, Option<Timestamp>)>,
    /// The receiver does not answer. Each notice that waits has been tried with that.
    pub away: Option<DeliveryResult>,
    /// The receiver answered 410.
    pub gone: bool,
}

/// Decides what follows from the deliveries of a batch.
///
/// A receiver that answered nothing is away: no notice is to blame, and all wait for the receiver. If it took another notice
/// meanwhile, or answered it, each failure is that of its notice.
#[must_use]
pub fn settled<'a>(tried: impl IntoIterator<Item = (&'a Notice, DeliveryResult)>, now: Timestamp) -> Settled {
    let mut settled = Settled::default();
    let mut unanswered = Vec::new();
    for (notice, result) in tried {
        // A first try that lies ahead was recorded by a wrong clock.
        let retry = retry_at(notice.first_tried_at.map_or(now, |first| first.min(now)), notice.tries, now);
        match result {
            DeliveryResult::Delivered => settled.delivered.push(notice.seq),
            DeliveryResult::Gone => settled.gone = true,
            DeliveryResult::Refused => settled.failed.push((notice.seq, result, retry)),
            DeliveryResult::Busy | DeliveryResult::Unreachable | DeliveryResult::TimedOut => {
                unanswered.push((notice.seq, result, retry));
            }
        }
    }
    if settled.delivered.is_empty() && settled.failed.is_empty() {
        settled.away = unanswered.first().map(|(_, result, _)| *result);
    } else {
        settled.failed.extend(unanswered);
    }
    settled
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::subscription::{About, NoticeType};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn notice(seq: i64) -> Notice {
        Notice {
            seq,
            id: Uuid::from_u128(1),
            event: NoticeType::DigestSent,
            lane: String::new(),
            about: About::default(),
            tries: 0,
            first_tried_at: None,
        }
    }

    #[test]
    fn the_last_try_is_24_hours_after_the_first() {
        let (mut now, mut tries) = (at(0), 0);
        let mut times = Vec::new();
        while let Some(next) = retry_at(at(0), tries, now) {
            (now, tries) = (next, tries + 1);
            times.push(now.duration_since(at(0)).as_secs());
        }
        assert_eq!(times[..7], [10, 40, 100, 400, 1_300, 3_100, 6_700]);
        assert_eq!(times.last(), Some(&(24 * 3_600)));
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_receiver_that_stays_away_is_tried_every_five_minutes() {
        let pauses: Vec<_> = (1..8).map(|times| away_for(times).as_secs()).collect();
        assert_eq!(pauses, [5, 15, 30, 60, 120, 300, 300]);
    }

    #[test]
    fn a_receiver_is_away_if_it_answered_no_notice() {
        use DeliveryResult::{Busy, Delivered, Gone, Refused, TimedOut};
        let (one, two) = (notice(1), notice(2));
        let of = |results: [DeliveryResult; 2]| settled([&one, &two].into_iter().zip(results), at(0));
        assert_eq!(of([TimedOut, Busy]), Settled { away: Some(TimedOut), ..Settled::default() });
        let later = Some(at(10));
        let mixed = of([Delivered, Busy]);
        assert_eq!((mixed.delivered, mixed.failed, mixed.away), (vec![1], vec![(2, Busy, later)], None));
        let refused = of([Refused, TimedOut]);
        assert_eq!((refused.failed, refused.away), (vec![(1, Refused, later), (2, TimedOut, later)], None));
        assert!(of([Delivered, Gone]).gone);
    }

    #[test]
    fn a_notice_that_fails_after_24_hours_is_a_dead_letter() {
        let old = Notice { tries: 29, first_tried_at: Some(at(-86_400)), ..notice(1) };
        let failed = settled([(&old, DeliveryResult::Refused)], at(0)).failed;
        assert_eq!(failed, [(1, DeliveryResult::Refused, None)]);
    }
}
