//! Predicts when an open window is sent after its recipient changed their preferences; the window's workflow
//! will plan the same.

use jiff::Timestamp;

use crate::{
    command::DuePreview,
    records::KeyFacts,
    rules::{
        deadline::{Deadline, DeadlineTiming},
        effective::EffectiveSettings,
        plan::plan_window,
    },
    settings::{DigestSettings, FrequencyLimits},
    step::{DeadlineInputs, Plan, PlanInput},
    window::{WaitReason, Window},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuePrediction {
    pub due_at: Timestamp,
    /// Set if the window keeps the deadline of an earlier schedule. Later windows follow the new one.
    pub is_kept: bool,
}

/// `before` are the facts behind the current plan, `limits` are today's, and `capped_from` is when the cap's
/// oldest digest counts from, if reached.
#[must_use]
pub fn due_after_change(
    settings: &DigestSettings,
    limits: FrequencyLimits,
    before: &KeyFacts,
    facts: &KeyFacts,
    open: &DuePreview,
    capped_from: Option<Timestamp>,
    now: Timestamp,
) -> DuePrediction {
    let Window { key, opened_at, due_at, .. } = &open.window;
    let limits = open.limits.unwrap_or(limits);
    let planned = Plan {
        known: Vec::new(),
        returned: None,
        due_at: *due_at,
        why: String::new(),
        max_events: None,
        slide: None,
        urgent: false,
        promised_at: open.promised_at,
        then: None,
        paused_until: None,
        resumes_at: None,
        pause: None,
        revision: before.revision,
        follows: String::new(),
        basis: open.basis.clone().or_else(|| Some(EffectiveSettings::new(settings, before, now).basis())),
        linger: None,
        undo: None,
        limits: Some(limits),
        limited: Vec::new(),
        share: None,
    };
    let input = PlanInput {
        asked_at: None,
        key: key.clone(),
        signs: DeadlineInputs {
            opened_at: *opened_at,
            category: None,
            last_at: *opened_at,
            urgent_at: None,
            returned_at: None,
            only_returned: false,
        },
        open: None,
        event_ids: Vec::new(),
        contents: Vec::new(),
        waited: false,
        before: Some(planned),
        anew_at: None,
        joined: None,
        opens_returned: false,
    };
    let Plan { due_at, why, then, .. } = plan_window(settings, limits, facts, &input, Vec::new(), now);
    let effective = EffectiveSettings::new(settings, facts, now);
    let timing = DeadlineTiming::new(settings, key, &effective);
    let limited = limits.exhausted_limits(facts, (&timing, &effective.cadence), due_at, capped_from, now);
    let due_at = Deadline { at: due_at, why }.apply_limits(&limited).at;
    let paused = facts.preferences.paused_until.filter(|until| *until > due_at);
    let put_off = |until| timing.put_off(&effective.cadence, WaitReason::PauseOfRecipient, due_at, until);
    let resumes_at = paused.map(|until| put_off(until).map_or(until, |moment| moment.at));
    DuePrediction { due_at: resumes_at.unwrap_or(due_at), is_kept: then.is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Key,
        records::{EngagementTimes, Preferences},
    };

    fn facts(cadence: Option<&str>, revision: u64, changed_at: Option<Timestamp>) -> KeyFacts {
        KeyFacts {
            recipient: None,
            generation: 0,
            preferences: Preferences { cadence: cadence.map(str::to_owned), ..Preferences::default() },
            revision,
            changed_at,
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

    #[test]
    fn an_open_window_moves_as_rule_15_says() {
        let settings = DigestSettings::new("activity", "daily 08:00".parse().unwrap());
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let window = Window {
            digest_id: uuid::Uuid::nil(),
            key,
            opened_at: at("2026-11-23T10:00:00Z"),
            due_at: at("2026-11-24T08:00:00Z"),
        };
        let open = DuePreview { window, events: Vec::new(), more: 0, limits: None, basis: None, promised_at: None };
        for (cadence, changed, due, is_kept) in [
            (None, None, "2026-11-24T08:00:00Z", false),
            (Some("daily 18:00"), Some("2026-11-23T12:00:00Z"), "2026-11-23T18:00:00Z", false),
            // A slot counts from the change.
            (Some("daily 11:00"), Some("2026-11-23T12:00:00Z"), "2026-11-24T11:00:00Z", false),
            // The grace: too late for this window.
            (Some("daily 18:00"), Some("2026-11-24T07:50:00Z"), "2026-11-24T08:00:00Z", true),
        ] {
            let changed = changed.map(at);
            let after = facts(cadence, u64::from(changed.is_some()), changed);
            let now = changed.unwrap_or(open.window.opened_at);
            let limits = FrequencyLimits::default();
            let found = due_after_change(&settings, limits, &facts(None, 0, None), &after, &open, None, now);
            assert_eq!(found, DuePrediction { due_at: at(due), is_kept }, "{cadence:?} {changed:?}");
        }
    }
}
