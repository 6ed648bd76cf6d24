//! How long to wait for an operator's pause (rule 35), and how overdue digests are spread when it ends
//! (rule 30).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{pause::PauseDetails, rules::spread, step::PauseWait};

/// Minimum poll interval. Each key adds its share of another one, so not all query the store at once.
pub const LOOK_AGAIN_AFTER: Duration = Duration::from_mins(30);

/// How a digest or message workflow should wait for a pause in force. `spread` is the digest type's.
#[must_use]
pub fn pause_wait(
    paused: Option<&PauseDetails>,
    workflow_id: &str,
    spread: Option<Duration>,
    now: Timestamp,
) -> Option<PauseWait> {
    let paused = paused.filter(|paused| paused.in_force(now))?;
    let look_again = later(now, LOOK_AGAIN_AFTER + spread::spread_share(workflow_id, LOOK_AGAIN_AFTER));
    let share = spread::overdue_share(workflow_id, spread);
    let look_at = paused.until.map_or(look_again, |until| later(until, share).min(look_again));
    Some(PauseWait { paused: paused.clone(), look_at, share })
}

fn later(at: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| at.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn paused(until: Option<i64>) -> PauseDetails {
        PauseDetails { by: "ann".into(), why: "wrong prices".into(), since: at(NOW - 9), until: until.map(at) }
    }

    fn wait_of(user: usize, until: Option<i64>, spread: Option<Duration>) -> Option<PauseWait> {
        pause_wait(Some(&paused(until)), &format!("digest/acme/alerts/{user}"), spread, at(NOW))
    }

    #[test]
    fn nothing_waits_without_a_pause_or_when_its_time_is_over() {
        assert_eq!(pause_wait(None, "digest/acme/alerts/ann", None, at(NOW)), None);
        for (until, waits) in [(NOW - 1, false), (NOW, false), (NOW + 1, true)] {
            assert_eq!(wait_of(1, Some(until), None).is_some(), waits, "{until}");
        }
    }

    #[test]
    fn a_pause_with_an_end_is_spread_after_that_end() {
        for (spread, seconds) in [(None, 60), (Some(Duration::from_mins(10)), 600)] {
            let looks = |user| wait_of(user, Some(NOW + 300), spread).unwrap().look_at.as_second() - NOW - 300;
            let looks: Vec<_> = (0..200).map(looks).collect();
            assert!(looks.iter().all(|after| (0..seconds).contains(after)), "{looks:?}");
            assert!(looks.iter().max().unwrap() - looks.iter().min().unwrap() > seconds * 9 / 10, "{looks:?}");
        }
    }

    #[test]
    fn a_long_pause_is_looked_at_at_most_twice_an_hour() {
        for until in [None, Some(NOW + 100 * 3600)] {
            let looks: Vec<_> =
                (0..200).map(|user| wait_of(user, until, None).unwrap().look_at.as_second() - NOW).collect();
            assert!(looks.iter().all(|after| (1800..3600).contains(after)), "{looks:?}");
            assert!(looks.iter().max().unwrap() - looks.iter().min().unwrap() > 1600, "{looks:?}");
        }
    }

    #[test]
    fn a_key_has_the_same_share_each_time() {
        let share = |until| wait_of(7, until, None).unwrap().share;
        assert_eq!(share(None), share(Some(NOW + 5)));
        assert!(share(None) < spread::OVERDUE_SPREAD);
    }
}
