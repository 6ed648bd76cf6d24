//! Plans as `plan` answers them.

use std::time::Duration;

use tidings_workflows::{Key, Quiet};

use super::*;
use crate::store::Preferences;

const OPENED_AT: &str = "2026-10-24T18:00:00Z";

fn settings(cadence: &str) -> DigestSettings {
    DigestSettings {
        zone: Some("Europe/Berlin".into()),
        max_events: Some(7),
        ..DigestSettings::new("activity", cadence.parse().unwrap())
    }
}

fn facts() -> Facts {
    Facts {
        recipient: None,
        preferences: Preferences::default(),
        revision: 0,
        changed_at: None,
        consent: true,
        suppressed: None,
        last_sent_at: None,
    }
}

fn planned(settings: &DigestSettings, facts: &Facts) -> Plan {
    let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
    let input = PlanInput {
        key,
        opened_at: OPENED_AT.parse().unwrap(),
        category: Some("share".into()),
        open: None,
        event_ids: vec!["a".into(), "b".into()],
    };
    plan(settings, facts, &input, vec!["a".into()])
}

#[test]
fn a_category_s_delay_is_in_the_place_of_an_immediate_cadence_and_of_no_other() {
    let delay = [("share".to_owned(), Duration::from_secs(120)), ("comment".to_owned(), Duration::from_secs(60))];
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
fn the_first_event_in_a_long_time_goes_out_at_once_and_what_follows_digests() {
    let first_now = DigestSettings { first_now: Some(Duration::from_secs(3600)), ..settings("daily 08:00") };
    for (last_sent_at, at_once) in
        [(None, true), (Some("2026-10-24T17:00:00Z"), true), (Some("2026-10-24T17:00:01Z"), false)]
    {
        let last_sent_at = last_sent_at.map(|at| at.parse().unwrap());
        let plan = planned(&first_now, &Facts { last_sent_at, ..facts() });
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
    let quiet = Quiet::new(vec!["22:00-09:00".parse().unwrap()]).unwrap();
    let settings = DigestSettings { spread: Some(Duration::from_secs(1)), quiet, ..settings("daily 08:00") };
    assert_eq!(
        planned(&settings, &facts()).why,
        "daily 08:00 Europe/Berlin -> 2026-10-25T07:00:00Z; spread +0s; quiet until 09:00 -> 2026-10-25T08:00:00Z"
    );
}

#[test]
fn where_nothing_will_be_sent_the_window_is_due_at_once() {
    let chosen = Preferences { cadence: Some("never".into()), ..Preferences::default() };
    for (cadence, facts, why) in [
        ("never", facts(), "never: the digest type has a cadence that sends nothing"),
        (
            "daily 08:00",
            Facts { preferences: chosen, ..facts() },
            "never: the recipient chose a cadence that sends nothing",
        ),
        ("never", Facts { consent: false, ..facts() }, "at once: the recipient opted out"),
    ] {
        let expected =
            Plan { known: vec!["a".into()], due_at: OPENED_AT.parse().unwrap(), why: why.to_owned(), max_events: None };
        assert_eq!(planned(&settings(cadence), &facts), expected);
    }
}

#[test]
fn a_recipient_s_choice_outranks_the_digest_type_s() {
    let preferences = Preferences {
        cadence: Some("weekly mon 09:00".into()),
        zone: Some("Asia/Tokyo".into()),
        ..Preferences::default()
    };
    let facts = Facts { preferences, ..facts() };
    assert_eq!(planned(&settings("instant"), &facts).why, "weekly mon 09:00 Asia/Tokyo -> 2026-10-26T00:00:00Z");
}
