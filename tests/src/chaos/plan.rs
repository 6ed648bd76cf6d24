//! The schedule of a run: a pure function of seed and length.
//!
//! Load, orders and faults are dealt from three decks of cards. A deck is dealt to its end before it is shuffled again, so
//! that even a short run meets every kind of trouble.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng, seq::SliceRandom};
use tidings_workflows::Key;

use super::{
    act::{Act, Fault, Order, Pick, Smtp},
    settings::{CATEGORIES, CHOICES, TENANTS, digest_type},
};

/// Workers of a run.
pub const WORKERS: usize = 3;
/// Events a second: an hour has more than 100,000.
const RATE: u32 = 36;
/// A producer begins so often.
const BATCH_EVERY: Duration = Duration::from_secs(2);
/// The longest that the store or Temporal is away.
const LONGEST_OUTAGE: Duration = Duration::from_secs(180);

/// What happens when.
#[derive(Debug, PartialEq)]
pub struct Plan {
    pub seed: u64,
    pub length: Duration,
    /// Those to whom events are addressed, of each tenant.
    pub users: Vec<String>,
    /// By number, which is in their id, too.
    pub events: Vec<Event>,
    /// Numbers of events that are handed over together.
    pub batches: Vec<std::ops::Range<u32>>,
    /// By time since the start.
    pub steps: Vec<(Duration, Act)>,
}

/// An event to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub key: Key,
    pub category: &'static str,
    pub entity: u32,
    pub urgent: bool,
}

impl Plan {
    /// The schedule. The same seed and length make the same.
    #[must_use]
    pub fn new(seed: u64, length: Duration) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let users = if length < Duration::from_mins(5) { 12 } else { 40 };
        let mut plan = Self {
            seed,
            length,
            users: (0..users).map(|n| format!("u{n}")).collect(),
            events: Vec::new(),
            batches: Vec::new(),
            steps: Vec::new(),
        };
        plan.load(&mut random);
        plan.orders(&mut random);
        plan.faults(&mut random);
        plan.steps.sort_by_key(|(at, _)| *at);
        plan
    }

    /// How long it may take until the dust has settled: what was put off is put off for as long again, at most, and waits
    /// between attempts grow up to minutes.
    #[must_use]
    pub fn settle_within(&self) -> Duration {
        (self.length * 2).clamp(Duration::from_mins(2), Duration::from_mins(15))
    }

    /// Every key that an event of the plan has.
    #[must_use]
    pub fn keys(&self) -> std::collections::BTreeSet<Key> {
        self.events.iter().map(|event| event.key.clone()).collect()
    }

    fn load(&mut self, random: &mut ChaCha8Rng) {
        let per_batch = RATE * u32::try_from(BATCH_EVERY.as_secs()).unwrap_or(1);
        for at in every(BATCH_EVERY, self.length) {
            let first = self.count();
            for _ in 0..per_batch {
                let event = self.event(random);
                self.events.push(event);
            }
            self.steps.push((at, Act::Emit(self.batches.len())));
            self.batches.push(first..self.count());
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.events.len()).unwrap_or(u32::MAX)
    }

    fn event(&self, random: &mut ChaCha8Rng) -> Event {
        Event {
            key: self.key(random),
            category: one_of(&CATEGORIES, random),
            entity: random.random_range(0..5),
            urgent: random.random_ratio(1, 200),
        }
    }

    /// A third of all that happens is about the same few users.
    fn key(&self, random: &mut ChaCha8Rng) -> Key {
        let hot = self.users.len() / 6;
        let users = if random.random_ratio(1, 3) { &self.users[..hot] } else { &self.users[..] };
        let tenant = one_of(&TENANTS, random).to_owned();
        let user = users[index(random, users.len())].clone();
        let digest_type = digest_type(random).to_owned();
        Key { tenant, digest_type, user }
    }

    /// What producers do beside handing over, what operators say, what recipients choose.
    fn orders(&mut self, random: &mut ChaCha8Rng) {
        let deck = self.deck_of_orders();
        let gap = pace(self.length, deck.len(), Duration::from_millis(1_500));
        for (at, card) in every(gap, self.length).zip(dealt(deck, random.random())) {
            let act = match card {
                Act::EmitAgain(_) => Act::EmitAgain(self.batch_by(at, random)),
                // Of those so far, and of those to come within the next half of a minute.
                Act::Retract { .. } => {
                    Act::Retract { event: random.random_range(0..self.batches[self.batch_at(at + gap * 20)].end) }
                }
                Act::Send { .. } => Act::Send { number: random.random_range(0..=self.count() / 50) },
                Act::Order(Order::Cadence(Some(_)), _) => {
                    Act::Order(Order::Cadence(Some(one_of(&CHOICES, random))), self.key(random))
                }
                Act::Order(order, _) => Act::Order(order, self.key(random)),
                Act::Pick(pick, _) => Act::Pick(pick, random.random()),
                other => other,
            };
            self.steps.push((at + jitter(gap, random), act));
        }
    }

    fn deck_of_orders(&self) -> Vec<Act> {
        use Order::{
            Cadence, Cancel, CloseRelay, Drop, Flush, Grant, Hold, Off, On, OpenRelay, Pause, Preview, Release,
            ReleaseTenant, Resume, Retime, Status, Terminate, Withdraw,
        };
        let anybody = &self.events[0].key;
        let orders = [
            Flush,
            Flush,
            Hold,
            Release,
            ReleaseTenant,
            Drop,
            Drop,
            Retime,
            Preview,
            Status,
            Cadence(Some("")),
            Cadence(None),
            Off,
            On,
            Pause,
            Resume,
            Withdraw,
            Grant,
            Cancel,
            Cancel,
            Terminate,
            OpenRelay(0),
            CloseRelay(0),
        ];
        let picks = [Pick::Reopen, Pick::Reopen, Pick::RetryMessage, Pick::CancelMessage, Pick::Lift];
        let producers = [
            Act::EmitAgain(0),
            Act::EmitAgain(0),
            Act::KillEmit { again: true },
            Act::KillEmit { again: false },
            Act::Retract { event: 0 },
            Act::Retract { event: 0 },
            Act::Send { number: 0 },
            Act::Send { number: 0 },
        ];
        let orders = orders.into_iter().map(|order| Act::Order(order, anybody.clone()));
        orders.chain(picks.into_iter().map(|pick| Act::Pick(pick, 0))).chain(producers).collect()
    }

    fn batch_at(&self, at: Duration) -> usize {
        let batch = at.as_millis() / BATCH_EVERY.as_millis();
        usize::try_from(batch).unwrap_or(usize::MAX).min(self.batches.len() - 1)
    }

    fn batch_by(&self, at: Duration, random: &mut ChaCha8Rng) -> usize {
        index(random, self.batch_at(at) + 1)
    }

    /// What breaks, and when it is whole again. Each of them is broken in one way at a time.
    fn faults(&mut self, random: &mut ChaCha8Rng) {
        let deck = deck_of_faults(self.length);
        let gap = pace(self.length, deck.len(), Duration::from_secs(8));
        // Workers, Temporal, the store, the relays: when the last trouble of each is over.
        let mut whole = [Duration::ZERO; WORKERS + 3];
        for (at, card) in every(gap, self.length).zip(dealt(deck, random.random())) {
            let at = at + jitter(gap, random);
            let (what, first, then) = card.draw(random);
            let at = at.max(whole[what]);
            let longest = LONGEST_OUTAGE.min(self.length / 12).max(Duration::from_secs(1));
            let lasts = match card {
                Card::KillWorker => Duration::from_millis(random.random_range(0..2_000)),
                // Half are over within a fraction of the longest.
                _ => longest.mul_f64(random.random::<f64>().powi(3)).max(Duration::from_millis(500)),
            };
            self.steps.push((at, Act::Fault(first)));
            if let Some(then) = then {
                whole[what] = at + lasts + Duration::from_millis(200);
                self.steps.push((at + lasts, Act::Fault(then)));
            }
        }
    }
}

