//! Each question, and the one decision of the product that answers it. Nothing is decided here.

use std::time::Duration;

use anyhow::{Error, Result};
use jiff::{Timestamp, tz::TimeZone};
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::{
    Cadence, Key, QuietHours,
    pause::PauseDetails,
    records::{EngagementTimes, KeyFacts, Preferences, Recipient, SentSchedule},
    rules::{
        admission::{AdmissionDecision, admit},
        deadline::DeadlineTiming,
        effective::EffectiveSettings,
        limit::{counts_from, limit_ends, limit_since},
        plan::plan_window,
        spread::{overdue_share, spread_share},
    },
    settings::{DigestSettings, FrequencyLimits, OverLimit},
    step::{ClaimInput, DeadlineInputs, Plan, PlanInput},
    time_zone,
    window::{SendMoment, WaitReason, Window},
};
use uuid::Uuid;

/// A question. Times are seconds since 1970, and spans are seconds.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// The table of waits.
    Waits,
    /// The slots of a cadence after `from` and before `until`.
    Slots { cadence: Cadence, zone: String, from: i64, until: i64 },
    /// The person's share of the spread, and of the spread of what is overdue.
    Shares { person: Person },
    /// The deadline that the cadence makes.
    Deadline { person: Person, opened_at: i64 },
    /// The next good moment.
    Moment { person: Person, from: i64 },
    /// The moment at which a digest goes whose wait ends at `from`.
    PutOff { person: Person, wait: WaitReason, due_at: i64, from: i64 },
    /// The end of a limit that counts from `at`, and the last time that no longer counts for a limit at `at`.
    Limit { zone: String, length: u64, at: i64 },
    /// The plan of a window with events that arrived at these times, and the plan so far if there is one.
    Plan { person: Person, opened_at: i64, last_at: i64, before: Option<Box<Plan>>, now: i64 },
    /// The admission of a due window.
    Claim {
        person: Person,
        opened_at: i64,
        due_at: i64,
        revision: u64,
        released: bool,
        unknown_since: Option<i64>,
        now: i64,
    },
    /// The time from which limits count a digest that was claimed at `now`.
    CountsFrom { person: Person, due_at: i64, limit_ended_at: Option<i64>, now: i64 },
}

/// A person with one digest type: the settings, and what the ledger knows at the time of the question.
#[derive(Deserialize)]
pub struct Person {
    user: String,
    cadence: Cadence,
    zone: String,
    quiet: Vec<String>,
    spread: Option<u64>,
    throttle: Option<u64>,
    /// The directory has the person.
    is_known: bool,
    revision: u64,
    changed_at: Option<i64>,
    last_sent_at: Option<i64>,
    /// The time from which limits count the last digest.
    last_slot_at: Option<i64>,
    /// Time, cadence and zone of the last digest that was sent.
    last_schedule: Option<(i64, String, String)>,
    paused_until: Option<i64>,
    /// An operator's pause: its beginning, and its end if it has one.
    stopped: Option<(i64, Option<i64>)>,
}

impl Question {
    pub fn answer(self) -> Result<Value> {
        match self {
            Self::Waits => {
                let row = |wait: &WaitReason| (wait.to_string(), json!(goes(wait.send_moment())));
                Ok(Value::Object(WaitReason::ALL.iter().map(row).collect()))
            }
            Self::Slots { cadence, zone, from, until } => slots(&cadence, &zone, at(from)?, at(until)?),
            Self::Shares { person } => {
                let (id, spread) = (person.key()?.workflow_id(), person.spread.map(Duration::from_secs));
                Ok(json!([
                    spread_share(&id, spread.unwrap_or_default()).as_secs(),
                    overdue_share(&id, spread).as_secs()
                ]))
            }
            Self::Deadline { person, opened_at } => {
                let opened_at = at(opened_at)?;
                person.timed(|timing, cadence| json!(timing.cadence_deadline(cadence, None, opened_at).at.as_second()))
            }
            Self::Moment { person, from } => {
                let from = at(from)?;
                person.timed(|timing, cadence| json!(timing.next_good_moment(cadence, from).at.as_second()))
            }
            Self::PutOff { person, wait, due_at, from } => {
                let (due_at, from) = (at(due_at)?, at(from)?);
                person.timed(|timing, cadence| {
                    json!(timing.put_off(cadence, wait, due_at, from).map(|moment| moment.at.as_second()))
                })
            }
            Self::Limit { zone, length, at: second } => {
                let (zone, length, at) = (self::zone(&zone)?, Duration::from_secs(length), at(second)?);
                Ok(json!([limit_ends(at, length, &zone).as_second(), limit_since(at, length, &zone).as_second()]))
            }
            Self::Plan { person, opened_at, last_at, before, now } => {
                let settings = person.settings()?;
                let limits = FrequencyLimits::new(&settings, None, OverLimit::Defer);
                let input = person.plan_input(at(opened_at)?, at(last_at)?, before.map(|before| *before))?;
                let plan = plan_window(&settings, limits, &person.facts()?, &input, Vec::new(), at(now)?);
                Ok(json!({ "due_at": plan.due_at.as_second(), "why": plan.why, "plan": plan }))
            }
            Self::Claim { person, opened_at, due_at, revision, released, unknown_since, now } => {
                let settings = person.settings()?;
                let limits = FrequencyLimits::new(&settings, None, OverLimit::Defer);
                let unknown_since = unknown_since.map(at).transpose()?;
                let input = person.claim_input(at(opened_at)?, at(due_at)?, revision, at(now)?)?;
                let input = ClaimInput { released, unknown_since, ..input };
                Ok(admission(admit(&settings, &limits, &person.facts()?, &input, at(now)?)))
            }
            Self::CountsFrom { person, due_at, limit_ended_at, now } => {
                let limit_ended_at = limit_ended_at.map(at).transpose()?;
                let counted = counts_from(&person.cadence, at(due_at)?, limit_ended_at, at(now)?);
                Ok(json!(counted.map(Timestamp::as_second)))
            }
        }
    }
}

