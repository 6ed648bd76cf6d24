//! Measures the decision about a window's deadline, which each event that opens or moves a window costs.

use std::{hint::black_box, time::Instant};

use anyhow::{Error, Result};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use tidings_model::{
    Key, QuietHours,
    records::{EngagementTimes, KeyFacts, Preferences, Recipient},
    rules::plan::plan_window,
    settings::{DigestSettings, FrequencyLimits, OverLimit},
    step::{DeadlineInputs, Plan as Planned, PlanInput},
    time_zone,
};

use crate::{
    figure::{Figure, count, median},
    rounds::Rounds,
};

/// Plan of a window, for an event; compared with the search for the cadence's slot alone
#[derive(Args)]
pub struct Plan {
    /// Measured batches in a round
    #[arg(long, default_value_t = 2_000)]
    batches: usize,
}

/// Calls in a batch, so that the clock costs nothing.
const CALLS: usize = 50;
const ZONE: &str = "Europe/Berlin";

impl Plan {
    pub fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let opens = |cadence| Case::new(cadence, false);
        let joins = |cadence| Case::new(cadence, true);
        let cases = [
            ("event opens a window, after 1h", opens("after 1h")?),
            ("event opens a window, daily 08:00", opens("daily 08:00")?),
            ("event opens a window, weekly mon 08:00", opens("weekly mon 08:00")?),
            ("event opens a window, cron 0 9,17 * * mon-fri", opens("cron 0 9,17 * * mon-fri")?),
            ("event joins a window, daily 08:00", joins("daily 08:00")?),
            ("event joins a window, sliding 5m max 1h", joins("sliding 5m max 1h")?),
        ];
        let measured = cases.map(|(what, case)| {
            let mut figure = Figure::new(what, "µs").against("the slot alone");
            let zone = time_zone(ZONE).map_err(Error::msg)?;
            for round in 0..rounds.count {
                rounds.say(round, what);
                let ours = self.microseconds(|| case.plan());
                let slot = self.microseconds(|| case.settings.cadence.due_at(case.input.signs.opened_at, &zone));
                figure.push_both(ours, slot);
            }
            Ok(figure)
        });
        measured.into_iter().collect()
    }

    /// The median time of a call.
    fn microseconds<T>(&self, call: impl Fn() -> T) -> f64 {
        let batch = |_| {
            let started = Instant::now();
            for _ in 0..CALLS {
                black_box(call());
            }
            started.elapsed().as_secs_f64() * 1e6 / count(CALLS)
        };
        median(&(0..self.batches).map(batch).collect::<Vec<_>>())
    }
}

/// A window that is planned again and again.
struct Case {
    settings: DigestSettings,
    facts: KeyFacts,
    input: PlanInput,
    now: Timestamp,
}

impl Case {
    fn new(cadence: &str, joins: bool) -> Result<Self> {
        let quiet = ["22:00-07:00", "sat-sun 00:00-24:00"].map(|words| words.parse().map_err(Error::msg));
        let settings = DigestSettings {
            quiet: QuietHours::new(quiet.into_iter().collect::<Result<_>>()?)?,
            spread: Some(std::time::Duration::from_mins(15)),
            ..DigestSettings::new("activity", cadence.parse()?)
        };
        let key = Key::new("acme".into(), "activity".into(), "ann".into())?;
        let opened_at = Timestamp::from_second(1_790_000_000)?;
        let case = Self { settings, facts: facts(&key), input: input(key, opened_at), now: opened_at };
        if !joins {
            return Ok(case);
        }
        let joined_at = opened_at + SignedDuration::from_mins(2);
        let before = Some(case.plan());
        let signs = DeadlineInputs { last_at: joined_at, ..case.input.signs.clone() };
        Ok(Self { input: PlanInput { signs, before, ..case.input }, now: joined_at, ..case })
    }

    fn plan(&self) -> Planned {
        let limits = FrequencyLimits::new(&self.settings, None, OverLimit::Defer);
        plan_window(&self.settings, limits, &self.facts, &self.input, Vec::new(), self.now)
    }
}

fn facts(key: &Key) -> KeyFacts {
    KeyFacts {
        recipient: Some(Recipient { zone: ZONE.into(), ..Recipient::for_development(key) }),
        generation: 0,
        preferences: Preferences::default(),
        revision: 3,
        changed_at: None,
        consent: true,
        suppressed: None,
        last_sent_at: None,
        last_slot_at: None,
        last_schedule: None,
        reading: EngagementTimes::default(),
        pause: None,
        answered_at: None,
        missing: None,
    }
}

fn input(key: Key, opened_at: Timestamp) -> PlanInput {
    let signs = DeadlineInputs {
        opened_at,
        category: Some("comment".into()),
        last_at: opened_at,
        urgent_at: None,
        returned_at: None,
        only_returned: false,
    };
    PlanInput {
        asked_at: Some(opened_at),
        key,
        signs,
        open: None,
        event_ids: vec!["e1".into()],
        contents: Vec::new(),
        waited: false,
        before: None,
        anew_at: None,
        joined: None,
        opens_returned: true,
    }
}
