//! Windows which are admitted, deferred and refused.

use uuid::Uuid;

use super::*;
use crate::{
    Key, QuietHours,
    pause::PauseDetails,
    records::{Preferences, Recipient, SuppressionReason},
    rules::samples,
    step::Plan,
};

const DUE: &str = "2026-03-02T08:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn window() -> Window {
    let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
    Window { key, digest_id: Uuid::nil(), opened_at: at("2026-03-01T10:00:00Z"), due_at: at(DUE) }
}

fn facts() -> KeyFacts {
    let recipient = Recipient {
        tenant: "acme".into(),
        user: "ann".into(),
        address: "ann@example.org".into(),
        name: String::new(),
        zone: String::new(),
        locale: String::new(),
    };
    KeyFacts { recipient: Some(recipient), ..samples::facts() }
}

fn settings(cadence: &str, quiet: &[&str]) -> DigestSettings {
    DigestSettings {
        spread: Some(Duration::from_mins(15)),
        quiet: QuietHours::new(quiet.iter().map(|text| text.parse().unwrap()).collect()).unwrap(),
        ..DigestSettings::new("activity", cadence.parse().unwrap())
    }
}

fn asked(now: &str, flushed: bool) -> ClaimInput {
    ClaimInput {
        asked_at: at(now),
        window: window(),
        events: Vec::new(),
        flushed,
        urgent: false,
        revision: 0,
        planned: None,
        limits: None,
        due_at: None,
        undo: None,
        released: false,
        limit_ended_at: None,
        unknown_since: Some(at(DUE)),
    }
}

/// Admits under today's limits.
fn admit(settings: &DigestSettings, facts: &KeyFacts, input: &ClaimInput, now: Timestamp) -> AdmissionDecision {
    let limits = FrequencyLimits::new(settings, None, OverLimit::Defer);
    super::admit(settings, &limits, facts, input, now)
}

fn admit_at(facts: &KeyFacts, now: &str) -> AdmissionDecision {
    let input = asked(now, false);
    admit(&settings("daily 08:00", &[]), facts, &input, at(now))
}

#[test]
fn a_throttle_defers_to_its_end_and_a_flush_goes_past_it() {
    let settings = DigestSettings { throttle: Some(Duration::from_hours(1)), ..settings("instant", &[]) };
    let facts = KeyFacts {
        last_sent_at: Some(at("2026-03-02T07:30:00Z")),
        last_slot_at: Some(at("2026-03-02T07:30:00Z")),
        ..facts()
    };
    let admitted = |flushed, now| {
        let input = asked(now, flushed);
        admit(&settings, &facts, &input, at(now))
    };
    let later = AdmissionDecision::Later {
        until: at("2026-03-02T08:30:00Z"),
        why: "throttled to one in 1h, the last at 2026-03-02T07:30:00Z -> 2026-03-02T08:30:00Z".into(),
        limit_ends_at: None,
    };
    assert_eq!(admitted(false, DUE), later);
    assert_eq!(admitted(true, DUE), AdmissionDecision::Admitted);
    assert_eq!(admitted(false, "2026-03-02T08:30:00Z"), AdmissionDecision::Admitted);
}

#[test]
fn a_known_recipient_who_wants_mail_is_admitted() {
    assert_eq!(admit_at(&facts(), DUE), AdmissionDecision::Admitted);
}

#[test]
fn withdrawn_consent_outranks_everything_else() {
    let facts =
        KeyFacts { consent: false, recipient: None, suppressed: Some(SuppressionReason::HardBounce), ..facts() };
    let AdmissionDecision::Refused(closed) = admit_at(&facts, DUE) else { panic!("was admitted") };
    assert_eq!(closed.outcome, DigestOutcome::Skipped);
}

#[test]
fn a_suppressed_address_gets_nothing() {
    let facts = KeyFacts { suppressed: Some(SuppressionReason::HardBounce), ..facts() };
    let AdmissionDecision::Refused(closed) = admit_at(&facts, DUE) else { panic!("was admitted") };
    assert_eq!(closed.outcome, DigestOutcome::Suppressed);
}

