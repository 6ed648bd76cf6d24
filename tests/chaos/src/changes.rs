//! The changes of a run: workers and the gateway start again with another file, another link key first, and another clock.

use std::time::Duration;

use rand::{RngExt, rngs::ChaCha8Rng};

use super::{
    act::{Act, Fault},
    deal::{dealt, every, pace},
    setup::{SMALL_SKEW, Setup, WORKERS},
};

/// Seconds by which a worker's clock is off that must not work.
const WRONG: i64 = 24 * 3600;
/// The longest time between two changes.
const GAP: Duration = Duration::from_secs(3);

/// The changes of a run of this length: each process in turn gets another setup. At the end all have the first one again.
pub(super) fn changes(length: Duration, clocks: bool, random: &mut ChaCha8Rng) -> Vec<(Duration, Act)> {
    // Half of the starts are with the right clock.
    let skews: &[i64] = if clocks { &[0, 0, 0, -SMALL_SKEW, SMALL_SKEW] } else { &[0] };
    let of_workers = [skews, if clocks { &[WRONG] } else { &[] }].concat();
    let deck: Vec<Option<usize>> = (0..WORKERS).map(Some).chain([None]).collect();
    let gap = pace(length, deck.len(), GAP);
    let mut steps = Vec::new();
    for (at, worker) in every(gap, length).zip(dealt(deck.clone(), random.random())) {
        steps.push((at, change(worker, Setup::draw(worker.map_or(skews, |_| &of_workers), random))));
    }
    steps.extend(deck.into_iter().map(|worker| (length, change(worker, Setup::default()))));
    steps
}

/// The change of one of the workers, or of the gateway.
const fn change(worker: Option<usize>, setup: Setup) -> Act {
    Act::Fault(match worker {
        Some(number) => Fault::ChangeWorker(number, setup),
        None => Fault::ChangeGateway(setup),
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::{super::setup::KEY_COUNT, *};

    const LENGTH: Duration = Duration::from_mins(10);

    fn setups(clocks: bool) -> Vec<(Duration, Fault)> {
        let steps = changes(LENGTH, clocks, &mut ChaCha8Rng::seed_from_u64(7));
        let faults = steps
            .into_iter()
            .filter_map(|(at, act)| if let Act::Fault(fault) = act { Some((at, fault)) } else { None });
        faults.collect()
    }

    #[test]
    fn a_process_starts_again_every_few_seconds_and_each_kind_of_change_happens() {
        let of = |fault: &Fault| match fault {
            Fault::ChangeWorker(_, setup) | Fault::ChangeGateway(setup) => *setup,
            other => panic!("{other:?}"),
        };
        let all = setups(true);
        assert!(all.len() >= 180, "{} changes", all.len());
        for happens in [
            |setup: Setup| setup.edition.renamed,
            |setup: Setup| setup.edition.slower,
            |setup: Setup| setup.key == KEY_COUNT - 1,
            |setup: Setup| setup.skew == SMALL_SKEW,
            |setup: Setup| setup.is_refused(),
        ] {
            assert!(all.iter().filter(|(_, fault)| happens(of(fault))).count() >= 5);
        }
        assert!(setups(false).iter().all(|(_, fault)| of(fault).skew == 0));
    }

    #[test]
    fn only_workers_get_a_wrong_clock_and_in_the_end_all_agree() {
        let all = setups(true);
        for (at, fault) in &all {
            match fault {
                Fault::ChangeWorker(_, setup) | Fault::ChangeGateway(setup) if *at == LENGTH => {
                    assert_eq!(*setup, Setup::default());
                }
                Fault::ChangeGateway(setup) => assert!(!setup.is_refused()),
                _ => {}
            }
        }
        assert_eq!(all.iter().filter(|(at, _)| *at == LENGTH).count(), WORKERS + 1);
    }
}
