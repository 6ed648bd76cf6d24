//! Predicted plans under throttle, cap and quiet hours.

use std::time::Duration;

use super::*;
use crate::{
    QuietHours,
    rules::{EffectiveSchedule, samples},
    step::Plan,
};

const NOW: &str = "2026-03-02T08:00:00Z";
const DUE: &str = "2026-03-02T09:00:00Z";
const WHY: &str = "after 1h -> 2026-03-02T09:00:00Z";
const CAP: Option<DigestCap> = Some(DigestCap { most: 2, within: Duration::from_hours(5) });

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// When the oldest digest counts from, if the cap is reached until then.
fn counted(capped_until: &str) -> Timestamp {
    at(capped_until) - Duration::from_hours(5)
}

fn key() -> Key {
    "acme/activity/ann".parse().unwrap()
}

fn facts(last_sent_at: &str) -> KeyFacts {
    KeyFacts { last_sent_at: Some(at(last_sent_at)), last_slot_at: Some(at(last_sent_at)), ..samples::facts() }
}

fn settings(quiet: &[&str]) -> DigestSettings {
    DigestSettings {
        throttle: Some(Duration::from_hours(4)),
        quiet: QuietHours::new(quiet.iter().map(|text| text.parse().unwrap()).collect()).unwrap(),
        ..DigestSettings::new("activity", "after 1h".parse().unwrap())
    }
}

fn plan(limits: FrequencyLimits) -> Plan {
    let plan = serde_json::json!({"due_at": DUE, "why": WHY, "limits": limits});
    serde_json::from_value(plan).unwrap()
}

/// The time and reason shown by a status.
fn foreseen(settings: &DigestSettings, facts: &KeyFacts, plan: Plan, capped_until: Option<&str>) -> (String, String) {
    let Plan { limited, due_at, why, .. } =
        predict_limits(plan, settings, facts, &key(), capped_until.map(counted), at(NOW));
    let deadline = Deadline { at: due_at, why }.apply_limits(&limited);
    let new = deadline.why.strip_prefix(WHY).unwrap();
    (deadline.at.to_string(), new.trim_start_matches("; ").to_owned())
}

#[test]
fn a_digest_that_a_wrong_clock_dated_throttles_nothing() {
    let settings = settings(&[]);
    let limits = FrequencyLimits::new(&settings, None, OverLimit::Defer);
    let tomorrow = facts("2026-03-03T07:00:00Z");
    assert_eq!(foreseen(&settings, &tomorrow, plan(limits), None), (DUE.to_owned(), String::new()));
}

#[test]
fn a_throttle_and_a_cap_defer_in_turn() {
    let settings = settings(&[]);
    let limits = FrequencyLimits::new(&settings, CAP, OverLimit::Defer);
    let throttled = "throttled to one in 4h, the last at 2026-03-02T07:00:00Z -> 2026-03-02T11:00:00Z";
    let capped = "the recipient had 2 digests in 5h, as many as they get -> 2026-03-02T12:00:00Z";
    for (last, capped_until, at, why) in [
        ("2026-03-02T05:00:00Z", None, DUE, String::new()), // over when the window is due
        ("2026-03-02T04:00:00Z", None, DUE, String::new()), // over now
        ("2026-03-02T07:00:00Z", None, "2026-03-02T11:00:00Z", throttled.to_owned()),
        ("2026-03-02T07:00:00Z", Some("2026-03-02T11:00:00Z"), "2026-03-02T11:00:00Z", throttled.to_owned()),
        (
            "2026-03-02T07:00:00Z",
            Some("2026-03-02T12:00:00Z"),
            "2026-03-02T12:00:00Z",
            format!("{throttled}; {capped}"),
        ),
        ("2026-03-02T04:00:00Z", Some("2026-03-02T12:00:00Z"), "2026-03-02T12:00:00Z", capped.to_owned()),
    ] {
        assert_eq!(foreseen(&settings, &facts(last), plan(limits), capped_until), (at.to_owned(), why), "{last}");
    }
}

#[test]
fn a_limit_that_skips_ends_the_window_when_it_is_due() {
    let settings = DigestSettings { on_throttle: OverLimit::Skip, ..settings(&["10:00-14:00"]) };
    let limits = FrequencyLimits::new(&settings, CAP, OverLimit::Skip);
    let late = Some("2026-03-02T12:00:00Z");
    for (last, why) in [
        ("2026-03-02T07:00:00Z", "throttled to one in 4h, the last at 2026-03-02T07:00:00Z -> 2026-03-02T11:00:00Z"),
        ("2026-03-02T04:00:00Z", "the recipient had 2 digests in 5h, as many as they get -> 2026-03-02T12:00:00Z"),
    ] {
        let why = format!("ends then without a message: {why}");
        assert_eq!(foreseen(&settings, &facts(last), plan(limits), late), (DUE.to_owned(), why));
    }
}

#[test]
fn quiet_hours_in_which_a_limit_ends_are_part_of_the_time() {
    let settings = settings(&["10:30-14:00"]);
    let limits = FrequencyLimits::new(&settings, None, OverLimit::Defer);
    let (at, why) = foreseen(&settings, &facts("2026-03-02T07:00:00Z"), plan(limits), None);
    assert_eq!(at, "2026-03-02T14:00:00Z");
    assert!(why.ends_with("-> 2026-03-02T11:00:00Z; quiet until 14:00 -> 2026-03-02T14:00:00Z"), "{why}");
}

