//! Subscriptions: each table `[[subscribe]]`, and the secrets in the environment.

use super::read;

const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";
const RIGHT: [&str; 4] = [
    "name = \"crm\"",
    "url = \"https://app.acme.example/notices\"",
    "events = [\"digest.sent\", \"recipient.unsubscribed\"]",
    "secret_env = \"A_NOTICES\"",
];

/// The problems of the table with this line in place of the one with the same key.
fn said(line: &str, secrets: &str) -> String {
    let key = line.split(" = ").next().unwrap_or_default();
    let lines = RIGHT.iter().map(|right| if right.starts_with(key) { line } else { right });
    let text = format!("[[subscribe]]\n{}\n", lines.collect::<Vec<_>>().join("\n"));
    read(&text, &[("A_NOTICES", secrets)]).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn each_wrong_key_of_a_subscription_is_named_with_its_remedy() {
    for (line, secrets, problem) in [
        (RIGHT[0], SECRET, ""),
        (RIGHT[0], &format!("{SECRET} {SECRET}"), ""),
        ("name = \"C R M\"", SECRET, "tidings.toml:2: subscribe.name = \"C R M\": is no name of at most 64"),
        (
            "url = \"http://app.acme.example/\"",
            SECRET,
            "tidings.toml:3: subscribe.url = \"http://app.acme.example/\": has http,",
        ),
        ("events = []", SECRET, "tidings.toml:1: subscribe.events: is missing; write for example"),
        (
            "events = [\"digest.send\"]",
            SECRET,
            "tidings.toml:4: subscribe.events = \"digest.send\": is not known; did you mean \"digest.sent\"?",
        ),
        (
            "secret_env = \"whsec_abc=\"",
            SECRET,
            "tidings.toml:5: subscribe.secret_env = \"***\": is not the name of a variable",
        ),
        (RIGHT[0], "hunter2", "environment: A_NOTICES = \"***\": is not a secret like whsec_"),
    ] {
        let said = said(line, secrets);
        assert!(said.starts_with(problem) && said.is_empty() == problem.is_empty(), "{line}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn two_subscriptions_have_two_names() {
    let table = format!("[[subscribe]]\n{}\n", RIGHT.join("\n"));
    let said = read(&format!("{table}{table}"), &[("A_NOTICES", SECRET)]).unwrap_err().to_string();
    assert!(
        said.starts_with("tidings.toml:6: subscribe.name = \"crm\": is the name of another subscription"),
        "{said}"
    );
}

#[test]
fn a_worker_does_not_start_without_the_secrets_of_a_subscription() {
    let text = format!("[[subscribe]]\n{}\n", RIGHT.join("\n"));
    let unset = read(&text, &[]).unwrap().subscription_problems();
    assert!(unset.len() == 1 && unset[0].to_string().starts_with("environment: A_NOTICES: is not set"), "{unset:?}");
    let config = read(&text, &[("A_NOTICES", SECRET)]).unwrap();
    assert!(config.subscription_problems().is_empty() && !format!("{config:?}").contains("c3MgdGVz"));
}