/// A fault before it is drawn in detail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Card {
    KillWorker,
    PauseWorker,
    KillTemporal,
    PauseTemporal,
    KillStore,
    PauseStore,
    Slow,
    TakeAndClose,
    LoseAndClose,
    CloseInBody,
    Defer,
    Bounce,
    Policy,
    Refuse,
}

impl Card {
    /// What breaks (an index of `whole`), how, and how it is mended, unless it mends itself.
    fn draw(self, random: &mut ChaCha8Rng) -> (usize, Fault, Option<Fault>) {
        const TEMPORAL: usize = WORKERS;
        let worker = index(random, WORKERS);
        let times = 1 + index(random, 4);
        // The bulk stream's first relay, its second one, which is met while the first is left alone, and that of single messages.
        let relay = one_of(&[0, 0, 1, 2], random);
        let smtp = |smtp| (WORKERS + 2, Fault::Relay(relay, smtp), None);
        match self {
            Self::KillWorker => (worker, Fault::KillWorker(worker), Some(Fault::StartWorker(worker))),
            Self::PauseWorker => (worker, Fault::PauseWorker(worker), Some(Fault::ContinueWorker(worker))),
            Self::KillTemporal => (TEMPORAL, Fault::KillTemporal, Some(Fault::StartTemporal)),
            Self::PauseTemporal => (TEMPORAL, Fault::PauseTemporal, Some(Fault::ContinueTemporal)),
            Self::KillStore => (TEMPORAL + 1, Fault::KillStore, Some(Fault::StartStore)),
            Self::PauseStore => (TEMPORAL + 1, Fault::PauseStore, Some(Fault::ContinueStore)),
            Self::Slow => smtp(Smtp::Slow(Duration::from_millis(random.random_range(500..4_000)), times)),
            Self::TakeAndClose => smtp(Smtp::TakeAndClose(times)),
            Self::LoseAndClose => smtp(Smtp::LoseAndClose(times)),
            Self::CloseInBody => smtp(Smtp::CloseInBody(times)),
            Self::Defer => smtp(Smtp::Defer(times * 3)),
            Self::Bounce => smtp(Smtp::Bounce),
            Self::Policy => smtp(Smtp::Policy),
            Self::Refuse => (WORKERS + 2, Fault::Relay(relay, Smtp::Refuse), Some(Fault::HealRelays)),
        }
    }
}