fn at(second: i64) -> Result<Timestamp> {
    Ok(Timestamp::from_second(second)?)
}

fn zone(name: &str) -> Result<TimeZone> {
    time_zone(name).map_err(Error::msg)
}

const fn goes(goes: SendMoment) -> &'static str {
    match goes {
        SendMoment::ByCadence => "by the cadence",
        SendMoment::NextGoodMoment => "next good moment",
        SendMoment::AtOnce => "at once",
    }
}

fn slots(cadence: &Cadence, zone: &str, from: Timestamp, until: Timestamp) -> Result<Value> {
    let zone = self::zone(zone)?;
    let next = |at: &Timestamp| Some(cadence.due_at(*at, &zone)).filter(|at| *at < until);
    Ok(std::iter::successors(next(&from), next).map(Timestamp::as_second).collect())
}

fn admission(admission: AdmissionDecision) -> Value {
    match admission {
        AdmissionDecision::Admitted => json!({ "admitted": true }),
        AdmissionDecision::Later { until, why, limit_ends_at } => json!({
            "until": until.as_second(), "why": why, "limit_ends_at": limit_ends_at.map(Timestamp::as_second),
        }),
        AdmissionDecision::Unknown { since, until, why } => json!({
            "until": until.as_second(), "why": why, "unknown_since": since.as_second(),
        }),
        AdmissionDecision::Paused(pause) => json!({
            "until": pause.look_at.as_second(), "share": pause.share.as_secs(), "why": pause.paused.to_string(),
        }),
        AdmissionDecision::Changed => json!({ "changed": true }),
        AdmissionDecision::Refused(closed) => json!({ "refused": closed.why }),
    }
}

impl Person {
    fn key(&self) -> Result<Key> {
        Ok(Key::new("acme".to_owned(), "activity".to_owned(), self.user.clone())?)
    }

    fn settings(&self) -> Result<DigestSettings> {
        let times = self.quiet.iter().map(|words| words.parse()).collect::<Result<_, String>>();
        Ok(DigestSettings {
            quiet: QuietHours::new(times.map_err(Error::msg)?)?,
            spread: self.spread.map(Duration::from_secs),
            throttle: self.throttle.map(Duration::from_secs),
            ..DigestSettings::new("activity", self.cadence.clone())
        })
    }

    /// Answers with the person's timing and cadence.
    fn timed(&self, answer: impl FnOnce(&DeadlineTiming<'_>, &Cadence) -> Value) -> Result<Value> {
        let (settings, key) = (self.settings()?, self.key()?);
        let effective = EffectiveSettings::without_adapting(&settings, &self.facts()?);
        Ok(answer(&DeadlineTiming::new(&settings, &key, &effective), &effective.cadence))
    }

    fn facts(&self) -> Result<KeyFacts> {
        let key = self.key()?;
        let recipient = Recipient { zone: self.zone.clone(), ..Recipient::for_development(&key) };
        let stopped = self.stopped.map(|(since, until)| {
            let until = until.map(at).transpose()?;
            anyhow::Ok(PauseDetails { by: "ops".to_owned(), why: "test".to_owned(), since: at(since)?, until })
        });
        let last_schedule = self
            .last_schedule
            .clone()
            .map(|(last, cadence, zone)| anyhow::Ok(SentSchedule { at: at(last)?, cadence, zone }));
        Ok(KeyFacts {
            recipient: self.is_known.then_some(recipient),
            generation: 0,
            preferences: Preferences {
                // An unknown person has no zone in the directory.
                zone: Some(self.zone.clone()),
                paused_until: self.paused_until.map(at).transpose()?,
                ..Preferences::default()
            },
            revision: self.revision,
            changed_at: self.changed_at.map(at).transpose()?,
            consent: true,
            suppressed: None,
            last_sent_at: self.last_sent_at.map(at).transpose()?,
            last_slot_at: self.last_slot_at.map(at).transpose()?,
            last_schedule: last_schedule.transpose()?,
            reading: EngagementTimes::default(),
            pause: stopped.transpose()?,
            answered_at: None,
            missing: None,
        })
    }

    fn plan_input(&self, opened_at: Timestamp, last_at: Timestamp, before: Option<Plan>) -> Result<PlanInput> {
        let signs = DeadlineInputs {
            opened_at,
            category: None,
            last_at,
            urgent_at: None,
            returned_at: None,
            only_returned: false,
        };
        Ok(PlanInput {
            asked_at: None,
            key: self.key()?,
            signs,
            open: None,
            event_ids: Vec::new(),
            contents: Vec::new(),
            waited: false,
            before,
            anew_at: None,
            joined: None,
            opens_returned: true,
        })
    }

    fn claim_input(
        &self,
        opened_at: Timestamp,
        due_at: Timestamp,
        revision: u64,
        asked_at: Timestamp,
    ) -> Result<ClaimInput> {
        let window = Window { key: self.key()?, digest_id: Uuid::nil(), opened_at, due_at };
        Ok(ClaimInput {
            asked_at,
            window,
            events: Vec::new(),
            flushed: false,
            released: false,
            urgent: false,
            revision,
            planned: None,
            due_at: None,
            limits: None,
            undo: None,
            limit_ended_at: None,
            unknown_since: None,
        })
    }
}
