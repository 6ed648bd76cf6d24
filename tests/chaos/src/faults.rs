//! The faults of a run, each with its end.

use std::time::Duration;

use rand::{RngExt, rngs::ChaCha8Rng};
use tidings_harness::proxy::Network;

use super::{
    act::{Act, Fault, Link, Smtp},
    deal::{dealt, every, index, jitter, one_of, pace},
    disasters::Disaster,
    setup::WORKERS,
};

/// The longest outage of the store or of Temporal.
const LONGEST_OUTAGE: Duration = Duration::from_mins(3);
/// The highest mean duration of a fault. A store that is always away leaves nothing to break.
const OUTAGE: Duration = Duration::from_secs(10);
/// The longest time between two faults.
const GAP: Duration = Duration::from_secs(8);

/// Indices of Temporal and of the gateway among the parts that break.
const TEMPORAL: usize = WORKERS;
const GATEWAY: usize = WORKERS + 3 + WORKERS;

/// The faults of a run of this length with their times. Each part has one fault at a time, and none amid a disaster of its own.
pub(super) fn faults(length: Duration, disasters: &[Disaster], random: &mut ChaCha8Rng) -> Vec<(Duration, Act)> {
    let deck = deck_of_faults(length);
    let gap = pace(length, deck.len(), GAP);
    let mut steps = Vec::new();
    // The end of the last fault of workers, Temporal, the store, the relays, the links of workers, and the gateway.
    let mut whole = [Duration::ZERO; GATEWAY + 1];
    for (at, card) in every(gap, length).zip(dealt(deck, random.random())) {
        let at = at + jitter(gap, random);
        let (what, first, then) = card.draw(random);
        let lasts = match card {
            Card::KillWorker | Card::KillGateway => Duration::from_millis(random.random_range(0..2_000)),
            _ => outage(length, random.random()),
        };
        let mut at = at.max(whole[what]);
        if matches!(what, TEMPORAL | GATEWAY) {
            at = disasters.iter().fold(at, |at, disaster| disaster.after(at, lasts));
        }
        steps.push((at, Act::Fault(first)));
        if let Some(then) = then {
            whole[what] = at + lasts + Duration::from_millis(200);
            steps.push((at + lasts, Act::Fault(then)));
        }
    }
    steps
}

/// A duration for a number from 0 to 1. Most durations are short, and a few are as long as the longest.
fn outage(length: Duration, luck: f64) -> Duration {
    let longest = LONGEST_OUTAGE.min(length / 12).max(Duration::from_secs(1));
    let mean = OUTAGE.min(longest / 4);
    // The mean of `x.powi(n)` is 1 / (n + 1) for a uniform `x`.
    let exponent = longest.div_duration_f64(mean) - 1.0;
    longest.mul_f64(luck.powf(exponent)).max(Duration::from_millis(500))
}

/// A fault whose details are not drawn yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Card {
    KillWorker,
    PauseWorker,
    KillTemporal,
    PauseTemporal,
    KillStore,
    PauseStore,
    RefuseLedger,
    KillGateway,
    PauseGateway,
    Slow,
    TakeAndClose,
    LoseAndClose,
    CloseInBody,
    Defer,
    Bounce,
    Policy,
    Refuse,
    SlowTemporal,
    CutTemporal,
    SlowStore,
    CutStore,
    SlowRelay,
    CutRelay,
}