#[test]
fn a_pause_ends_at_the_next_good_moment() {
    let pause = |until: &str| Preferences { paused_until: Some(at(until)), ..Preferences::default() };
    let admitted = |until: &str, now: &str| admit_at(&KeyFacts { preferences: pause(until), ..facts() }, now);
    let at_midnight = "2026-03-05T00:00:00Z";
    let AdmissionDecision::Later { until, why, .. } = admitted(at_midnight, DUE) else { panic!("was admitted") };
    let share = until.duration_since(at("2026-03-05T08:00:00Z"));
    assert!(!share.is_negative() && share < SignedDuration::from_mins(15), "{until}");
    assert_eq!(why, format!("paused until {at_midnight}; not before 08:00 -> {until}"));
    assert!(matches!(admitted(at_midnight, at_midnight), AdmissionDecision::Later { until: u, .. } if u == until));
    assert_eq!(admit_at(&facts(), &until.to_string()), AdmissionDecision::Admitted);
    // On the day of the deadline its time of day has come.
    let noon = "2026-03-02T12:00:00Z";
    assert!(matches!(admitted(noon, DUE), AdmissionDecision::Later { until, .. } if until == at(noon)));
    assert_eq!(admitted(noon, noon), AdmissionDecision::Admitted);
}

#[test]
fn a_flushed_or_urgent_window_goes_out_when_the_pause_ends() {
    let until = at("2026-03-05T00:00:00Z");
    let preferences = Preferences { paused_until: Some(until), ..Preferences::default() };
    let facts = KeyFacts { preferences, ..facts() };
    let daily = settings("daily 08:00", &["22:00-07:00"]);
    for input in [asked(DUE, true), ClaimInput { urgent: true, ..asked(DUE, false) }] {
        let later = admit(&daily, &facts, &input, at(DUE));
        assert!(matches!(later, AdmissionDecision::Later { until: u, .. } if u == until), "{later:?}");
    }
}

#[test]
fn what_an_operator_released_by_name_goes_out_in_quiet_hours() {
    let night = settings("daily 08:00", &["22:00-07:00"]);
    let released = ClaimInput { released: true, ..asked(DUE, false) };
    assert_eq!(admit(&night, &facts(), &released, at("2026-03-02T23:00:00Z")), AdmissionDecision::Admitted);
    let throttled = DigestSettings { throttle: Some(Duration::from_hours(24)), ..night };
    let facts = KeyFacts { last_slot_at: Some(at(DUE)), ..facts() };
    assert!(
        matches!(admit(&throttled, &facts, &released, at(DUE)), AdmissionDecision::Later { .. }),
        "a throttle holds"
    );
}

#[test]
fn a_window_that_is_late_waits_for_its_time_of_day() {
    let admitted = |now: &str| admit(&settings("daily 08:00", &[]), &facts(), &asked(now, false), at(now));
    assert_eq!(admitted("2026-03-02T23:30:00Z"), AdmissionDecision::Admitted, "on the day of its slot");
    let AdmissionDecision::Later { until, .. } = admitted("2026-03-03T03:00:00Z") else {
        panic!("was admitted in the night")
    };
    assert_eq!(until.to_string().get(..13), Some("2026-03-03T08"));
    assert_eq!(admitted("2026-03-03T10:00:00Z"), AdmissionDecision::Admitted);
}

#[test]
fn a_throttle_of_a_day_ends_with_the_day_of_the_last_slot() {
    let daily = DigestSettings { throttle: Some(Duration::from_hours(24)), ..settings("daily 08:00", &[]) };
    let admitted = |last: &str| {
        let facts = KeyFacts { last_slot_at: Some(at(last)), ..facts() };
        admit(&daily, &facts, &asked(DUE, false), at("2026-03-02T08:14:59Z"))
    };
    assert_eq!(admitted("2026-03-01T23:59:59Z"), AdmissionDecision::Admitted);
    let AdmissionDecision::Later { until, limit_ends_at, .. } = admitted("2026-03-02T00:00:00Z") else {
        panic!("admitted")
    };
    assert_eq!(until.to_string().get(..13), Some("2026-03-03T08"));
    assert_eq!(limit_ends_at, None, "it allows a digest in each slot, so that the slot counts");
}

