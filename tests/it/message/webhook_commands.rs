//! Commands about webhooks, with messages that a relay took: the test of a route, and a dead letter that is recorded after all.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_harness::{
    cli_env::{binary, command},
    env::{sqlite, sqlite_url},
    outbox::taken_message,
    port::Port,
    wait::eventually,
};
use tidings_model::{
    delivery_events::{UnusablePart, WebhookRequest},
    records::{MessageState, SuppressionReason},
};
use tidings_store::prelude::*;
use tokio::{net::TcpStream, process::Command};

/// Made for these tests.
const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";

/// Writes the configuration of a gateway and the relay `own`.
fn configure(folder: &std::path::Path, port: u16) -> Result<()> {
    let config = format!(
        "database_url = \"{}\"\nlink_keys_file = \"keys\"\n[gateway]\nlisten = \"127.0.0.1:{port}\"\n\
         public_url = \"http://localhost:{port}\"\n[relay.own]\nurl = \"smtp://127.0.0.1:1\"\n\
         webhook_secret_env = \"OWN_WEBHOOK\"\n[stream.bulk]\nrelays = [\"own\"]\n[stream.transactional]\nrelays = [\"own\"]\n",
        sqlite_url(folder)
    );
    fs::write(folder.join("keys"), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")?;
    Ok(fs::write(folder.join("tidings.toml"), config)?)
}

fn tidings(folder: &std::path::Path) -> Result<Command> {
    let mut command = command(&binary()?, folder, "127.0.0.1:1");
    command.env("OWN_WEBHOOK", SECRET);
    Ok(command)
}

/// Exit code, standard output and standard error.
async fn ask(folder: &std::path::Path, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = tidings(folder)?.args(arguments).output().await?;
    let code = output.status.code().context("ended by a signal")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_about_a_test_message_are_recorded_and_their_effects_named() -> Result<()> {
    let (folder, port) = (tempfile::tempdir()?, Port::take()?);
    let store = sqlite(folder.path()).await?;
    let message = taken_message(&*store, "test-webhooks").await?;
    taken_message(&*store, "invoice").await?;
    configure(folder.path(), port.number)?;
    let _gateway = tidings(folder.path())?.arg("gateway").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let answers = async || Ok(TcpStream::connect(("127.0.0.1", port.number)).await.ok());
    eventually("the gateway listens", Duration::from_secs(30), answers).await?;

    let about = |key| ["webhooks", "test", "own", "--tenant", "acme", "--message", key];
    let (code, _, error) = ask(folder.path(), &about("invoice")).await?;
    assert!(code == 2 && error.contains("\"invoice\" is no test message"), "{error}");
    let (code, said, error) = ask(folder.path(), &about("test-webhooks")).await?;
    assert_eq!(code, 0, "{said}{error}");
    for expected in [
        "recorded as delivered",
        "recorded as refused by policy",
        "dead letter own/",
        &format!("Changed: message {message} was sent and is failed. Its address is suppressed: "),
    ] {
        assert!(said.contains(expected), "{expected:?} is not in {said}");
    }
    assert!(!said.contains('@'), "{said}");
    assert_eq!(store.delivery_events(message).await?.len(), 10);
    assert!(
        store.suppression_reasons("acme", "test-webhooks@example.com").await?.contains(&SuppressionReason::HardBounce)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_a_new_version_reads_is_recorded_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let message = taken_message(&*store, "m").await?;
    configure(folder.path(), 1)?;
    // A former version did not know the event.
    let bounce = json!({"kind": "bounced", "bounce": "hard", "message": message, "status": "5.1.1",
                        "occurred_at": Timestamp::now()});
    let letter = UnusablePart {
        reason: "kind \"bounced\" is not one that Tidings knows".to_owned(),
        size: bounce.to_string().len() as u64,
        sha256: "0123456789abcdef".repeat(4),
        head: bounce.to_string(),
        whole: true,
        ids: [message].into(),
    };
    let request = WebhookRequest { relay: "own".to_owned(), unusable: vec![letter], ..WebhookRequest::default() };
    store.put_webhook_request(&request, 5, Timestamp::now()).await?;

    let id = "own/0123456789abcdef";
    let (_, shown, _) = ask(folder.path(), &["dead-letters", "show", id]).await?;
    assert!(shown.contains(&format!("emit      would record bounced: 5.1.1 of message {message}")), "{shown}");
    let emit = ["dead-letters", "emit", id, "--by", "carol", "--why", "ticket 812"];
    let (code, emitted, error) = ask(folder.path(), &emit).await?;
    let expected = format!("dead letter {id}: recorded 1 event; 0 recorded before, 0 of unknown messages\n");
    assert_eq!((code, emitted), (0, expected), "{error}");
    assert_eq!(store.message(message).await?.context("no message")?.state, MessageState::Failed);
    assert_eq!(store.suppression_reasons("acme", "m@example.com").await?, [SuppressionReason::HardBounce]);

    let (code, _, error) = ask(folder.path(), &emit).await?;
    assert!(code == 1 && error.contains("was emitted already, by carol at "), "{error}");
    let (_, audit, _) = ask(folder.path(), &["audit", "--tenant", "acme", "--json"]).await?;
    let entries: Vec<Value> = audit.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let emissions: Vec<_> = entries.iter().filter(|entry| entry["action"] == "dead_letter_emit").collect();
    assert_eq!(emissions.len(), 1, "{audit}");
    assert_eq!(
        (&emissions[0]["message"], &emissions[0]["why"]),
        (&json!(message), &json!(format!("{id}: ticket 812")))
    );
    Ok(())
}
