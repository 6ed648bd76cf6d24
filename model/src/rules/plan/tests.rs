use std::time::Duration;

use super::*;
use crate::{
    Key, QuietHours,
    pause::PauseDetails,
    records::Preferences,
    rules::samples::facts,
    settings::{DigestCap, OverLimit},
};

mod kept;
mod promise;

const OPENED_AT: &str = "2026-10-24T18:00:00Z";

fn settings(cadence: &str) -> DigestSettings {
    DigestSettings {
        zone: Some("Europe/Berlin".into()),
        max_events: Some(7),
        ..DigestSettings::new("activity", cadence.parse().unwrap())
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn input() -> PlanInput {
    let opened_at = at(OPENED_AT);
    PlanInput {
        asked_at: None,
        key: Key::new("acme".into(), "activity".into(), "ann".into()).unwrap(),
        signs: DeadlineInputs {
            opened_at,
            category: Some("share".into()),
            last_at: opened_at,
            urgent_at: None,
            returned_at: None,
            only_returned: false,
        },
        open: None,
        event_ids: vec!["a".into(), "b".into()],
        contents: Vec::new(),
        waited: false,
        before: None,
        anew_at: None,
        joined: None,
        opens_returned: true,
    }
}

/// Plans without a cap.
fn plan(settings: &DigestSettings, facts: &KeyFacts, input: &PlanInput, known: Vec<String>, now: Timestamp) -> Plan {
    super::plan_window(settings, FrequencyLimits::new(settings, None, OverLimit::Defer), facts, input, known, now)
}

fn planned(settings: &DigestSettings, facts: &KeyFacts) -> Plan {
    plan(settings, facts, &input(), vec!["a".into()], at(OPENED_AT))
}

#[test]
fn a_category_delay_replaces_only_immediate_cadences() {
    let delay = [("share".to_owned(), Duration::from_mins(2)), ("comment".to_owned(), Duration::from_mins(1))];
    for (cadence, why) in [
        ("instant", "share may wait 2m -> 2026-10-24T18:02:00Z"),
        ("after 1h", "share may wait 2m -> 2026-10-24T18:02:00Z"),
        ("daily 08:00", "daily 08:00 Europe/Berlin -> 2026-10-25T07:00:00Z"),
    ] {
        let plan = planned(&DigestSettings { delay: delay.clone().into(), ..settings(cadence) }, &facts());
        assert_eq!((plan.why.as_str(), plan.max_events), (why, Some(7)));
    }
    let other = DigestSettings { delay: delay.into_iter().skip(1).collect(), ..settings("instant") };
    let plan = planned(&other, &facts());
    assert_eq!((plan.why.as_str(), plan.max_events), ("instant -> 2026-10-24T18:00:00Z", Some(1)));
}

#[test]
fn the_first_event_after_a_silence_goes_out_at_once() {
    let send_first = DigestSettings { send_first: Some(Duration::from_hours(1)), ..settings("daily 08:00") };
    for (last_sent_at, at_once) in
        [(None, true), (Some("2026-10-24T17:00:00Z"), true), (Some("2026-10-24T17:00:01Z"), false)]
    {
        let last_sent_at = last_sent_at.map(|at| at.parse().unwrap());
        let plan = planned(&send_first, &KeyFacts { last_sent_at, ..facts() });
        let why = if at_once {
            "at once, as the first in 1h -> 2026-10-24T18:00:00Z"
        } else {
            "daily 08:00 Europe/Berlin -> 2026-10-25T07:00:00Z"
        };
        assert_eq!(plan.why, why);
        assert_eq!(plan.max_events, Some(7));
    }
}

#[test]
fn what_a_wrong_clock_dated_moves_no_deadline() {
    let tomorrow = Some(at("2026-10-25T18:00:00Z"));
    let ahead = KeyFacts { last_sent_at: tomorrow, last_slot_at: tomorrow, changed_at: tomorrow, ..facts() };
    for send_first in [None, Some(Duration::from_hours(1))] {
        let daily = DigestSettings { send_first, ..settings("daily 08:00") };
        assert_eq!(planned(&daily, &ahead), planned(&daily, &facts()));
    }
}

#[test]
fn a_plan_says_when_and_why() {
    for (cadence, why, max_events) in [
        ("instant", "instant -> 2026-10-24T18:00:00Z", 1),
        ("after 60s", "after 1m -> 2026-10-24T18:01:00Z", 7),
        ("hourly", "hourly Europe/Berlin -> 2026-10-24T19:00:00Z", 7),
        ("weekdays 08:00", "weekdays 08:00 Europe/Berlin -> 2026-10-26T07:00:00Z", 7),
        ("cron 30 9 * * sun", "cron 30 9 * * sun Europe/Berlin -> 2026-10-25T08:30:00Z", 7),
    ] {
        let plan = planned(&settings(cadence), &facts());
        assert_eq!((plan.why.as_str(), plan.max_events), (why, Some(max_events)));
        assert!(why.ends_with(&plan.due_at.to_string()));
        assert_eq!(plan.known, ["a"]);
    }
}

#[test]
fn a_plan_takes_spread_and_quiet_hours_from_the_digest_type() {
    let quiet = QuietHours::new(vec!["22:00-09:00".parse().unwrap()]).unwrap();
    let settings = DigestSettings { spread: Some(Duration::from_secs(1)), quiet, ..settings("daily 08:00") };
    assert_eq!(
        planned(&settings, &facts()).why,
        "daily 08:00 Europe/Berlin -> 2026-10-25T07:00:00Z; spread +0s; quiet until 09:00 -> 2026-10-25T08:00:00Z"
    );
}

#[test]
fn a_blocked_window_is_due_at_once() {
    let chosen = Preferences { cadence: Some("never".into()), ..Preferences::default() };
    for (cadence, facts, why) in [
        ("never", facts(), "never: the digest type has a cadence that sends nothing"),
        (
            "daily 08:00",
            KeyFacts { preferences: chosen, ..facts() },
            "never: the recipient chose a cadence that sends nothing",
        ),
        ("never", KeyFacts { consent: false, ..facts() }, "at once: the recipient opted out"),
    ] {
        let plan = planned(&settings(cadence), &facts);
        assert_eq!((plan.due_at, plan.why.as_str(), plan.max_events), (at(OPENED_AT), why, None));
        assert_eq!(plan.known, ["a"]);
    }
}

#[test]
fn preferences_outrank_the_digest_type() {
    let preferences = Preferences {
        cadence: Some("weekly mon 09:00".into()),
        zone: Some("Asia/Tokyo".into()),
        ..Preferences::default()
    };
    let facts = KeyFacts { preferences, ..facts() };
    assert_eq!(planned(&settings("instant"), &facts).why, "weekly mon 09:00 Asia/Tokyo -> 2026-10-26T00:00:00Z");
}

/// Plans a window again, after the recipient chose at `changed_at`.
fn replanned(settings: &DigestSettings, before: &Plan, chosen: Preferences, changed_at: &str) -> Plan {
    let facts = KeyFacts { preferences: chosen, revision: 1, changed_at: Some(at(changed_at)), ..facts() };
    plan(settings, &facts, &PlanInput { before: Some(before.clone()), ..input() }, Vec::new(), at(changed_at))
}

fn chose(cadence: &str) -> Preferences {
    Preferences { cadence: Some(cadence.into()), ..Preferences::default() }
}

#[test]
fn a_choice_re_times_the_open_window_unless_it_came_within_grace() {
    let daily = settings("daily 08:00"); // due at 07:00 UTC
    let before = planned(&daily, &facts());
    for (changed_at, due_at) in [
        ("2026-10-24T20:00:00Z", "2026-10-25T17:00:00Z"),
        ("2026-10-25T06:44:59Z", "2026-10-25T17:00:00Z"),
        ("2026-10-25T06:45:00Z", "2026-10-25T07:00:00Z"), // 15 minutes before
        ("2026-10-25T07:00:00Z", "2026-10-25T07:00:00Z"),
        ("2026-10-25T09:00:00Z", "2026-10-25T17:00:00Z"), // it waits for something else
    ] {
        let plan = replanned(&daily, &before, chose("daily 18:00"), changed_at);
        assert_eq!((plan.due_at, plan.revision), (at(due_at), 1), "{changed_at}");
    }
}

#[test]
fn grace_is_at_most_half_of_the_window() {
    let after = settings("after 10m");
    let before = planned(&after, &facts());
    for (changed_at, due_at) in
        [("2026-10-24T18:04:59Z", "2026-10-24T19:00:00Z"), ("2026-10-24T18:05:00Z", "2026-10-24T18:10:00Z")]
    {
        assert_eq!(replanned(&after, &before, chose("after 1h"), changed_at).due_at, at(due_at), "{changed_at}");
    }
}

#[test]
fn a_slot_counts_from_the_change_and_a_wait_from_the_event() {
    let weekly = settings("weekly mon 08:00");
    let before = planned(&weekly, &facts());
    let sunday_noon = "2026-10-25T12:00:00Z";
    let daily = replanned(&weekly, &before, chose("daily 08:00"), sunday_noon);
    assert_eq!(daily.due_at, at("2026-10-26T07:00:00Z"), "not the slot of the morning before the choice");
    assert_eq!(replanned(&weekly, &before, chose("after 2h"), sunday_noon).due_at, at("2026-10-24T20:00:00Z"));
}

#[test]
fn an_unrelated_preference_keeps_the_deadline() {
    let daily = settings("daily 08:00");
    let before = planned(&daily, &facts());
    let until = Some(at("2026-12-24T00:00:00Z"));
    let off = ["share".to_owned()].into();
    let chosen = Preferences { paused_until: until, off, ..Preferences::default() };
    // Not even when the configuration has changed as well (rule 16).
    let plan = replanned(&daily, &before, chosen, "2026-10-24T20:00:00Z");
    assert_eq!(plan, Plan { known: Vec::new(), revision: 1, paused_until: until, ..before });
}

#[test]
fn only_a_retime_applies_a_changed_configuration() {
    let before = planned(&settings("daily 08:00"), &facts());
    let asked = PlanInput { before: Some(before.clone()), ..input() };
    let (keep_open, undo, max_events) = (Some(Duration::from_mins(10)), Some(Duration::from_mins(5)), Some(9));
    let weekly = DigestSettings { keep_open, undo, max_events, ..settings("weekly mon 12:00") };
    let then = Some("every Monday at 12:00 (Europe/Berlin)".to_owned());
    assert_eq!(plan(&weekly, &facts(), &asked, Vec::new(), at(OPENED_AT)), Plan { known: Vec::new(), then, ..before });
    let anew = PlanInput { anew_at: Some(at("2026-10-27T00:00:00Z")), ..asked };
    let anew = plan(&weekly, &facts(), &anew, Vec::new(), at(OPENED_AT));
    assert_eq!(anew.due_at, at("2026-11-02T11:00:00Z"));
    assert_eq!((anew.linger, anew.undo, anew.max_events), (keep_open, undo, max_events));
}

#[test]
fn the_first_plan_of_a_sliding_window_follows_its_latest_event() {
    let mut behind = input();
    behind.signs.last_at = at("2026-10-24T18:03:00Z");
    let first = plan(&settings("sliding 5m max 12m"), &facts(), &behind, vec!["a".into()], at("2026-10-24T18:03:00Z"));
    assert_eq!(first.why, "5m after the latest event -> 2026-10-24T18:08:00Z");
    assert_eq!(first.due_at, at("2026-10-24T18:08:00Z"));
}

#[test]
fn each_event_moves_a_sliding_deadline_up_to_max() {
    let sliding = settings("sliding 5m max 12m");
    let mut before = planned(&sliding, &facts());
    assert_eq!(before.why, "sliding 5m max 12m -> 2026-10-24T18:05:00Z");
    for (last_at, why) in [
        ("2026-10-24T18:04:00Z", "5m after the latest event -> 2026-10-24T18:09:00Z"),
        (
            "2026-10-24T18:08:00Z",
            "events keep coming, and this is the longest that the first may wait -> 2026-10-24T18:12:00Z",
        ),
    ] {
        let mut asked = PlanInput { before: Some(before), ..input() };
        asked.signs.last_at = at(last_at);
        // Not the cadence of today's configuration, but that of the window.
        before = plan(&settings("daily 08:00"), &facts(), &asked, Vec::new(), at(OPENED_AT));
        assert_eq!(before.why, why);
        assert!(why.ends_with(&format!("-> {}", before.due_at)), "{before:?}");
    }
}

#[test]
fn an_urgent_event_skips_spread_and_quiet_hours_once_a_minute() {
    let quiet = QuietHours::new(vec!["18:00-09:00".parse().unwrap()]).unwrap();
    let settings = DigestSettings { spread: Some(Duration::from_hours(1)), quiet, ..settings("daily 08:00") };
    let mut input = input();
    input.signs.urgent_at = Some(at("2026-10-24T18:10:00Z"));
    for (last_sent_at, why) in [
        (None, "urgent -> 2026-10-24T18:10:00Z"),
        (Some("2026-10-24T18:09:00Z"), "urgent -> 2026-10-24T18:10:00Z"),
        (Some("2026-10-24T18:09:30Z"), "urgent, a minute after the last digest -> 2026-10-24T18:10:30Z"),
    ] {
        let facts = KeyFacts { last_sent_at: last_sent_at.map(at), ..facts() };
        let plan = plan(&settings, &facts, &input, Vec::new(), at("2026-10-24T18:10:00Z"));
        assert_eq!((plan.why.as_str(), plan.urgent), (why, true));
    }
    let none = KeyFacts { consent: false, ..facts() };
    assert!(!plan(&settings, &none, &input, Vec::new(), at(OPENED_AT)).urgent, "never past consent");
}

#[test]
fn a_recipient_chooses_the_time_of_day_alone() {
    let preferences = Preferences { at: Some("18:30".into()), ..Preferences::default() };
    let facts = KeyFacts { preferences, ..facts() };
    assert_eq!(planned(&settings("weekdays 08:00"), &facts).due_at, at("2026-10-26T17:30:00Z"));
    assert_eq!(planned(&settings("after 1h"), &facts).due_at, at("2026-10-24T19:00:00Z"));
}

#[test]
fn collected_events_are_one_email_also_under_instant() {
    let instant = DigestSettings { max_events: None, ..settings("instant") };
    assert_eq!(planned(&instant, &facts()).max_events, Some(1));
    let waited = PlanInput { waited: true, ..input() };
    assert_eq!(
        plan(&instant, &facts(), &waited, Vec::new(), at(OPENED_AT)).max_events,
        None,
        "behind a digest that was retried"
    );
    let before = planned(&settings("daily 08:00"), &facts());
    let chosen = replanned(&instant, &before, chose("instant"), "2026-10-24T20:00:00Z");
    assert_eq!((chosen.max_events, chosen.due_at), (None, at(OPENED_AT)), "until the recipient chose it");
}

#[test]
fn an_urgent_event_takes_what_has_collected_along_and_delays_nothing() {
    let mut urgent = input();
    urgent.signs.urgent_at = Some(at(OPENED_AT));
    let recent = KeyFacts { last_sent_at: Some(at(OPENED_AT)), ..facts() };
    let instant = plan(&settings("instant"), &recent, &urgent, Vec::new(), at(OPENED_AT));
    assert_eq!((instant.due_at, instant.max_events), (at(OPENED_AT), Some(1)), "a minute later would be no haste");
    let punctual = plan(&settings("instant"), &facts(), &urgent, Vec::new(), at(OPENED_AT));
    assert_eq!((punctual.due_at, punctual.max_events), (at(OPENED_AT), Some(1)), "due then without the haste");
    let night =
        DigestSettings { quiet: QuietHours::new(vec!["18:00-23:00".parse().unwrap()]).unwrap(), ..settings("instant") };
    let hastened = plan(&night, &facts(), &urgent, Vec::new(), at(OPENED_AT));
    assert_eq!((hastened.due_at, hastened.max_events), (at(OPENED_AT), None), "all that waits for the morning");
}

#[test]
fn a_reworded_plan_keeps_its_deadline() {
    let daily = settings("daily 08:00");
    let plan = planned(&daily, &facts());
    let reworded = Plan { follows: "each day at eight".to_owned(), ..plan.clone() };
    let off = Preferences { off: ["share".to_owned()].into(), ..Preferences::default() };
    let next_day = settings("weekly mon 12:00");
    let kept = replanned(&daily, &reworded, off.clone(), "2026-10-24T20:00:00Z");
    assert_eq!((kept.due_at, kept.follows), (plan.due_at, reworded.follows));
    let moved = replanned(&next_day, &plan, off, "2026-10-24T20:00:00Z");
    assert_ne!(moved.due_at, plan.due_at);
}

#[test]
fn a_plan_keeps_its_deadline_while_the_quiet_hours_stay() {
    let quiet = |hours: &str| {
        let quiet = QuietHours::new(vec![hours.parse().unwrap()]).unwrap();
        DigestSettings { quiet, ..settings("daily 08:00") }
    };
    let night = quiet("22:00-07:00");
    let retimed = Plan { due_at: at("2026-10-24T21:30:00Z"), ..planned(&night, &facts()) };
    let off = Preferences { off: ["share".to_owned()].into(), ..Preferences::default() };
    let due_at = |settings| replanned(settings, &retimed, off.clone(), "2026-10-24T20:00:00Z").due_at;
    assert_eq!(due_at(&night), retimed.due_at);
    assert_eq!(due_at(&quiet("22:00-09:00")), at("2026-10-25T08:00:00Z"));
}

#[test]
fn a_plan_without_values_is_compared_by_its_words() {
    let daily = settings("daily 08:00");
    let old = Plan { basis: None, ..planned(&daily, &facts()) };
    let off = Preferences { off: ["share".to_owned()].into(), ..Preferences::default() };
    assert_eq!(replanned(&daily, &old, off, "2026-10-24T20:00:00Z").due_at, old.due_at);
    assert_ne!(replanned(&daily, &old, chose("daily 18:00"), "2026-10-24T20:00:00Z").due_at, old.due_at);
}

#[test]
fn a_plan_names_the_pause_and_keeps_its_deadline() {
    let paused = PauseDetails { by: "ann".into(), why: "wrong prices".into(), since: at(OPENED_AT), until: None };
    let facts = KeyFacts { pause: Some(paused.clone()), ..facts() };
    let daily = settings("daily 08:00");
    let before = planned(&daily, &self::facts());
    let waiting = planned(&daily, &facts);
    let pause = waiting.pause.clone().unwrap();
    assert_eq!(pause.paused, paused);
    assert!(pause.look_at > at(OPENED_AT));
    assert_eq!(Plan { pause: None, ..waiting.clone() }, before);

    let again = PlanInput { before: Some(before.clone()), ..input() };
    let replanned = plan(&daily, &facts, &again, vec!["a".into()], at(OPENED_AT));
    assert_eq!((replanned.pause, replanned.due_at), (Some(pause), before.due_at));
    let resumed = PlanInput { before: Some(waiting), ..input() };
    assert_eq!(plan(&daily, &self::facts(), &resumed, vec!["a".into()], at(OPENED_AT)).pause, None);

    let urgent = PlanInput { signs: DeadlineInputs { urgent_at: Some(at(OPENED_AT)), ..input().signs }, ..input() };
    assert!(plan(&daily, &facts, &urgent, Vec::new(), at(OPENED_AT)).pause.is_some());
    let opted_out = KeyFacts { consent: false, ..facts };
    assert_eq!(planned(&daily, &opted_out).pause, None, "the window ends without a message");
}

fn throttle(settings: DigestSettings, on_throttle: OverLimit) -> DigestSettings {
    DigestSettings { throttle: Some(Duration::from_hours(1)), on_throttle, ..settings }
}

#[test]
fn a_changed_throttle_acts_on_an_open_window_only_by_a_retime() {
    let free = settings("daily 08:00");
    let strict = throttle(free.clone(), OverLimit::Skip);
    let limits = |settings: &DigestSettings| Some(FrequencyLimits::new(settings, None, OverLimit::Defer));
    for (old, new) in [(&free, &strict), (&strict, &free)] {
        let before = planned(old, &facts());
        assert_eq!(before.limits, limits(old));
        let again = PlanInput { before: Some(before.clone()), ..input() };
        assert_eq!(plan(new, &facts(), &again, Vec::new(), at(OPENED_AT)).limits, limits(old));
        let chosen = replanned(new, &before, chose("daily 18:00"), "2026-10-24T20:00:00Z");
        assert_eq!((chosen.due_at, chosen.limits), (at("2026-10-25T17:00:00Z"), limits(old)));
        let anew = PlanInput { anew_at: Some(at(OPENED_AT)), ..again };
        assert_eq!(plan(new, &facts(), &anew, Vec::new(), at(OPENED_AT)).limits, limits(new));
        let older = PlanInput { before: Some(Plan { limits: None, ..before }), ..input() };
        assert_eq!(plan(new, &facts(), &older, Vec::new(), at(OPENED_AT)).limits, limits(new));
    }
}

#[test]
fn a_changed_cap_acts_on_an_open_window_only_by_a_retime() {
    let daily = settings("daily 08:00");
    let cap = Some(DigestCap { most: 1, within: Duration::from_hours(24) });
    let new = FrequencyLimits::new(&daily, cap, OverLimit::Skip);
    let before = planned(&daily, &facts());
    let again = PlanInput { before: Some(before.clone()), ..input() };
    let anew = PlanInput { anew_at: Some(at(OPENED_AT)), ..again.clone() };
    for (asked, limits) in [(again, before.limits), (anew, Some(new))] {
        assert_eq!(super::plan_window(&daily, new, &facts(), &asked, Vec::new(), at(OPENED_AT)).limits, limits);
    }
}

#[test]
fn never_in_a_changed_file_ends_no_open_window_without_a_retime() {
    let (daily, never) = (settings("daily 08:00"), settings("never"));
    let before = planned(&daily, &facts());
    let off = Preferences { off: ["share".to_owned()].into(), ..Preferences::default() };
    let kept = replanned(&never, &before, off.clone(), "2026-10-24T20:00:00Z");
    assert_eq!((kept.due_at, &kept.why), (before.due_at, &before.why));
    let returned = PlanInput { before: Some(before.clone()), joined: Some(EventOrigin::Own), ..input() };
    assert_eq!(plan(&never, &facts(), &returned, Vec::new(), at(OPENED_AT)).due_at, before.due_at);
    let anew = PlanInput { before: Some(before.clone()), anew_at: Some(at(OPENED_AT)), ..input() };
    assert_eq!(plan(&never, &facts(), &anew, Vec::new(), at(OPENED_AT)).due_at, at(OPENED_AT));
    // The recipient's own choice counts at once.
    let chosen = replanned(&daily, &before, chose("never"), "2026-10-24T20:00:00Z");
    assert_eq!(chosen.due_at, at(OPENED_AT));
    // A window that was to send nothing does so although the file has a cadence now.
    let silent = planned(&never, &facts());
    assert!(replanned(&daily, &silent, off, "2026-10-24T20:00:00Z").why.starts_with("never: the digest type has"));
}

#[test]
fn a_plan_without_a_table_is_due_at_once_and_chooses_no_deadline() {
    let now = at(OPENED_AT);
    let provisional = provisional_plan(&facts(), &input(), vec!["a".into()], now);
    assert!(provisional.is_provisional());
    assert_eq!((provisional.due_at, provisional.known.clone()), (now, vec!["a".to_owned()]));
    assert!(provisional.why.contains("[digest.activity]"), "{}", provisional.why);

    // The table comes: the window gets its deadline, and the answer keeps the revision, so that nobody seems to have chosen it.
    let opened = PlanInput { before: Some(provisional.clone()), ..input() };
    let made = |input: &PlanInput| {
        let before = input.before.as_ref();
        plan(&settings("daily 08:00"), &facts(), &input.without_provisional(), Vec::new(), now).in_place_of(before)
    };
    let first = made(&opened);
    let daily = planned(&settings("daily 08:00"), &facts());
    assert_eq!((first.due_at, &first.why), (daily.due_at, &daily.why));
    assert_eq!((first.revision, first.is_provisional()), (Plan::PROVISIONAL, false));

    // The claim asks for the revision, which moves nothing.
    let second = made(&PlanInput { before: Some(first.clone()), ..input() });
    assert_eq!((second.due_at, second.revision), (first.due_at, facts().revision));
}

#[test]
fn an_open_window_keeps_its_deadline_while_its_table_is_missing() {
    let before = planned(&settings("daily 08:00"), &facts());
    let asked = PlanInput { before: Some(before.clone()), anew_at: Some(at(OPENED_AT)), ..input() };
    let kept = provisional_plan(&facts(), &asked, Vec::new(), at(OPENED_AT));
    assert_eq!(kept, Plan { known: Vec::new(), ..before });
}