#[test]
fn a_digest_that_a_longer_limit_puts_off_counts_from_its_end() {
    let limits = DigestSettings { throttle: Some(Duration::from_mins(90)), ..settings("hourly", &[]) };
    let facts = KeyFacts { last_slot_at: Some(at("2026-03-02T07:00:00Z")), ..facts() };
    let later = admit(&limits, &facts, &asked(DUE, false), at(DUE));
    let ends_at = at("2026-03-02T08:30:00Z");
    assert!(
        matches!(later, AdmissionDecision::Later { limit_ends_at, .. } if limit_ends_at == Some(ends_at)),
        "{later:?}"
    );
}

#[test]
fn a_limit_of_whole_days_lets_each_key_go_at_its_own_second() {
    let settings = DigestSettings::new("activity", "instant".parse().unwrap());
    let limits = FrequencyLimits { throttle: Some(Duration::from_hours(24)), ..FrequencyLimits::default() };
    let facts = KeyFacts { last_slot_at: Some(at("2026-03-02T07:00:00Z")), ..facts() };
    let ends: std::collections::BTreeSet<_> = (0..60)
        .map(|user| {
            let key = Key::new("acme".into(), "activity".into(), format!("u{user}")).unwrap();
            let input = ClaimInput { window: Window { key, ..window() }, ..asked(DUE, false) };
            match super::admit(&settings, &limits, &facts, &input, at(DUE)) {
                AdmissionDecision::Later { until, why, .. } => {
                    assert!(
                        why.ends_with(&format!("-> 2026-03-03T00:00:00Z; spread -> {until}"))
                            || until == at("2026-03-03T00:00:00Z"),
                        "{why}"
                    );
                    until.duration_since(at("2026-03-03T00:00:00Z")).as_secs()
                }
                admission => panic!("{admission:?}"),
            }
        })
        .collect();
    assert!(ends.iter().all(|seconds| (0..60).contains(seconds)) && ends.len() > 25, "{ends:?}");
}

/// A digest type's open window in a simulated cap.
struct Open {
    name: &'static str,
    settings: DigestSettings,
    window: Window,
    asks_at: Timestamp,
    limit_ended_at: Option<Timestamp>,
}

impl Open {
    fn new(name: &'static str, cadence: &str, opened_at: Timestamp) -> Self {
        let settings = settings(cadence, &["sat-sun 00:00-24:00"]);
        let key = Key::new("acme".into(), name.into(), "ann".into()).unwrap();
        let facts = facts();
        let effective = EffectiveSettings::new(&settings, &facts, opened_at);
        let due_at =
            DeadlineTiming::new(&settings, &key, &effective).cadence_deadline(&settings.cadence, None, opened_at).at;
        let window = Window { key, digest_id: Uuid::nil(), opened_at, due_at };
        Self { name, settings, window, asks_at: due_at, limit_ended_at: None }
    }
}