impl Card {
    /// The index of the broken part in `whole`, its fault, and the act that ends the fault unless it ends by itself.
    fn draw(self, random: &mut ChaCha8Rng) -> (usize, Fault, Option<Fault>) {
        let worker = index(random, WORKERS);
        let times = 1 + index(random, 4);
        // The bulk stream's first relay, its second one, which is used while the breaker of the first is open, and the
        // relay of single messages.
        let relay = one_of(&[0, 0, 1, 2], random);
        let smtp = |smtp| (WORKERS + 2, Fault::Relay(relay, smtp), None);
        match self {
            Self::KillWorker => (worker, Fault::KillWorker(worker), Some(Fault::StartWorker(worker))),
            Self::PauseWorker => (worker, Fault::PauseWorker(worker), Some(Fault::ContinueWorker(worker))),
            Self::KillTemporal => (TEMPORAL, Fault::KillTemporal, Some(Fault::StartTemporal)),
            Self::PauseTemporal => (TEMPORAL, Fault::PauseTemporal, Some(Fault::ContinueTemporal)),
            Self::KillStore => (TEMPORAL + 1, Fault::KillStore, Some(Fault::StartStore)),
            Self::PauseStore => (TEMPORAL + 1, Fault::PauseStore, Some(Fault::ContinueStore)),
            Self::RefuseLedger => (TEMPORAL + 1, Fault::RefuseLedger, Some(Fault::AcceptLedger)),
            Self::KillGateway => (GATEWAY, Fault::KillGateway, Some(Fault::StartGateway)),
            Self::PauseGateway => (GATEWAY, Fault::PauseGateway, Some(Fault::ContinueGateway)),
            Self::Slow => smtp(Smtp::Slow(Duration::from_millis(random.random_range(500..4_000)), times)),
            Self::TakeAndClose => smtp(Smtp::TakeAndClose(times)),
            Self::LoseAndClose => smtp(Smtp::LoseAndClose(times)),
            Self::CloseInBody => smtp(Smtp::CloseInBody(times)),
            Self::Defer => smtp(Smtp::Defer(times * 3)),
            Self::Bounce => smtp(Smtp::Bounce),
            Self::Policy => smtp(Smtp::Policy),
            Self::Refuse => (WORKERS + 2, Fault::Relay(relay, Smtp::Refuse), Some(Fault::HealRelays)),
            Self::SlowTemporal => link(WORKERS + 3 + worker, Link::Temporal(worker), slow(random)),
            Self::CutTemporal => link(WORKERS + 3 + worker, Link::Temporal(worker), broken(random)),
            Self::SlowStore => link(WORKERS + 3 + worker, Link::Store(worker), slow(random)),
            Self::CutStore => link(WORKERS + 3 + worker, Link::Store(worker), broken(random)),
            Self::SlowRelay => link(WORKERS + 2, Link::Relay(relay), slow(random)),
            Self::CutRelay => link(WORKERS + 2, Link::Relay(relay), broken(random)),
        }
    }
}

/// A fault of a link, and its end.
fn link(what: usize, link: Link, network: Network) -> (usize, Fault, Option<Fault>) {
    (what, Fault::Link(link, network), Some(Fault::Link(link, Network::Whole)))
}

/// A delay in each direction.
fn slow(random: &mut ChaCha8Rng) -> Network {
    Network::Slow(Duration::from_millis(random.random_range(50..1_500)))
}

/// A link whose peers hear of the cut, or one that only falls silent.
fn broken(random: &mut ChaCha8Rng) -> Network {
    one_of(&[Network::Cut, Network::Frozen], random)
}

fn deck_of_faults(length: Duration) -> Vec<Card> {
    use Card::{
        Bounce, CloseInBody, CutRelay, CutStore, CutTemporal, Defer, KillGateway, KillStore, KillTemporal, KillWorker,
        LoseAndClose, PauseGateway, PauseStore, PauseTemporal, PauseWorker, Policy, Refuse, RefuseLedger, Slow,
        SlowRelay, SlowStore, SlowTemporal, TakeAndClose,
    };
    let mut deck = vec![
        KillWorker,
        KillWorker,
        KillWorker,
        KillWorker,
        PauseWorker,
        PauseWorker,
        KillTemporal,
        PauseTemporal,
        KillStore,
        PauseStore,
        RefuseLedger,
        KillGateway,
        KillGateway,
        PauseGateway,
        Slow,
        TakeAndClose,
        LoseAndClose,
        CloseInBody,
        Defer,
        Bounce,
        Policy,
        Refuse,
        SlowTemporal,
        CutTemporal,
        SlowStore,
        CutStore,
        SlowRelay,
        CutRelay,
    ];
    if length > Duration::from_mins(5) {
        deck.extend([
            KillWorker,
            KillWorker,
            KillWorker,
            KillStore,
            KillStore,
            KillTemporal,
            KillTemporal,
            TakeAndClose,
        ]);
    }
    deck
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn an_hour_has_outages_of_minutes_between_longer_healthy_times() {
        let hour = Duration::from_hours(1);
        for seed in 0..20 {
            let steps = faults(hour, &[], &mut ChaCha8Rng::seed_from_u64(seed));
            for (gone, back) in [
                (
                    &[Fault::KillStore, Fault::PauseStore, Fault::RefuseLedger][..],
                    &[Fault::StartStore, Fault::ContinueStore, Fault::AcceptLedger][..],
                ),
                (&[Fault::KillTemporal, Fault::PauseTemporal], &[Fault::StartTemporal, Fault::ContinueTemporal]),
            ] {
                let when = |what: &[Fault]| {
                    let is_one = |act: &Act| matches!(act, Act::Fault(fault) if what.contains(fault));
                    let of = steps.iter().filter(|(_, act)| is_one(act));
                    of.map(|(at, _)| *at).collect::<Vec<_>>()
                };
                let outages: Vec<_> =
                    when(back).into_iter().zip(when(gone)).map(|(back, gone)| back.saturating_sub(gone)).collect();
                let (all, longest) = (outages.iter().sum::<Duration>(), outages.iter().max().unwrap());
                assert!(all < hour / 3 && *longest > Duration::from_secs(30), "seed {seed}: {all:?}, {longest:?}");
            }
        }
    }
}
