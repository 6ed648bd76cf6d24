//! The service that knows which events were seen: its address, and the secret in the environment.

use super::read;

const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";

/// A digest type with these lines, and what is wrong with it.
fn said(lines: &str, secret: Option<&str>) -> String {
    let environment: Vec<_> = secret.into_iter().map(|secret| ("A_SEEN", secret)).collect();
    let text = format!("[digest.a]\ncadence = \"instant\"\n{lines}");
    read(&text, &environment).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn a_service_needs_an_address_and_the_name_of_a_secret() {
    let both = |url: &str, variable: &str| format!("seen_url = \"{url}\"\nseen_secret_env = \"{variable}\"");
    let url = "https://app.acme.example/seen";
    for (lines, secret, problem) in [
        (both(url, "A_SEEN"), Some(SECRET), ""),
        (both(url, "A_SEEN"), None, ""),
        (
            both("http://app.acme.example/seen", "A_SEEN"),
            None,
            "tidings.toml:3: digest.a.seen_url = \"http://app.acme.example/seen\": has http, which only this machine may have; write for example",
        ),
        (
            both(url, SECRET),
            None,
            "tidings.toml:4: digest.a.seen_secret_env = \"***\": is not the name of a variable; write for example \"TIDINGS_SEEN_SECRET\"",
        ),
        (both(url, "A_SEEN"), Some("hunter2"), "environment: A_SEEN = \"***\": is not a secret like whsec_"),
        (
            format!("seen_url = \"{url}\""),
            None,
            "tidings.toml:3: digest.a.seen_url: needs seen_secret_env = \"TIDINGS_SEEN_SECRET\", too",
        ),
        (
            "seen_secret_env = \"A_SEEN\"".to_owned(),
            None,
            "tidings.toml:3: digest.a.seen_secret_env: needs seen_url = \"https://app.example.com/tidings/seen\", too",
        ),
    ] {
        let said = said(&lines, secret);
        assert!(said.starts_with(problem) && said.is_empty() == problem.is_empty(), "{lines}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_worker_does_not_start_without_the_secret() {
    let text = "[digest.a]\ncadence = \"instant\"\nseen_url = \"http://localhost/\"\nseen_secret_env = \"A_SEEN\"\n\
                [tenant.acme.digest.a]\ncadence = \"hourly\"\n";
    let problems = |environment| read(text, environment).unwrap().seen_problems();
    let unset: Vec<_> = problems(&[]).iter().map(ToString::to_string).collect();
    assert!(unset.len() == 1 && unset[0].starts_with("environment: A_SEEN: is not set; set it to what"), "{unset:?}");
    assert!(problems(&[("A_SEEN", SECRET)]).is_empty());
    let config = read(text, &[("A_SEEN", SECRET)]).unwrap();
    assert!(config.tenants["acme"].digests["a"].seen.is_some() && !format!("{config:?}").contains("c3MgdGVz"));
}