#[test]
fn an_urgent_or_blocked_window_meets_no_limit() {
    let settings = settings(&[]);
    let limits = FrequencyLimits::new(&settings, CAP, OverLimit::Defer);
    let recent = facts("2026-03-02T07:00:00Z");
    let late = Some("2026-03-02T12:00:00Z");
    let urgent = Plan { urgent: true, ..plan(limits) };
    let opted_out = KeyFacts { consent: false, ..recent.clone() };
    let never = plan(FrequencyLimits { never: true, ..limits });
    for (facts, plan) in [(&recent, urgent), (&opted_out, plan(limits)), (&recent, never)] {
        assert_eq!(foreseen(&settings, facts, plan, late), (DUE.to_owned(), String::new()));
    }
}

#[test]
fn the_next_time_in_preferences_knows_throttle_and_cap() {
    let settings = settings(&[]);
    let limits = FrequencyLimits::new(&settings, CAP, OverLimit::Defer);
    let next = |capped_until: Option<&str>| {
        let facts = facts("2026-03-02T07:00:00Z");
        EffectiveSchedule::new(&settings, &limits, capped_until.map(counted), &facts, &key(), at(NOW)).next.unwrap()
    };
    assert_eq!(next(None).due_at, at("2026-03-02T11:00:00Z"));
    assert!(
        next(None).why.starts_with("after 1h -> 2026-03-02T09:00:00Z; throttled to one in 4h"),
        "{}",
        next(None).why
    );
    assert_eq!(next(Some("2026-03-02T12:00:00Z")).due_at, at("2026-03-02T12:00:00Z"));
}

#[test]
fn a_cap_that_ends_now_holds_nothing_back() {
    let settings = settings(&[]);
    let limits = FrequencyLimits::new(&settings, CAP, OverLimit::Defer);
    let limited = |capped_until: &str| {
        let facts = facts("2026-03-02T01:00:00Z");
        predict_limits(plan(limits), &settings, &facts, &key(), Some(counted(capped_until)), at(NOW)).limited.len()
    };
    assert_eq!((limited(NOW), limited("2026-03-02T08:00:01Z")), (0, 1));
}

#[test]
fn a_cap_says_its_number_and_span() {
    let limits = |most| {
        let cap = Some(DigestCap { most, within: Duration::from_hours(1) });
        FrequencyLimits::new(&settings(&[]), cap, OverLimit::Defer)
    };
    for (most, digests) in [(1, "1 digest in 1h"), (2, "2 digests in 1h")] {
        let expected = format!("the recipient had {digests}, as many as they get -> {DUE}");
        assert_eq!(limits(most).reached_cap(at(NOW), &TimeZone::UTC).why, expected);
    }
}

#[test]
fn a_limit_of_whole_days_ends_with_a_day_of_the_recipient() {
    let kiritimati = TimeZone::get("Pacific/Kiritimati").unwrap(); // 14 hours ahead
    let throttle =
        |hours| FrequencyLimits { throttle: Some(Duration::from_hours(hours)), ..FrequencyLimits::default() };
    for (hours, ends) in [(24, "2026-03-02T10:00:00Z"), (23, "2026-03-03T08:59:00Z"), (7 * 24, "2026-03-08T10:00:00Z")]
    {
        let throttled = throttle(hours).active_throttle(Some(at("2026-03-02T09:59:00Z")), &kiritimati, at(NOW));
        assert_eq!(throttled.unwrap().until, at(ends), "{hours} h");
    }
}

#[test]
fn a_pause_that_is_known_shows_the_next_good_moment() {
    let daily = DigestSettings::new("activity", "daily 08:00".parse().unwrap());
    let resumes = |until: &str| {
        let plan = Plan { paused_until: Some(at(until)), ..plan(FrequencyLimits::default()) };
        predict_limits(plan, &daily, &samples::facts(), &key(), None, at(NOW)).resumes_at
    };
    assert_eq!(resumes("2026-03-05T00:00:00Z"), Some(at("2026-03-05T08:00:00Z")));
    assert_eq!(resumes("2026-03-02T12:00:00Z"), None, "on the day of the deadline");
    assert_eq!(resumes(NOW), None, "it is over");
}

#[test]
fn an_urgent_window_forgets_what_was_foreseen_for_it() {
    let settings = DigestSettings { cadence: "daily 08:00".parse().unwrap(), ..settings(&[]) };
    let limits = FrequencyLimits::new(&settings, CAP, OverLimit::Defer);
    let facts = facts("2026-03-02T07:00:00Z");
    let foresee = |plan| predict_limits(plan, &settings, &facts, &key(), None, at(NOW));
    let held = foresee(Plan { paused_until: Some(at("2026-03-05T00:00:00Z")), ..plan(limits) });
    assert!(!held.limited.is_empty() && held.resumes_at.is_some());
    let urgent = foresee(Plan { urgent: true, ..held });
    assert_eq!((urgent.limited.len(), urgent.resumes_at), (0, None));
}
