//! Webhooks through the real binary: a test of each route, and the dead letters that it leaves.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::Child,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{run, said, start_with};

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Made for this test.
const SECRETS: [(&str, &str); 3] = [
    ("OWN_WEBHOOK", "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ=="),
    ("M_WEBHOOK", "TEST_WEBHOOK_SIGNING_KEY"),
    (
        "SG_WEBHOOK",
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
    ),
];

/// Starts a gateway with three webhooks, and waits until it runs.
fn gateway(folder: &TempDir) -> Child {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let relay = |name: &str, provider: &str| {
        let variable = name.to_uppercase();
        format!(
            "[relay.{name}]\nurl = \"smtp://127.0.0.1\"\nprovider = \"{provider}\"\nwebhook_secret_env = \"{variable}_WEBHOOK\"\n"
        )
    };
    let text = format!(
        "link_keys_file = \"keys\"\n[gateway]\nlisten = \"127.0.0.1:{port}\"\npublic_url = \"http://localhost:{port}\"\n{}{}{}\
         [stream.bulk]\nrelays = [\"own\", \"m\", \"sg\"]\n[stream.transactional]\nrelays = [\"own\"]\n",
        relay("own", "other"),
        relay("m", "mailgun"),
        relay("sg", "sendgrid")
    );
    fs::write(folder.path().join("tidings.toml"), text).unwrap();
    fs::write(folder.path().join("keys"), KEY).unwrap();
    run(folder.path(), &["migrate"], "");
    let mut gateway = start_with(folder.path(), &["gateway"], &SECRETS);
    let mut log = BufReader::new(gateway.stderr.take().unwrap()).lines().map(Result::unwrap);
    log.find(|line| line.contains("gateway started")).expect("it says that it runs");
    gateway
}

/// Exit code, lines in JSON, standard error of `tidings webhooks test`.
fn test(folder: &Path, relay: &str, secrets: &[(&str, &str)]) -> (i32, Vec<Value>, String) {
    let child = start_with(folder, &["webhooks", "test", relay, "--json"], secrets);
    let output = child.wait_with_output().unwrap();
    let lines = said(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code().unwrap(), lines, said(&output.stderr))
}

#[test]
fn a_test_of_a_webhook_says_what_became_of_each_sample() {
    let folder = TempDir::new().unwrap();
    let mut gateway = gateway(&folder);
    for (relay, samples) in [("own", 14), ("m", 14), ("sg", 1)] {
        let (code, lines, error) = test(folder.path(), relay, &SECRETS);
        assert_eq!((code, lines.len()), (0, samples), "{relay} {lines:?} {error}");
        assert!(lines.iter().all(|line| line["ok"] == true), "{lines:?}");
    }
    let (_, lines, _) = test(folder.path(), "own", &SECRETS);
    let of = |name: &str| {
        let line = lines.iter().find(|line| line["sample"] == name).unwrap();
        (line["status"].as_u64().unwrap(), line["becomes"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("opened"), (200, "opened of an unknown message: counted, and nothing changed".to_owned()));
    assert!(of("unknown kind").1.starts_with("dead letter own/"));
    assert_eq!(of("wrong secret"), (401, "rejected, as expected".to_owned()));

    // Another secret than the gateway's.
    let others = [("OWN_WEBHOOK", "whsec_YW5vdGhlciBzZWNyZXQgb2YgdGVzdHM=")];
    let (code, lines, _) = test(folder.path(), "own", &others);
    assert_eq!(code, 1);
    assert!(lines[0]["status"] == 401 && lines[0]["becomes"].as_str().unwrap().contains("has another secret"));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    let (code, lines, _) = test(folder.path(), "own", &SECRETS);
    assert!(code == 1 && lines[0]["becomes"].as_str().unwrap().contains("cannot be reached"), "{lines:?}");
}

#[test]
fn dead_letters_of_webhooks_are_listed_shown_and_refused_without_sql() {
    let folder = TempDir::new().unwrap();
    let mut gateway = gateway(&folder);
    test(folder.path(), "own", &SECRETS);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    let list = |more: &[&str]| {
        let (code, out, error) = run(folder.path(), &[&["dead-letters", "list", "--json"], more].concat(), "");
        assert_eq!(code, 0, "{error}");
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let letters = list(&[]);
    assert_eq!(letters.len(), 2);
    assert!(letters.iter().all(|letter| letter["source"] == "webhook" && letter["relay"] == "own"), "{letters:?}");
    assert_eq!(list(&["--source", "webhook"]), letters);
    assert!(list(&["--source", "events"]).is_empty() && list(&["--tenant", "acme"]).is_empty());
    let paged = list(&["--limit", "1"]);
    let cursor = paged[1]["next"].as_str().unwrap();
    assert_eq!([&paged[0], &list(&["--limit", "1", "--after", cursor])[0]], [&letters[0], &letters[1]]);

    let unknown = letters.iter().find(|letter| letter["reason"].as_str().unwrap().starts_with("kind")).unwrap();
    let id = unknown["id"].as_str().unwrap();
    let (_, shown, _) = run(folder.path(), &["dead-letters", "show", id], "");
    assert!(
        shown.contains("\n  \"kind\": \"tidings_test\",") && shown.contains("emit      refuses it: kind"),
        "{shown}"
    );
    let emit = ["dead-letters", "emit", id, "--by", "carol", "--why", "ticket 812"];
    let (code, _, error) = run(folder.path(), &emit, "");
    assert_eq!(code, 1);
    assert!(
        error.contains("cannot be emitted: kind \"tidings_test\" is not one that Tidings knows; emit it after"),
        "{error}"
    );
    let (code, _, error) = run(folder.path(), &["dead-letters", "show", "own/0123456789abcdef"], "");
    assert!(code == 1 && error.contains("there is no dead letter own/0123456789abcdef"), "{error}");
}
