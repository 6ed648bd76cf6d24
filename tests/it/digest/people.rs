//! Changes of a person by an operator, amid an open window: erasure, and another zone in the directory.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_harness::{
    cli_env::CliEnv,
    env::{count, event, key},
    wait::eventually,
};
use tidings_needs::needs;
use tidings_proto::v1;

const MINUTE: Duration = Duration::from_mins(1);

/// Waits until the key's status is like that.
async fn status(cli: &CliEnv, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually("the status is as wanted", MINUTE, async || {
        let (_, said) = cli.ask(&["status", "acme/activity/ann", "--json"]).await?;
        let status: Value = serde_json::from_str(&said).unwrap_or_default();
        Ok(wanted(&status).then_some(status))
    })
    .await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_amid_an_open_window_drops_it_and_leaves_no_text() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let key = key("activity", "ann");
    cli.import(&BTreeSet::from([key.clone()])).await?;
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    let marked = |id: &str| v1::Event { actor: "MARK".to_owned(), ..event(&key, id) };
    events.emit(marked("e1")).await?;
    cli.flush(&key).await?;
    let sent = "SELECT COUNT(*) FROM messages WHERE state = 'sent'";
    let is_sent = async || Ok((count(cli.folder.path(), sent).await? == 1).then_some(()));
    eventually("the first digest is sent", MINUTE, is_sent).await?;
    events.emit(marked("e2")).await?;
    status(&cli, |status| status["pending"] == 1 && status["due_at"].is_string()).await?;

    let erase = ["recipients", "erase", "acme/ann", "--why", "request 812", "--by", "carol", "--json"];
    let (code, said) = cli.ask(&erase).await?;
    assert_eq!((code, said.as_str()), (2, ""), "there is no terminal to ask on");
    let erased: Value = serde_json::from_str(&cli.run(&[&erase[..], &["--yes"]].concat()).await?)?;
    assert_eq!(
        (&erased["dropped"], &erased["erased"]["events"], &erased["erased"]["messages"]),
        (&1.into(), &2.into(), &1.into())
    );
    assert!(erased["left"].as_object().context("no counts")?.values().all(|count| *count == 0), "{erased}");
    assert!(erased["histories_until"].is_string(), "{erased}");

    let left = "SELECT (SELECT COUNT(*) FROM events WHERE actor <> '' OR payload <> '{}')
                     + (SELECT COUNT(*) FROM messages WHERE length(bytes) > 0 OR envelope_to LIKE '%@%')
                     + (SELECT COUNT(*) FROM recipients)";
    assert_eq!(count(cli.folder.path(), left).await?, 0);
    let audited = "SELECT COUNT(*) FROM audit WHERE user_id = 'ann' AND action = 'erase' AND actor = 'carol'";
    assert_eq!(count(cli.folder.path(), audited).await?, 1);
    assert_eq!(cli.relay.mails().len(), 1, "the window was dropped");
    let again: Value = serde_json::from_str(&cli.run(&[&erase[..], &["--yes"]].concat()).await?)?;
    assert!(again["erased"].as_object().context("no counts")?.values().all(|count| *count == 0), "{again}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_with_another_zone_retimes_the_open_window() -> Result<()> {
    // Due in six hours in Honolulu: another zone is not too late for that.
    let at = (Timestamp::now() + SignedDuration::from_hours(6)).in_tz("Pacific/Honolulu")?;
    let mut cli = CliEnv::start(&format!("daily {}", at.strftime("%H:%M"))).await?;
    cli.start_worker()?;
    let key = key("activity", "ann");
    let import = async |zone: &str| {
        let csv = format!("tenant,user,address,zone\nacme,ann,ann@example.test,{zone}\nacme,bo,bo@example.test,UTC\n");
        fs::write(cli.folder.path().join("zones.csv"), csv)?;
        cli.run(&["recipients", "import", "zones.csv"]).await
    };
    assert_eq!(import("Pacific/Honolulu").await?, "recipients: 2 accepted, 0 rejected\n", "no zone changed");
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    events.emit(event(&key, "e1")).await?;
    let before = status(&cli, |status| status["due_at"].is_string()).await?;
    assert!(before["why"].as_str().is_some_and(|why| why.contains("Pacific/Honolulu")), "{before}");

    let said = import("Asia/Tokyo").await?;
    assert_eq!(said, "recipients: 2 accepted, 0 rejected\nanother zone: 1 person, 1 key told\n");
    let after = status(&cli, |status| status["why"].as_str().is_some_and(|why| why.contains("Asia/Tokyo"))).await?;
    assert_eq!(after["pending"], 1);
    assert_ne!(after["due_at"], before["due_at"]);
    // No zone changed, and bo's key never ran.
    assert_eq!(import("Asia/Tokyo").await?, "recipients: 2 accepted, 0 rejected\n");
    let (_, bos) = cli.ask(&["status", "acme/activity/bo", "--json"]).await?;
    assert_eq!(bos.trim(), "null", "a signal starts no workflow");
    Ok(())
}