fn deck_of_faults(length: Duration) -> Vec<Card> {
    use Card::{
        Bounce, CloseInBody, Defer, KillStore, KillTemporal, KillWorker, LoseAndClose, PauseStore, PauseTemporal,
        PauseWorker, Policy, Refuse, Slow, TakeAndClose,
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
        Slow,
        TakeAndClose,
        LoseAndClose,
        CloseInBody,
        Defer,
        Bounce,
        Policy,
        Refuse,
    ];
    if length > Duration::from_mins(5) {
        deck.extend([KillWorker, KillWorker, KillWorker, KillStore, KillTemporal, TakeAndClose]);
    }
    deck
}

/// So often that the deck is dealt once in nine tenths of the run, and `slowest` apart at most.
fn pace(length: Duration, cards: usize, slowest: Duration) -> Duration {
    let cards = u32::try_from(cards + 1).unwrap_or(u32::MAX);
    (length * 9 / 10 / cards).min(slowest)
}

fn every(gap: Duration, length: Duration) -> impl Iterator<Item = Duration> {
    (1..).map(move |n| gap * n).take_while(move |at| *at <= length * 95 / 100)
}

/// The deck, shuffled and dealt for ever.
fn dealt<T: Clone>(deck: Vec<T>, seed: u64) -> impl Iterator<Item = T> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    std::iter::repeat_with(move || {
        let mut deck = deck.clone();
        deck.shuffle(&mut random);
        deck
    })
    .flatten()
}

fn jitter(gap: Duration, random: &mut ChaCha8Rng) -> Duration {
    gap.mul_f64(random.random::<f64>() / 2.0)
}

fn one_of<T: Copy>(of: &[T], random: &mut ChaCha8Rng) -> T {
    of[index(random, of.len())]
}

/// Drawn as 32 bits, so that a seed means the same on every machine.
fn index(random: &mut ChaCha8Rng, length: usize) -> usize {
    random.random_range(0..u32::try_from(length).unwrap_or(u32::MAX)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SHORT: Duration = Duration::from_secs(40);
    const HOUR: Duration = Duration::from_mins(60);

    fn counts(plan: &Plan) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (_, act) in &plan.steps {
            *counts.entry(act.name()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn a_seed_makes_the_same_schedule_and_another_seed_another() {
        assert_eq!(Plan::new(7, SHORT), Plan::new(7, SHORT));
        assert_ne!(Plan::new(7, SHORT).steps, Plan::new(8, SHORT).steps);
    }

    #[test]
    fn the_shortest_run_has_every_kind_of_act_that_the_longest_has() {
        let kinds = |length, seed| counts(&Plan::new(seed, length)).into_keys().collect::<Vec<_>>();
        for seed in 0..20 {
            assert_eq!(kinds(SHORT, seed), kinds(HOUR, 1), "seed {seed}");
        }
    }

    #[test]
    fn an_hour_has_a_hundred_kills_and_a_hundred_thousand_events() {
        let plan = Plan::new(1, HOUR);
        let kills = plan.steps.iter().filter(|(_, act)| matches!(act, Act::Fault(fault) if fault.kills())).count();
        println!("{kills} kills, {} events, {:?}", plan.events.len(), counts(&plan));
        assert!(kills >= 100 && plan.events.len() >= 100_000);
    }

    #[test]
    fn what_breaks_is_mended_before_it_breaks_again() {
        for seed in 0..50 {
            let mut broken = 0;
            for (at, act) in &Plan::new(seed, SHORT).steps {
                match act {
                    Act::Fault(Fault::KillStore | Fault::PauseStore | Fault::KillTemporal | Fault::PauseTemporal) => {
                        broken += 1;
                    }
                    Act::Fault(
                        Fault::StartStore | Fault::ContinueStore | Fault::StartTemporal | Fault::ContinueTemporal,
                    ) => broken -= 1,
                    _ => {}
                }
                assert!((0..=2).contains(&broken), "seed {seed} at {at:?}");
            }
            assert_eq!(broken, 0, "seed {seed}");
        }
    }
}
