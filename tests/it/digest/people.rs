//! Changes of a person by an operator, amid an open window: erasure, another zone in the directory, another id, and the end of the tenant.

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use temporalio_client::{UntypedWorkflow, WorkflowTerminateOptions};
use tidings_harness::{
    cli_env::CliEnv,
    env::{count, event, key},
    relay::{Act, At, Fault},
    wait::eventually,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_proto::v1;

const MINUTE: Duration = Duration::from_mins(1);

/// Waits until the key's status is like that.
async fn status(cli: &CliEnv, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    status_of(cli, "acme/activity/ann", wanted).await
}

async fn status_of(cli: &CliEnv, key: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually("the status is as wanted", MINUTE, async || {
        let (_, said) = cli.ask(&["status", key, "--json"]).await?;
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

/// A producer misspelt the type, so that no file and no table has it.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_takes_what_waits_under_a_type_that_no_file_has() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let misspelt = key("activty", "ann");
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    events.emit(v1::Event { actor: "MARK".to_owned(), ..event(&misspelt, "e1") }).await?;
    let exported = eventually("visibility knows the key", MINUTE, async || {
        let (_, said) = cli.ask(&["recipients", "export", "acme/ann"]).await?;
        let export: Value = serde_json::from_str(&said).unwrap_or_default();
        Ok(export["windows"].get(0).is_some_and(|window| window["more"] == 1).then_some(export))
    });
    assert_eq!(exported.await?["windows"][0]["digest_type"], "activty");

    let erase = ["recipients", "erase", "acme/ann", "--why", "request 812", "--by", "carol", "--json", "--yes"];
    let erased: Value = serde_json::from_str(&cli.run(&erase).await?)?;
    assert_eq!((&erased["dropped"], &erased["pending"]), (&1.into(), &0.into()), "{erased}");
    let (_, said) = cli.ask(&["status", "acme/activty/ann", "--json"]).await?;
    let status: Value = serde_json::from_str(&said)?;
    assert!(status.is_null() || status["pending"] == 0, "{status}");
    let texts = "SELECT COUNT(*) FROM events WHERE actor <> '' OR payload <> '{}'";
    assert_eq!(count(cli.folder.path(), texts).await?, 0);
    Ok(())
}

/// One person for each kind of run, of whom there is nothing else: neither a row of the directory nor one of the ledger but what the run wrote.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_finds_who_is_only_in_a_run_of_whatever_kind() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let temporal = cli.server.client().await?;
    let events = tidings_client::Client::new(temporal.clone(), tidings_client::Config::default());
    let by = ["--why", "a test", "--by", "carol"];
    for user in ["collecting", "held", "ended", "paused"] {
        let of = format!("acme/activity/{user}");
        if user == "paused" {
            cli.run(&[&["pause", "--filter", "tenant=acme"], &by[..]].concat()).await?;
        }
        events.emit(v1::Event { actor: "MARK".to_owned(), ..event(&key("activity", user), "e1") }).await?;
        status_of(&cli, &of, |status| status["pending"] == 1).await?;
        match user {
            "held" => drop(cli.run(&[&["digest", "hold", &of], &by[..]].concat()).await?),
            "ended" => {
                let run = temporal.get_workflow_handle::<UntypedWorkflow>(key("activity", user).workflow_id());
                run.terminate(WorkflowTerminateOptions::default()).await?;
            }
            _ => {}
        }
    }
    cli.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    cli.import(&BTreeSet::from([key("activity", "single")])).await?;
    fs::write(cli.folder.path().join("text.txt"), "MARK")?;
    let send = ["send", "--tenant", "acme", "--to", "single", "--key", "a", "--subject", "MARK", "--text", "text.txt"];
    cli.run(&send).await?;
    let waits = "SELECT COUNT(*) FROM attempts";
    eventually("the message waits", MINUTE, async || Ok((count(cli.folder.path(), waits).await? > 0).then_some(())))
        .await?;
    assert_eq!(count(cli.folder.path(), "DELETE FROM recipients RETURNING 1").await?, 1);

    for user in ["collecting", "held", "ended", "paused", "single"] {
        let of = format!("acme/{user}");
        let (_, said) = cli.ask(&["recipients", "export", &of]).await?;
        let export: Value = serde_json::from_str(&said)?;
        let has = |part: &str| export[part].as_array().is_some_and(|rows| !rows.is_empty());
        let part = match user {
            "single" => "messages",
            "ended" => "ended_runs",
            _ => "windows",
        };
        assert!(has(part), "{user}: {export}");
        let erase = [&["recipients", "erase", &of, "--json", "--yes"], &by[..]].concat();
        let erased: Value = serde_json::from_str(&cli.run(&erase).await?).with_context(|| user.to_owned())?;
        let (dropped, messages) = if user == "single" { (0, 1) } else { (u64::from(user != "ended"), 0) };
        let found = (&erased["dropped"], &erased["erased"]["messages"], &erased["pending"]);
        assert_eq!(found, (&dropped.into(), &messages.into(), &0.into()), "{user}: {erased}");
        let recover = ["recover", &format!("acme/activity/{user}"), "--dry-run", "--why", "a test", "--json"];
        let (_, said) = cli.ask(&recover).await?;
        assert!(!said.contains("\"events\":1"), "{user}: {said}");
    }
    cli.relay.heal();
    cli.run(&["resume", "--filter", "tenant=acme", "--why", "a test"]).await?;
    let texts = "SELECT (SELECT COUNT(*) FROM events WHERE actor <> '' OR payload <> '{}')
                      + (SELECT COUNT(*) FROM messages WHERE length(bytes) > 0 OR subject <> '')
                      + (SELECT COUNT(*) FROM digests WHERE closed_at IS NULL)";
    let nothing = async || Ok((count(cli.folder.path(), texts).await? == 0).then_some(()));
    eventually("nothing is left", MINUTE, nothing).await?;
    assert_eq!(cli.relay.mails().len(), 0);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_person_keeps_the_open_window_and_an_ended_tenant_keeps_nobody() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let key = key("activity", "ann");
    cli.import(&BTreeSet::from([key.clone()])).await?;
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    events.emit(event(&key, "e1")).await?;
    let before = status(&cli, |status| status["pending"] == 1 && status["due_at"].is_string()).await?;
    let by = ["--why", "wrong prices", "--by", "carol"];
    cli.run(&[&["digest", "hold", "acme/activity/ann"], &by[..]].concat()).await?;

    let rename = ["recipients", "rename", "acme/ann", "acme/anna", "--why", "new login", "--by", "carol", "--json"];
    let moved: Value = serde_json::from_str(&cli.run(&rename).await?)?;
    assert_eq!((&moved["moved"]["recipients"], &moved["moved"]["returned"]), (&1.into(), &1.into()), "{moved}");
    assert_eq!(moved["left"], serde_json::json!([]), "{moved}");
    let after = status_of(&cli, "acme/activity/anna", |status| status["pending"] == 1).await?;
    assert_eq!(after["due_at"], before["due_at"], "{after}");
    assert_eq!(after["hold"]["why"], "wrong prices", "{after}");
    cli.run(&[&["digest", "release", "acme/activity/anna"], &by[..]].concat()).await?;
    let again: Value = serde_json::from_str(&cli.run(&rename).await?)?;
    assert_eq!(again["moved"]["events"], 0, "{again}");
    cli.flush(&Key { user: "anna".to_owned(), ..key }).await?;
    let sent = "SELECT COUNT(*) FROM messages WHERE state = 'sent' AND user_id = 'anna'";
    let is_sent = async || Ok((count(cli.folder.path(), sent).await? == 1).then_some(()));
    eventually("the digest is sent", MINUTE, is_sent).await?;

    let end = ["tenants", "end", "acme", "--why", "contract ended", "--by", "carol", "--yes", "--json"];
    let ended: Value = serde_json::from_str(&cli.run(&end).await?)?;
    assert_eq!((&ended["erased"]["messages"], &ended["left"]), (&1.into(), &0.into()), "{ended}");
    assert_eq!((&ended["pending"], &ended["unreachable_archives"]), (&0.into(), &serde_json::json!([])), "{ended}");
    let left = "SELECT (SELECT COUNT(*) FROM recipients) + (SELECT COUNT(*) FROM messages WHERE length(bytes) > 0)
                     + (SELECT COUNT(*) FROM pauses WHERE ended_at IS NULL AND tenant = 'acme') - 1";
    assert_eq!(count(cli.folder.path(), left).await?, 0);
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
    assert_eq!(said, "recipients: 2 accepted, 0 rejected\nzone changed: 1 person, 1 key signalled\n");
    let after = status(&cli, |status| status["why"].as_str().is_some_and(|why| why.contains("Asia/Tokyo"))).await?;
    assert_eq!(after["pending"], 1);
    assert_ne!(after["due_at"], before["due_at"]);
    // No zone changed, and bo's key never ran.
    assert_eq!(import("Asia/Tokyo").await?, "recipients: 2 accepted, 0 rejected\n");
    let (_, bos) = cli.ask(&["status", "acme/activity/bo", "--json"]).await?;
    assert_eq!(bos.trim(), "null", "a signal starts no workflow");
    Ok(())
}
