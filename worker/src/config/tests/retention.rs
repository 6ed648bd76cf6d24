//! How long what is over is kept.

use super::*;

const DAY: u64 = 24 * 3600;

#[test]
fn what_is_over_is_kept_for_ninety_days_unless_somebody_says_otherwise() {
    let retention = read("", &[]).unwrap().retention;
    let days = |days| Some(std::time::Duration::from_secs(days * DAY));
    assert_eq!((retention.settings.events, retention.settings.messages), (days(90), days(90)));
    assert_eq!((retention.settings.archive, retention.at), (None, jiff::civil::time(3, 30, 0, 0)));
    let text = "[retention]\nevents = \"never\"\nmessages = \"30d\"\ndelivery_events = \"1d\"\nat = \"04:15\"\narchive = \"a/b\"";
    let config = read(text, &[]).unwrap();
    let retention = &config.retention;
    assert_eq!((retention.settings.events, retention.settings.messages), (None, days(30)));
    assert_eq!((retention.settings.delivery_events, retention.at), (days(1), jiff::civil::time(4, 15, 0, 0)));
    assert_eq!(retention.settings.archive.as_ref().unwrap().folder(), Path::new("a/b"));
    let warnings = config.warnings();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.to_string().contains("retention.archive = \"a/b\": there is no such folder"), "{warning}");
}

#[test]
fn an_age_or_a_time_that_is_none_is_an_error_that_says_what_would_be_right() {
    for (line, said) in [
        ("events = \"90\"", "tidings.toml:2: retention.events = \"90\": is no age; write whole days"),
        ("events = \"0d\"", "from \"1d\" to \"36500d\", for example \"90d\", or \"never\""),
        ("messages = \"+3d\"", "is no age"),
        ("messages = \"40000d\"", "is no age"),
        ("messages = \"12h\"", "is no age"),
        ("delivery_events = \"d\"", "retention.delivery_events = \"d\": is no age"),
        ("at = \"25:00\"", "is no time of day in UTC; write for example \"03:30\""),
        ("archive = \"\"", "is empty; name a folder, or leave the key out"),
        ("digests = \"90d\"", "no such key"),
    ] {
        let said_really = complaint(&format!("[retention]\n{line}"));
        assert!(said_really.contains(said), "{line}: {said_really}");
    }
}
