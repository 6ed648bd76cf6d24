//! The inbox and the listener of the API.

use std::time::Duration;

use tidings_model::inbox::InboxLimits;

use super::{problems_of, read};

#[test]
fn the_inbox_has_limits_and_keeps_for_three_days_what_it_forwarded() {
    let config = read("", &[]).unwrap();
    assert_eq!((config.inbox, config.retention.settings.inbox), (InboxLimits::default(), Duration::from_hours(72)));
    let config = read("[inbox]\nkeep = \"7d\"\nmax_age = \"2h\"\nmax_mebibytes = 1", &[]).unwrap();
    let (keep, age) = (Duration::from_hours(7 * 24), Duration::from_hours(2));
    assert_eq!((config.inbox, config.retention.settings.inbox), (InboxLimits { bytes: 1 << 20, age, keep }, keep));
    for (line, said) in [
        ("keep = \"never\"", "tidings.toml:2: inbox.keep = \"never\": \"never\" is not a duration"),
        ("max_age = \"0s\"", "is outside 1s to 31d"),
        ("max_mebibytes = 0", "write a whole number from 1"),
    ] {
        let found = problems_of(&format!("[inbox]\n{line}"));
        assert!(found.contains(said), "{line}: {found}");
    }
}

#[test]
fn the_api_is_off_unless_it_has_an_address() {
    assert_eq!(read("", &[]).unwrap().gateway.api_listen, None);
    let listening = read("[gateway]\napi_listen = \"127.0.0.1:8081\"", &[]).unwrap();
    assert_eq!(listening.gateway.api_listen, Some(([127, 0, 0, 1], 8081).into()));
    assert!(listening.gateway_problem().is_some(), "a gateway needs a public address");
    assert!(problems_of("[gateway]\napi_listen = \"8081\"").contains("is not an IP address with a port"));
}
