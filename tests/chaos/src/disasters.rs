//! The disasters of a run: Temporal is away for long while producers go on posting and the gateway is killed again and again, and
//! Temporal loses its data amid open windows.

use std::time::Duration;

use super::act::{Act, Fault};

/// The time that has one of each disaster. A shorter run has one of each, too.
const PERIOD: Duration = Duration::from_hours(1);
/// The longest outage. It is a sixth of a shorter period.
const LONGEST: Duration = Duration::from_mins(10);
/// Interval between two kills of the gateway.
const KILL_EVERY: Duration = Duration::from_secs(3);
/// Time that a killed gateway is away.
const KILLED: Duration = Duration::from_millis(500);
/// Time after a disaster without another fault of Temporal and the gateway.
const REST: Duration = Duration::from_secs(2);

/// Faults of Temporal and the gateway, at their times.
pub(super) struct Disaster {
    pub from: Duration,
    pub until: Duration,
    pub steps: Vec<(Duration, Act)>,
    /// Producers post meanwhile.
    pub posts: bool,
}

impl Disaster {
    /// The time from which another fault of Temporal or the gateway may last this long.
    pub fn after(&self, at: Duration, lasts: Duration) -> Duration {
        let over = self.until + REST;
        if at < over && at + lasts + REST > self.from { over } else { at }
    }
}

/// The disasters of a run of this length, in the order of their times.
pub(super) fn disasters(length: Duration) -> Vec<Disaster> {
    let count = u32::try_from(length.as_secs() / PERIOD.as_secs()).unwrap_or(1).max(1);
    let period = length / count;
    (0..count)
        .flat_map(|n| [loss(period * n + period / 4, period), outage(period * n + period * 5 / 8, period)])
        .collect()
}

/// Temporal's database is deleted, and an operator restores what was lost once a new one runs.
fn loss(from: Duration, period: Duration) -> Disaster {
    let until = from + (period / 60).clamp(KILLED, Duration::from_secs(10));
    let steps =
        vec![(from, Act::Fault(Fault::LoseTemporal)), (until, Act::Fault(Fault::StartTemporal)), (until, Act::Restore)];
    Disaster { from, until, steps, posts: false }
}

fn outage(from: Duration, period: Duration) -> Disaster {
    let until = from + (period / 6).min(LONGEST);
    let kills = (0..).map(|n| from + KILLED + KILL_EVERY * n).take_while(|at| *at + KILLED < until);
    let mut steps: Vec<_> = kills
        .flat_map(|at| [(at, Act::Fault(Fault::KillGateway)), (at + KILLED, Act::Fault(Fault::StartGateway))])
        .collect();
    steps.insert(0, (from, Act::Fault(Fault::KillTemporal)));
    steps.push((until, Act::Fault(Fault::StartTemporal)));
    Disaster { from, until, steps, posts: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_ten_minutes_of_outage_and_two_hundred_kills() {
        let [loss, outage] = &disasters(PERIOD)[..] else { panic!("one of each") };
        assert!(!loss.posts && outage.posts && loss.until + REST < outage.from);
        assert_eq!(outage.until, outage.from + LONGEST);
        let kills = outage.steps.iter().filter(|(_, act)| *act == Act::Fault(Fault::KillGateway));
        assert_eq!(kills.count(), 200);
    }

    #[test]
    fn a_fault_that_would_meet_a_disaster_waits_for_its_end() {
        let disaster = outage(Duration::from_secs(100), Duration::from_mins(1));
        let seconds = Duration::from_secs;
        for (at, lasts, from) in [(0, 10, 0), (95, 2, 95), (95, 4, 112), (105, 1, 112), (112, 9, 112)] {
            assert_eq!(disaster.after(seconds(at), seconds(lasts)), seconds(from), "{at} {lasts}");
        }
    }
}
