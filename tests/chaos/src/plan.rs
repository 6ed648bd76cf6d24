//! The schedule of a run: a pure function of seed and length.
//!
//! Load, interventions and faults are dealt from three decks of cards. Every card is dealt before a deck is shuffled again, so
//! that even a short run has every kind of fault.

use std::{collections::BTreeSet, time::Duration};

use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use tidings_model::Key;

use super::{
    act::{Act, Fault, Intervention, Pick},
    changes::changes,
    deal::{dealt, every, index, jitter, one_of, pace},
    disasters::disasters,
    faults::faults,
    settings::{CATEGORIES, CHOICES, TENANTS, digest_type, renamed},
    setup::libfaketime,
};

/// Events a second. An hour has more than 100,000.
const RATE: u32 = 36;
/// Interval between two producers.
const BATCH_EVERY: Duration = Duration::from_secs(2);
/// The most events of one request, which stays below 1 MiB.
const POSTED: u32 = 1_000;

/// The schedule of a run.
#[derive(Debug, PartialEq)]
pub struct Plan {
    pub seed: u64,
    pub length: Duration,
    /// Users of each tenant.
    pub users: Vec<String>,
    /// Events by their number, which is also in their id.
    pub events: Vec<Event>,
    /// Numbers of the events that are handed over together.
    pub batches: Vec<std::ops::Range<u32>>,
    /// Acts by their time since the start.
    pub steps: Vec<(Duration, Act)>,
}

/// A planned event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub key: Key,
    pub category: &'static str,
    pub entity: u32,
    pub urgent: bool,
}

impl Plan {
    /// Makes the schedule. The same seed, length and rate make the same schedule. `rate` is the number of events a second that are
    /// posted while Temporal is away for long.
    #[must_use]
    pub fn new(seed: u64, length: Duration, rate: u32) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut plan = Self::drawn(seed, length, &mut random);
        let disasters = disasters(length);
        plan.steps.extend(faults(length, &disasters, &mut random));
        for disaster in disasters {
            if disaster.posts {
                plan.posts(disaster.from, disaster.until, rate, &mut random);
            }
            plan.steps.extend(disaster.steps);
        }
        plan.steps.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Makes the same load and interventions without faults, and without what an upgrade forbids while old and new workers run
    /// together, or an earlier build does not have: operators' pauses, erasures, the gateway, and emails that come back.
    #[must_use]
    pub fn calm(seed: u64, length: Duration) -> Self {
        let mut plan = Self::drawn(seed, length, &mut ChaCha8Rng::seed_from_u64(seed));
        plan.steps.retain(|(_, act)| match act {
            Act::Intervention(intervention, _) => !intervention.pauses() && *intervention != Intervention::Erase,
            Act::Return { .. } | Act::Click { .. } | Act::Report { .. } => false,
            _ => true,
        });
        plan.steps.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Makes the same load and interventions without faults: instead workers and the gateway start again with another file, another link
    /// key first and, with libfaketime, another clock. Nobody is erased before all of them agree at the end.
    #[must_use]
    pub fn changing(seed: u64, length: Duration) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut plan = Self::drawn(seed, length, &mut random);
        plan.steps.retain(|(_, act)| !matches!(act, Act::Intervention(Intervention::Erase, _)));
        plan.steps.extend(changes(length, libfaketime().is_some(), &mut random));
        plan.steps.sort_by_key(|(at, _)| *at);
        let key = Key { user: plan.erased().to_owned(), ..plan.key(&mut random) };
        plan.steps.push((length, Act::Intervention(Intervention::Erase, key)));
        plan
    }