/// Simulates two weeks of a person with two types and a cap: who got a digest when.
fn weeks_under_a_cap(limits: &FrequencyLimits, types: [(&'static str, &str); 2]) -> Vec<(&'static str, Timestamp)> {
    let begin = at("2026-03-02T00:00:00Z");
    let mut open = types.map(|(name, cadence)| Open::new(name, cadence, begin));
    // Each with the time from which it counts for its own type.
    let mut sent: Vec<(&str, Timestamp, Timestamp)> = Vec::new();
    loop {
        open.sort_by_key(|open| open.asks_at);
        let (Open { name, settings, window, limit_ended_at, .. }, now) = (&open[0], open[0].asks_at);
        if now > at("2026-03-16T00:00:00Z") {
            return sent.into_iter().map(|(name, at, _)| (name, at)).collect();
        }
        let input = ClaimInput {
            window: window.clone(),
            due_at: Some(now),
            limit_ended_at: *limit_ended_at,
            unknown_since: None,
            ..asked(&now.to_string(), false)
        };
        let zone = jiff::tz::TimeZone::UTC;
        let mut admission = super::admit(settings, limits, &facts(), &input, now);
        if admission == AdmissionDecision::Admitted {
            let cap = limits.cap.unwrap();
            let since = crate::rules::limit::limit_since(now, cap.within, &zone);
            let counts_from = |(of, at, slot): &(&str, Timestamp, Timestamp)| if of == name { *slot } else { *at };
            if let Some(oldest) = sent.iter().map(counts_from).filter(|at| *at > since).max() {
                admission = decide_capped(settings, limits, &facts(), &input, oldest, now);
            }
        }
        let opened = match admission {
            AdmissionDecision::Admitted => {
                let ended_at = limits.counted_end(&settings.cadence, window.due_at, *limit_ended_at, &zone);
                let slot = crate::rules::limit::counts_from(&settings.cadence, window.due_at, ended_at, now);
                sent.push((name, now, slot.unwrap()));
                Some(Open::new(name, &settings.cadence.to_string(), now))
            }
            AdmissionDecision::Later { until, limit_ends_at, .. } => {
                assert!(until > now, "{name} at {now}");
                (open[0].asks_at, open[0].limit_ended_at) = (until, open[0].limit_ended_at.max(limit_ends_at));
                None
            }
            admission => panic!("{admission:?}"),
        };
        if let Some(opened) = opened {
            open[0] = opened;
        }
    }
}

#[test]
fn a_cap_of_one_a_day_starves_no_type_whose_slot_comes_later_in_the_day() {
    let within = Duration::from_hours(24);
    let cap = Some(crate::settings::DigestCap { most: 1, within });
    let limits = FrequencyLimits { cap, ..FrequencyLimits::default() };
    let sent = weeks_under_a_cap(&limits, [("news", "daily 07:00"), ("activity", "daily 08:00")]);
    let days: std::collections::BTreeSet<_> = sent.iter().map(|(_, at)| at.to_string()[..10].to_owned()).collect();
    assert_eq!(days.len(), sent.len(), "one a day: {sent:?}");
    assert!(days.len() >= 9, "each working day has one: {sent:?}");
    for (name, least) in [("news", 4), ("activity", 4)] {
        let digests: Vec<_> = sent.iter().filter(|(of, _)| *of == name).map(|(_, at)| *at).collect();
        assert!(digests.len() >= least, "{name} has {}: {sent:?}", digests.len());
        let longest = digests.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_hours()).max();
        assert!(longest < Some(5 * 24), "{name} waited {longest:?} h: {sent:?}");
    }
    let night = |(name, at): &&(&str, Timestamp)| *name == "activity" && at.to_string()[11..13] == *"00";
    assert!(sent.iter().any(|digest| night(&digest)), "put off again, it waits for no time of day: {sent:?}");
}

#[test]
fn a_digest_that_a_cap_puts_off_past_its_next_slot_counts_from_the_end() {
    let (daily, utc) = ("daily 08:00".parse().unwrap(), jiff::tz::TimeZone::UTC);
    let cap = Some(crate::settings::DigestCap { most: 1, within: Duration::from_hours(24) });
    let limits = FrequencyLimits { cap, ..FrequencyLimits::default() };
    for (ended, counts) in [("2026-03-02T20:00:00Z", false), ("2026-03-03T08:00:00Z", true)] {
        let end = limits.counted_end(&daily, at(DUE), Some(at(ended)), &utc);
        assert_eq!(end, Some(at(ended)).filter(|_| counts), "{ended}");
    }
}

#[test]
fn an_unknown_recipient_is_retried_hourly_and_ends_after_seven_days() {
    let facts = KeyFacts { recipient: None, ..facts() };
    for (now, next) in [
        ("2026-03-02T08:00:00Z", "2026-03-02T08:01:00Z"),
        ("2026-03-02T08:08:00Z", "2026-03-02T08:16:00Z"),
        ("2026-03-04T08:00:00Z", "2026-03-04T09:00:00Z"),
    ] {
        assert!(matches!(admit_at(&facts, now), AdmissionDecision::Unknown { until, .. } if until == at(next)));
    }
    let AdmissionDecision::Refused(closed) = admit_at(&facts, "2026-03-09T08:00:00Z") else { panic!("still waiting") };
    assert_eq!(closed.outcome, DigestOutcome::Unknown);
    // A pause may have held the window for longer: the days count from the first look.
    let (now, until) = (at("2026-03-20T08:00:00Z"), at("2026-03-20T08:01:00Z"));
    let first = ClaimInput { unknown_since: None, ..asked("2026-03-20T08:00:00Z", false) };
    let admission = admit(&settings("daily 08:00", &[]), &facts, &first, now);
    assert!(
        matches!(admission, AdmissionDecision::Unknown { since, until: next, .. } if (since, next) == (now, until))
    );
}

#[test]
fn a_digest_type_without_a_table_waits_as_long_and_ends_with_that_reason() {
    let why =
        r#"digest type "activity" is not configured: add [digest.activity] to tidings.toml and restart the worker"#;
    for (now, next) in [
        ("2026-03-02T08:00:00Z", "2026-03-02T08:01:00Z"),
        ("2026-03-02T08:08:00Z", "2026-03-02T08:16:00Z"),
        ("2026-03-04T08:00:00Z", "2026-03-04T09:00:00Z"),
    ] {
        let later = AdmissionDecision::Unknown { since: at(DUE), until: at(next), why: why.to_owned() };
        assert_eq!(admit_without_table(&facts(), &asked(now, false), at(now)), later);
    }
    let over = at("2026-03-09T08:00:00Z");
    let closed =
        WindowEnd { outcome: DigestOutcome::Unknown, why: format!("for seven days there was no table: {why}") };
    assert_eq!(admit_without_table(&facts(), &asked(DUE, false), over), AdmissionDecision::Refused(closed));
    let opted_out = KeyFacts { consent: false, ..facts() };
    let AdmissionDecision::Refused(closed) = admit_without_table(&opted_out, &asked(DUE, false), at(DUE)) else {
        panic!("it waits")
    };
    assert_eq!(closed.outcome, DigestOutcome::Skipped);
    let until = at("2026-03-12T00:00:00Z");
    let paused = Preferences { paused_until: Some(until), ..Preferences::default() };
    let later = admit_without_table(&KeyFacts { preferences: paused, ..facts() }, &asked(DUE, false), over);
    assert!(matches!(later, AdmissionDecision::Later { until: said, .. } if said == until), "{later:?}");
}

#[test]
fn a_window_that_was_planned_without_its_table_is_planned_again_when_the_table_is_there() {
    let input = ClaimInput { revision: Plan::PROVISIONAL, ..asked(DUE, false) };
    assert_eq!(admit(&settings("daily 08:00", &[]), &facts(), &input, at(DUE)), AdmissionDecision::Changed);
}

#[test]
fn a_directory_elsewhere_says_why_it_has_no_recipient() {
    let why = "the answer has no usable zone";
    let facts = facts().without_recipient(why.to_owned());
    let later = admit_at(&facts, DUE);
    assert!(matches!(&later, AdmissionDecision::Unknown { why: said, .. } if said == why), "{later:?}");
    let AdmissionDecision::Refused(closed) = admit_at(&facts, "2026-03-09T08:00:00Z") else { panic!("still waiting") };
    assert_eq!(
        (closed.outcome, closed.why),
        (DigestOutcome::Unknown, format!("for seven days there was no recipient: {why}"))
    );
}

#[test]
fn never_is_never_also_when_an_operator_flushes() {
    let input = asked(DUE, true);
    for (cadence, chosen, why) in [
        ("never", None, "never: the digest type has a cadence that sends nothing"),
        ("daily 08:00", Some("never".to_owned()), "never: the recipient chose a cadence that sends nothing"),
    ] {
        let preferences = Preferences { cadence: chosen, ..Preferences::default() };
        let facts = KeyFacts { preferences, ..facts() };
        let closed = WindowEnd { outcome: DigestOutcome::Skipped, why: why.to_owned() };
        assert_eq!(admit(&settings(cadence, &[]), &facts, &input, at(DUE)), AdmissionDecision::Refused(closed));
    }
}

#[test]
fn a_late_window_waits_for_quiet_hours_and_spread() {
    let night = settings("daily 08:00", &["22:00-07:00"]);
    let mut input = asked(DUE, false);
    let now = at("2026-03-02T23:00:00Z");
    let AdmissionDecision::Later { until, why, .. } = admit(&night, &facts(), &input, now) else {
        panic!("was admitted")
    };
    let spread = until.duration_since(at("2026-03-03T08:00:00Z"));
    assert!(!spread.is_negative() && spread < SignedDuration::from_mins(15), "{until}");
    assert_eq!(why, format!("quiet until Tue 07:00; not before 08:00 -> {until}"));
    assert_eq!(admit(&night, &facts(), &input, until), AdmissionDecision::Admitted);
    // An operator's flush goes past them.
    input.flushed = true;
    assert_eq!(admit(&night, &facts(), &input, now), AdmissionDecision::Admitted);
}

#[test]
fn quiet_hours_that_are_younger_than_a_deadline_do_not_move_it() {
    let admitted = |now: &str| {
        let input = ClaimInput { unknown_since: None, ..asked(now, false) };
        admit(&settings("daily 08:00", &["07:00-09:00"]), &facts(), &input, at(now))
    };
    assert_eq!(admitted(DUE), AdmissionDecision::Admitted);
    assert_eq!(admitted("2026-03-02T08:01:00Z"), AdmissionDecision::Admitted);
    let late = admitted("2026-03-02T08:01:01Z");
    assert!(matches!(&late, AdmissionDecision::Later { why, .. } if why.starts_with("quiet until 09:00")), "{late:?}");
}

#[test]
fn a_throttle_that_skips_ends_the_window() {
    let skips = DigestSettings {
        throttle: Some(Duration::from_hours(1)),
        on_throttle: OverLimit::Skip,
        ..settings("instant", &[])
    };
    let facts = KeyFacts {
        last_sent_at: Some(at("2026-03-02T07:30:00Z")),
        last_slot_at: Some(at("2026-03-02T07:30:00Z")),
        ..facts()
    };
    let AdmissionDecision::Refused(closed) = admit(&skips, &facts, &asked(DUE, false), at(DUE)) else {
        panic!("not skipped")
    };
    assert_eq!(closed.outcome, DigestOutcome::Throttled);
    assert_eq!(admit(&skips, &facts, &asked(DUE, true), at(DUE)), AdmissionDecision::Admitted);
}

#[test]
fn a_throttle_that_skips_ends_no_urgent_window() {
    let skips = DigestSettings {
        throttle: Some(Duration::from_hours(1)),
        on_throttle: OverLimit::Skip,
        ..settings("instant", &[])
    };
    let urgent = ClaimInput { urgent: true, ..asked(DUE, false) };
    let sent = |last: &str| KeyFacts { last_sent_at: Some(at(last)), last_slot_at: Some(at(last)), ..facts() };
    assert_eq!(admit(&skips, &sent("2026-03-02T07:30:00Z"), &urgent, at(DUE)), AdmissionDecision::Admitted);
    let soon = admit(&skips, &sent("2026-03-02T07:59:30Z"), &urgent, at(DUE));
    assert!(matches!(soon, AdmissionDecision::Later { until, .. } if until == at("2026-03-02T08:00:30Z")), "{soon:?}");
}

#[test]
fn a_window_keeps_the_limits_that_it_was_planned_with() {
    let facts = KeyFacts {
        last_sent_at: Some(at("2026-03-02T07:30:00Z")),
        last_slot_at: Some(at("2026-03-02T07:30:00Z")),
        ..facts()
    };
    let (daily, never) = (settings("daily 08:00", &[]), settings("never", &[]));
    let throttle = Some(Duration::from_hours(1));
    let strict = DigestSettings { throttle, on_throttle: OverLimit::Skip, ..daily.clone() };
    let limits = |settings| FrequencyLimits::new(settings, None, OverLimit::Defer);
    let admitted = |planned, today| super::admit(today, &limits(planned), &facts, &asked(DUE, false), at(DUE));
    assert_eq!(admitted(&daily, &strict), AdmissionDecision::Admitted);
    assert_eq!(admitted(&daily, &never), AdmissionDecision::Admitted);
    for (planned, outcome) in [(&strict, DigestOutcome::Throttled), (&never, DigestOutcome::Skipped)] {
        let AdmissionDecision::Refused(closed) = admitted(planned, &daily) else { panic!("was admitted") };
        assert_eq!(closed.outcome, outcome);
    }
}

#[test]
fn an_urgent_window_skips_throttle_and_quiet_hours_but_no_pause() {
    let strict =
        DigestSettings { throttle: Some(Duration::from_hours(1)), ..settings("daily 08:00", &["22:00-07:00"]) };
    let urgent = ClaimInput { urgent: true, ..asked(DUE, false) };
    let night = at("2026-03-02T23:00:00Z");
    let sent = |last: &str| KeyFacts { last_sent_at: Some(at(last)), last_slot_at: Some(at(last)), ..facts() };
    assert_eq!(admit(&strict, &sent("2026-03-02T22:59:00Z"), &urgent, night), AdmissionDecision::Admitted);
    assert_eq!(
        admit(&strict, &sent("2026-03-02T22:59:01Z"), &urgent, night),
        AdmissionDecision::later(
            at("2026-03-02T23:00:01Z"),
            "urgent, a minute after the last digest -> 2026-03-02T23:00:01Z".into()
        )
    );
    let until = at("2026-03-05T00:00:00Z");
    let preferences = Preferences { paused_until: Some(until), ..Preferences::default() };
    let paused = KeyFacts { preferences, ..facts() };
    assert!(matches!(admit(&strict, &paused, &urgent, night), AdmissionDecision::Later { until: u, .. } if u == until));
}

#[test]
fn a_changed_preference_causes_a_new_plan_unless_flushed_or_urgent() {
    let chose = KeyFacts { revision: 1, ..facts() };
    assert_eq!(admit_at(&chose, DUE), AdmissionDecision::Changed);
    assert_eq!(admit(&settings("daily 08:00", &[]), &chose, &asked(DUE, true), at(DUE)), AdmissionDecision::Admitted);
}

#[test]
fn quiet_hours_of_a_recipient_replace_those_of_the_digest_type() {
    let preferences = Preferences { quiet: Some(Vec::new()), ..Preferences::default() };
    let awake = KeyFacts { preferences, ..facts() };
    let night = at("2026-03-02T23:00:00Z");
    let strict = settings("daily 08:00", &["22:00-07:00"]);
    assert_eq!(admit(&strict, &awake, &asked(DUE, false), night), AdmissionDecision::Admitted);
}

#[test]
fn an_urgent_window_is_never_later_than_an_ordinary_one() {
    let urgent = ClaimInput { urgent: true, ..asked(DUE, false) };
    let sent = |last: &str| KeyFacts { last_sent_at: Some(at(last)), last_slot_at: Some(at(last)), ..facts() };
    // Nothing is in the way, not even the digest of a moment ago.
    assert_eq!(
        admit(&settings("instant", &[]), &sent("2026-03-02T07:59:59Z"), &urgent, at(DUE)),
        AdmissionDecision::Admitted
    );
    // The throttle is over before the minute is.
    let quick = DigestSettings { throttle: Some(Duration::from_secs(10)), ..settings("instant", &[]) };
    let admission = admit(&quick, &sent("2026-03-02T07:59:55Z"), &urgent, at(DUE));
    assert!(matches!(admission, AdmissionDecision::Later { until, .. } if until == at("2026-03-02T08:00:05Z")));
    // Both are over at once, and the throttle is the reason.
    let minute = DigestSettings { throttle: Some(Duration::from_mins(1)), ..settings("instant", &[]) };
    let admission = admit(&minute, &sent("2026-03-02T07:59:55Z"), &urgent, at(DUE));
    assert!(
        matches!(&admission, AdmissionDecision::Later { why, .. } if why.starts_with("throttled")),
        "{admission:?}"
    );
}

#[test]
fn an_operators_pause_stops_flushed_and_urgent_windows_too() {
    let paused = |until: Option<&str>| PauseDetails {
        by: "ann".into(),
        why: "wrong prices".into(),
        since: at("2026-03-01T08:00:00Z"),
        until: until.map(at),
    };
    let stopped = KeyFacts { pause: Some(paused(None)), ..facts() };
    let daily = settings("daily 08:00", &[]);
    let urgent = ClaimInput { urgent: true, ..asked(DUE, false) };
    for input in [asked(DUE, false), asked(DUE, true), urgent] {
        let AdmissionDecision::Paused(pause) = admit(&daily, &stopped, &input, at(DUE)) else { panic!("was admitted") };
        assert_eq!(Some(pause.paused), stopped.pause);
    }
    let until = Some("2026-03-02T09:00:00Z");
    let until = KeyFacts { pause: Some(paused(until)), ..facts() };
    assert!(matches!(admit_at(&until, "2026-03-02T08:59:59Z"), AdmissionDecision::Paused(_)));
    assert_eq!(admit_at(&until, "2026-03-02T09:00:00Z"), AdmissionDecision::Admitted);

    // The ledger says at once that nothing will be sent.
    let opted_out = KeyFacts { consent: false, ..stopped.clone() };
    assert!(matches!(admit_at(&opted_out, DUE), AdmissionDecision::Refused(_)));
    let unknown = KeyFacts { recipient: None, ..stopped };
    assert!(matches!(admit_at(&unknown, DUE), AdmissionDecision::Paused(_)));
}
