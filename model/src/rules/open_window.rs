//! The time of an open window after its recipient chose again, as the window's workflow will plan it.

use jiff::Timestamp;

use crate::{
    records::Facts,
    rules::{
        deadline::{Deadline, Timing},
        effective::Effective,
        plan::plan,
    },
    settings::{DigestSettings, FrequencyLimits},
    step::{Plan, PlanInput, Signs, Window},
};

/// Returns the time at which the window would go out. Its plan so far was made from the facts `before`, and `limits` are those that
/// the window keeps. `capped_until` is the end of the recipient's cap.
#[must_use]
pub fn due_after_change(
    settings: &DigestSettings,
    limits: FrequencyLimits,
    before: &Facts,
    facts: &Facts,
    window: &Window,
    capped_until: Option<Timestamp>,
    now: Timestamp,
) -> Timestamp {
    let key = &window.key;
    let opened_at = window.opened_at;
    let planned = Plan {
        known: Vec::new(),
        returned: None,
        due_at: window.due_at,
        why: String::new(),
        max_events: None,
        slide: None,
        urgent: false,
        paused_until: None,
        pause: None,
        revision: before.revision,
        follows: String::new(),
        basis: Some(Effective::new(settings, before, now).basis()),
        linger: None,
        undo: None,
        limits: Some(limits),
        limited: Vec::new(),
        share: None,
    };
    let input = PlanInput {
        asked_at: None,
        key: key.clone(),
        signs: Signs {
            opened_at,
            category: None,
            last_at: opened_at,
            urgent_at: None,
            returned_at: None,
            only_returned: false,
        },
        open: None,
        event_ids: Vec::new(),
        waited: false,
        before: Some(planned),
        anew_at: None,
        joined: None,
        opens_returned: false,
    };
    let Plan { due_at, why, .. } = plan(settings, limits, facts, &input, Vec::new(), now);
    let effective = Effective::new(settings, facts, now);
    let timing = Timing::new(settings, key, &effective);
    let limited = limits.exhausted(facts, &timing, due_at, capped_until, now);
    Deadline { at: due_at, why }.under(&limited).at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Key,
        records::{Preferences, Reading},
    };

    fn facts(cadence: Option<&str>, revision: u64, changed_at: Option<Timestamp>) -> Facts {
        Facts {
            recipient: None,
            preferences: Preferences { cadence: cadence.map(str::to_owned), ..Preferences::default() },
            revision,
            changed_at,
            consent: true,
            suppressed: None,
            last_sent_at: None,
            reading: Reading::default(),
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
        for (cadence, changed, due) in [
            (None, None, "2026-11-24T08:00:00Z"),
            (Some("daily 18:00"), Some("2026-11-23T12:00:00Z"), "2026-11-23T18:00:00Z"),
            // A slot counts from the change.
            (Some("daily 11:00"), Some("2026-11-23T12:00:00Z"), "2026-11-24T11:00:00Z"),
            // The grace: too late for this window.
            (Some("daily 18:00"), Some("2026-11-24T07:50:00Z"), "2026-11-24T08:00:00Z"),
        ] {
            let changed = changed.map(at);
            let after = facts(cadence, u64::from(changed.is_some()), changed);
            let now = changed.unwrap_or(window.opened_at);
            let limits = FrequencyLimits::default();
            let found = due_after_change(&settings, limits, &facts(None, 0, None), &after, &window, None, now);
            assert_eq!(found, at(due), "{cadence:?} {changed:?}");
        }
    }
}