    /// Reports a plan in which processes change their setup.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.steps.iter().any(|(_, act)| matches!(act, Act::Fault(Fault::ChangeWorker(..) | Fault::ChangeGateway(_))))
    }

    fn drawn(seed: u64, length: Duration, random: &mut ChaCha8Rng) -> Self {
        let users = if length < Duration::from_mins(5) { 12 } else { 40 };
        let mut plan = Self {
            seed,
            length,
            users: (0..users).map(|n| format!("u{n}")).collect(),
            events: Vec::new(),
            batches: Vec::new(),
            steps: Vec::new(),
        };
        plan.load(random);
        plan.interventions(random);
        plan
    }

    /// Adds one more event for each of these keys, as a batch that no step hands over.
    pub fn add(&mut self, keys: impl IntoIterator<Item = Key>) -> usize {
        let first = self.count();
        let event = |key| Event { key, category: CATEGORIES[0], entity: 0, urgent: false };
        self.events.extend(keys.into_iter().map(event));
        self.batches.push(first..self.count());
        self.batches.len() - 1
    }

    /// The longest time until every open window waits for something. A postponed deadline is postponed once more at
    /// most, and the wait between attempts grows to minutes.
    #[must_use]
    pub fn settle_within(&self) -> Duration {
        (self.length * 2).clamp(Duration::from_mins(2), Duration::from_mins(15))
    }

    /// The keys of all events, under each name that they have in the course of the run.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<Key> {
        let mut keys: BTreeSet<_> = self.events.iter().map(|event| event.key.clone()).collect();
        if self.changes() {
            let others: Vec<_> = keys.iter().filter_map(renamed).collect();
            keys.extend(others);
        }
        keys
    }

    /// The names of all kinds of acts.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<&'static str> {
        self.steps.iter().map(|(_, act)| act.name()).collect()
    }

    /// The user of each tenant who is erased now and then.
    #[must_use]
    pub fn erased(&self) -> &str {
        &self.users[self.users.len() - 1]
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

    /// Events that are posted from then until then, at this rate.
    fn posts(&mut self, from: Duration, until: Duration, rate: u32, random: &mut ChaCha8Rng) {
        let per_batch = rate.clamp(1, POSTED);
        let gap = Duration::from_secs(1) * per_batch / rate.max(1);
        for at in (0..).map(|n| from + gap * n).take_while(|at| *at < until) {
            let first = self.count();
            for _ in 0..per_batch {
                let event = self.event(random);
                self.events.push(event);
            }
            self.steps.push((at, Act::Post(self.batches.len())));
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

    /// A third of all events and interventions is about the same few users.
    fn key(&self, random: &mut ChaCha8Rng) -> Key {
        let hot = self.users.len() / 6;
        let users = if random.random_ratio(1, 3) { &self.users[..hot] } else { &self.users[..] };
        let tenant = one_of(&TENANTS, random).to_owned();
        let user = users[index(random, users.len())].clone();
        let digest_type = digest_type(random).to_owned();
        Key { tenant, digest_type, user }
    }

    /// Retracts and messages of producers, interventions of operators and choices of recipients.
    fn interventions(&mut self, random: &mut ChaCha8Rng) {
        let deck = self.deck_of_interventions();
        let gap = pace(self.length, deck.len(), Duration::from_millis(1_500));
        for (at, card) in every(gap, self.length).zip(dealt(deck, random.random())) {
            let act = match card {
                Act::EmitAgain(_) => Act::EmitAgain(self.batch_by(at, random)),
                // Draws from the events so far and those of the next half minute.
                Act::Retract { .. } => {
                    Act::Retract { event: random.random_range(0..self.batches[self.batch_at(at + gap * 20)].end) }
                }
                Act::Send { .. } => Act::Send { number: random.random_range(0..=self.count() / 50) },
                Act::Intervention(Intervention::Cadence(Some(_)), _) => {
                    Act::Intervention(Intervention::Cadence(Some(one_of(&CHOICES, random))), self.key(random))
                }
                Act::Intervention(Intervention::Erase, _) => {
                    let user = self.erased().to_owned();
                    Act::Intervention(Intervention::Erase, Key { user, ..self.key(random) })
                }
                Act::Intervention(intervention, _) => Act::Intervention(intervention, self.key(random)),
                Act::Return { .. } => Act::Return { number: random.random() },
                Act::Click { .. } => Act::Click { number: random.random() },
                Act::Report { .. } => Act::Report { number: random.random() },
                Act::Pick(pick, _) => Act::Pick(pick, random.random()),
                other => other,
            };
            self.steps.push((at + jitter(gap, random), act));
        }
    }

    fn deck_of_interventions(&self) -> Vec<Act> {
        use Intervention::{
            Cadence, Cancel, CloseRelay, Drop, Erase, Flush, Grant, Hold, Off, On, OpenRelay, Pause, PauseTenant,
            PauseType, Preview, Release, ReleaseTenant, Resume, ResumeTenant, ResumeType, Retime, Status, Terminate,
            Withdraw,
        };
        let anybody = &self.events[0].key;
        let interventions = [
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
            PauseType,
            PauseType,
            ResumeType,
            PauseTenant,
            ResumeTenant,
            Erase,
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
        let about_emails = [Act::Return { number: 0 }, Act::Click { number: 0 }, Act::Report { number: 0 }];
        let interventions =
            interventions.into_iter().map(|intervention| Act::Intervention(intervention, anybody.clone()));
        interventions
            .chain(picks.into_iter().map(|pick| Act::Pick(pick, 0)))
            .chain(producers)
            .chain(about_emails)
            .collect()
    }

    fn batch_at(&self, at: Duration) -> usize {
        let batch = at.as_millis() / BATCH_EVERY.as_millis();
        usize::try_from(batch).unwrap_or(usize::MAX).min(self.batches.len() - 1)
    }

    fn batch_by(&self, at: Duration, random: &mut ChaCha8Rng) -> usize {
        index(random, self.batch_at(at) + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SHORT: Duration = Duration::from_secs(20);
    const HOUR: Duration = Duration::from_hours(1);

    fn counts(plan: &Plan) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (_, act) in &plan.steps {
            *counts.entry(act.name()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn equal_seeds_make_equal_schedules_and_other_seeds_others() {
        assert_eq!(Plan::new(7, SHORT, 50), Plan::new(7, SHORT, 50));
        assert_ne!(Plan::new(7, SHORT, 50).steps, Plan::new(8, SHORT, 50).steps);
    }

    #[test]
    fn the_shortest_run_has_every_kind_of_act() {
        let longest = Plan::new(1, HOUR, 50).kinds();
        for seed in 0..20 {
            assert_eq!(Plan::new(seed, SHORT, 50).kinds(), longest, "seed {seed}");
        }
    }

    #[test]
    fn an_hour_has_a_hundred_kills_and_a_hundred_thousand_events() {
        let plan = Plan::new(1, HOUR, 50);
        let kills = plan.steps.iter().filter(|(_, act)| matches!(act, Act::Fault(fault) if fault.kills())).count();
        println!("{kills} kills, {} events, {:?}", plan.events.len(), counts(&plan));
        assert!(kills >= 100 && plan.events.len() >= 100_000);
    }

    #[test]
    fn each_fault_ends_before_it_begins_again() {
        for seed in 0..50 {
            let mut broken = 0;
            for (at, act) in &Plan::new(seed, SHORT, 50).steps {
                match act {
                    Act::Fault(
                        Fault::KillStore
                        | Fault::PauseStore
                        | Fault::RefuseLedger
                        | Fault::KillTemporal
                        | Fault::PauseTemporal
                        | Fault::LoseTemporal,
                    ) => broken += 1,
                    Act::Fault(
                        Fault::StartStore
                        | Fault::ContinueStore
                        | Fault::AcceptLedger
                        | Fault::StartTemporal
                        | Fault::ContinueTemporal,
                    ) => broken -= 1,
                    _ => {}
                }
                assert!((0..=2).contains(&broken), "seed {seed} at {at:?}");
            }
            assert_eq!(broken, 0, "seed {seed}");
        }
    }
}
