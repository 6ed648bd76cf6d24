use jiff::Timestamp;

use super::join_returned;
use crate::{
    Key, QuietHours,
    records::{KeyFacts, Preferences},
    rules::{plan::plan_window, samples::facts},
    settings::{DigestSettings, FrequencyLimits, OverLimit, RETRY_DELAYS},
    step::{DeadlineInputs, EventOrigin, Plan, PlanInput},
};

const RETURNED_AT: &str = "2026-10-24T18:00:00Z";

fn settings(cadence: &str) -> DigestSettings {
    DigestSettings { zone: Some("Europe/Berlin".into()), ..DigestSettings::new("activity", cadence.parse().unwrap()) }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A window with returned events, and with events that arrived at `own_at`.
fn input(own_at: Option<&str>) -> PlanInput {
    let opened_at = at(own_at.unwrap_or(RETURNED_AT));
    PlanInput {
        asked_at: None,
        key: Key::new("acme".into(), "activity".into(), "ann".into()).unwrap(),
        signs: DeadlineInputs {
            opened_at,
            category: own_at.map(|_| "share".into()),
            last_at: opened_at,
            urgent_at: None,
            returned_at: Some(at(RETURNED_AT)),
            only_returned: own_at.is_none(),
        },
        open: None,
        event_ids: Vec::new(),
        contents: Vec::new(),
        waited: false,
        before: None,
        anew_at: None,
        joined: None,
        opens_returned: true,
    }
}

fn planned(settings: &DigestSettings, facts: &KeyFacts, input: &PlanInput) -> Plan {
    let limits = FrequencyLimits::new(settings, None, OverLimit::Defer);
    let plan = plan_window(settings, limits, facts, input, Vec::new(), at(RETURNED_AT));
    join_returned(plan, settings, facts, input, RETRY_DELAYS[4], at(RETURNED_AT))
}

#[test]
fn returned_events_wait_for_a_slot_or_the_longest_retry_delay() {
    for (cadence, why) in [
        ("daily 08:00", "events of a failed digest: daily 08:00 Europe/Berlin -> 2026-10-25T07:00:00Z"),
        ("weekly mon 08:00", "events of a failed digest: weekly mon 08:00 Europe/Berlin -> 2026-10-26T07:00:00Z"),
        ("instant", "events of a failed digest: 8h after its last attempt -> 2026-10-25T02:00:00Z"),
        ("after 10m", "events of a failed digest: 8h after its last attempt -> 2026-10-25T02:00:00Z"),
        ("sliding 5m max 1h", "events of a failed digest: 8h after its last attempt -> 2026-10-25T02:00:00Z"),
    ] {
        let plan = planned(&settings(cadence), &facts(), &input(None));
        assert_eq!((plan.why.as_str(), plan.slide, plan.max_events), (why, None, None));
        assert!(why.ends_with(&plan.due_at.to_string()), "{plan:?}");
    }
}

#[test]
fn quiet_hours_defer_returned_events_too() {
    let quiet = QuietHours::new(vec!["22:00-09:00".parse().unwrap()]).unwrap();
    let plan = planned(&DigestSettings { quiet, ..settings("after 10m") }, &facts(), &input(None));
    assert_eq!(plan.due_at, at("2026-10-25T08:00:00Z"), "{}", plan.why);
}

#[test]
fn the_first_in_a_long_time_is_an_event_and_no_return() {
    let send_first = DigestSettings { send_first: Some(std::time::Duration::from_hours(1)), ..settings("daily 08:00") };
    assert_eq!(planned(&send_first, &facts(), &input(None)).due_at, at("2026-10-25T07:00:00Z"));
    assert_eq!(planned(&send_first, &facts(), &input(Some(RETURNED_AT))).due_at, at(RETURNED_AT));
}

#[test]
fn the_earlier_deadline_counts_where_events_and_returned_ones_are_together() {
    for (cadence, own_at, due_at) in [
        ("after 10m", "2026-10-24T17:58:00Z", "2026-10-24T18:08:00Z"),
        ("after 1d", "2026-10-24T17:58:00Z", "2026-10-25T02:00:00Z"),
        ("daily 08:00", "2026-10-24T17:58:00Z", "2026-10-25T07:00:00Z"),
    ] {
        let plan = planned(&settings(cadence), &facts(), &input(Some(own_at)));
        assert_eq!(plan.due_at, at(due_at), "{cadence}");
        assert_eq!(plan.why.starts_with("events of a failed digest"), cadence == "after 1d", "{}", plan.why);
    }
}

#[test]
fn an_event_that_joins_brings_the_time_forward_and_never_back() {
    let (after, late) = (settings("after 10m"), settings("after 1d"));
    let joining = |before: &Plan| PlanInput {
        before: Some(before.clone()),
        joined: Some(EventOrigin::Own),
        ..input(Some("2026-10-24T19:00:00Z"))
    };
    let before = planned(&after, &facts(), &input(None));
    assert_eq!(planned(&after, &facts(), &joining(&before)).due_at, at("2026-10-24T19:10:00Z"));
    assert_eq!(planned(&late, &facts(), &joining(&before)).due_at, before.due_at);
    // The time that an operator gave the returned events counts.
    let retimed = Plan { due_at: at("2026-10-24T19:05:00Z"), why: "retimed".into(), ..before };
    let plan = planned(&after, &facts(), &joining(&retimed));
    assert_eq!((plan.due_at, plan.why.as_str()), (retimed.due_at, "retimed"));
}

#[test]
fn a_sliding_deadline_never_passes_that_of_returned_events() {
    let (sliding, limit) = (settings("sliding 5m max 12h"), at("2026-10-25T02:00:00Z"));
    for (own_at, due_at) in
        [("2026-10-25T01:50:00Z", "2026-10-25T01:55:00Z"), ("2026-10-25T01:58:00Z", "2026-10-25T02:00:00Z")]
    {
        let first = planned(&sliding, &facts(), &input(Some(own_at)));
        assert_eq!((first.due_at, first.slide.unwrap().until), (at(due_at), limit));
        let mut again = PlanInput { before: Some(first), ..input(Some(own_at)) };
        again.signs.last_at = at("2026-10-25T01:59:00Z");
        assert_eq!(planned(&sliding, &facts(), &again).due_at, limit);
    }
}

#[test]
fn a_return_joins_an_open_window_and_moves_it_once() {
    let after = settings("after 1d");
    let before = planned(&after, &facts(), &{
        let mut own = input(Some("2026-10-24T17:00:00Z"));
        own.signs.returned_at = None;
        own
    });
    let mut asked =
        PlanInput { before: Some(before), joined: Some(EventOrigin::Returned), ..input(Some("2026-10-24T17:00:00Z")) };
    let joined = planned(&after, &facts(), &asked);
    assert_eq!(joined.due_at, at("2026-10-25T02:00:00Z"));
    // An operator gives it another time; a signal plans it again.
    let retimed = Plan { due_at: at("2026-10-25T12:00:00Z"), ..joined };
    (asked.before, asked.joined) = (Some(retimed.clone()), None);
    assert_eq!(planned(&after, &facts(), &asked).due_at, retimed.due_at);
}

#[test]
fn nothing_waits_where_nothing_is_sent() {
    let refused = KeyFacts { consent: false, ..facts() };
    assert_eq!(planned(&settings("daily 08:00"), &refused, &input(None)).due_at, at(RETURNED_AT));
    assert_eq!(planned(&settings("never"), &facts(), &input(None)).due_at, at(RETURNED_AT));
}

#[test]
fn a_promise_stands_for_returned_events() {
    let weekly = settings("weekly mon 08:00");
    let before = planned(&weekly, &facts(), &input(None));
    assert_eq!(before.due_at, at("2026-10-26T07:00:00Z"));
    let preferences = Preferences { zone: Some("Europe/Athens".into()), ..Preferences::default() };
    // At eight in Berlin it is nine in Athens.
    let chosen = KeyFacts { preferences, revision: 1, changed_at: Some(at("2026-10-26T06:30:00Z")), ..facts() };
    let asked = PlanInput { before: Some(before.clone()), ..input(None) };
    let (limits, now) = (FrequencyLimits::new(&weekly, None, OverLimit::Defer), at("2026-10-26T06:31:00Z"));
    let plan = plan_window(&weekly, limits, &chosen, &asked, Vec::new(), now);
    let plan = join_returned(plan, &weekly, &chosen, &asked, RETRY_DELAYS[4], now);
    assert_eq!((plan.due_at, plan.then.as_deref()), (before.due_at, Some("every Monday at 08:00 (Europe/Athens)")));
}
