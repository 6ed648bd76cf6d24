//! Retention periods.

use super::*;

const DAY: u64 = 24 * 3600;

#[test]
fn finished_data_is_kept_for_ninety_days_by_default() {
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
fn a_wrong_age_or_time_names_the_remedy() {
    for (line, said) in [
        ("events = \"90\"", "tidings.toml:2: retention.events = \"90\": is not an age; write whole days"),
        ("events = \"0d\"", "from \"1d\" to \"36500d\", for example \"90d\", or \"never\""),
        ("messages = \"+3d\"", "is not an age"),
        ("messages = \"40000d\"", "is not an age"),
        ("messages = \"12h\"", "is not an age"),
        ("delivery_events = \"d\"", "retention.delivery_events = \"d\": is not an age"),
        ("at = \"25:00\"", "is not a time of day in UTC; write for example \"03:30\""),
        ("archive = \"\"", "is empty; name a folder, or leave the key out"),
        ("digests = \"90d\"", "no such key"),
    ] {
        let found = problems_of(&format!("[retention]\n{line}"));
        assert!(found.contains(said), "{line}: {found}");
    }
}

#[test]
fn a_retention_that_is_shorter_than_a_window_is_a_warning() {
    for (cadence, events, days) in [
        ("monthly 1 09:00", "7d", Some(31)),
        ("monthly 1 09:00", "31d", None),
        ("monthly 1 09:00", "never", None),
        ("weekly mon 08:00", "1d", Some(7)),
        ("daily 08:00", "1d", None),
        ("sliding 1h max 48h", "1d", Some(2)),
        ("cron 0 9 1 1 *", "90d", Some(366)),
        ("after 2s", "1d", None),
        ("never", "1d", None),
    ] {
        let text = format!("[digest.a]\ncadence = \"{cadence}\"\n[retention]\nevents = \"{events}\"");
        let warnings = read(&text, &[]).unwrap().warnings().iter().map(ToString::to_string).collect::<String>();
        let said = format!("retention.events = \"{events}\": is shorter than a window of [digest.a]");
        match days {
            Some(days) => {
                let remedy = format!("write \"{days}d\" or more");
                assert!(warnings.contains(&said) && warnings.contains(&remedy), "{cadence}: {warnings}");
            }
            None => assert!(!warnings.contains("retention.events"), "{cadence}: {warnings}"),
        }
    }
    let of_tenant = "[digest.a]\ncadence = \"after 2s\"\n[tenant.acme.digest.a]\ncadence = \"weekly mon 08:00\"\n\
                     [retention]\nevents = \"1d\"";
    let warnings = read(of_tenant, &[]).unwrap().warnings().iter().map(ToString::to_string).collect::<String>();
    assert!(warnings.contains("[tenant.acme.digest.a]"), "{warnings}");
}
