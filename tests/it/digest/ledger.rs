//! An operator reads the ledger without SQL (rule 36).

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;
use tidings_harness::{
    cli_env::CliEnv,
    env::{event, key},
    relay::{Act, At, Fault},
    wait::eventually,
};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

/// The lines of an answer in JSON.
async fn lines(cli: &CliEnv, command: &str) -> Result<Vec<Value>> {
    let answer = cli.run(&command.split(' ').collect::<Vec<_>>()).await?;
    answer.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_an_overdue_digest_and_who_moved_and_held_it() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let key = key("activity", "ann");
    cli.import(&BTreeSet::from([key.clone()])).await?;
    cli.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    events.emit(event(&key, "e1")).await?;
    let planned = async || {
        let status = lines(&cli, "status acme/activity/ann --json").await?;
        Ok(status[0]["due_at"].is_string().then_some(()))
    };
    eventually("the window is planned", MINUTE, planned).await?;
    for command in ["hold", "release", "retime"] {
        let mut words = vec!["digest", command, "acme/activity/ann", "--by", "carol", "--why", "ticket 812"];
        if command == "retime" {
            words.extend(["--at", "1s"]);
        }
        cli.run(&words).await?;
    }

    let attempted = async || {
        let overdue = lines(&cli, "digest list --tenant acme --overdue --json").await?;
        Ok(overdue.into_iter().find(|digest| digest["attempts"] == 1))
    };
    let overdue = eventually("an attempt to send the overdue digest", MINUTE, attempted).await?;
    assert_eq!((&overdue["state"], &overdue["items"]), (&"rendered".into(), &1.into()), "{overdue}");
    let id = overdue["digest_id"].as_str().context("no id")?;

    let said = cli.run(&["digest", "show", id]).await?;
    for expected in [
        "rendered, overdue",
        "acme/activity/ann",
        "after 1h in UTC",
        "retimed by carol: ticket 812 -> ",
        "hold by carol: ticket 812",
        "release by carol: ticket 812",
        "comment page  e1",
        "deferred at rcpt: 451 4.3.0 later",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in {said}");
    }
    assert!(!said.contains('@'), "{said}");
    let told = cli.run(&["digest", "show", id, "--addresses"]).await?;
    assert!(told.contains("ann@example.test"), "{told}");
    let story = lines(&cli, &format!("digest show {id} --json")).await?.remove(0);
    assert_eq!(story["events"]["rows"][0]["event_id"], "e1");
    assert_eq!(story["attempts"][0]["class"], "deferred");
    assert_eq!(story["message"]["envelope_to"], Value::Null);

    let (code, _) = cli.ask(&["digest", "show", "00000000-0000-0000-0000-000000000000"]).await?;
    assert_eq!(code, 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_digests_ends_with_the_cursor_of_the_next() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    cli.start_worker()?;
    let keys: BTreeSet<_> = ["ann", "bo", "cy"].map(|user| key("activity", user)).into();
    cli.import(&keys).await?;
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    for key in &keys {
        events.emit(event(key, "e1")).await?;
    }
    let sent = async || Ok((lines(&cli, "digest list --outcome sent --json").await?.len() == 3).then_some(()));
    eventually("three digests are sent", MINUTE, sent).await?;
    let first = lines(&cli, "digest list --limit 2 --json").await?;
    let next = first[2]["next"].as_str().context("no cursor")?;
    let second = lines(&cli, &format!("digest list --limit 2 --json --after {next}")).await?;
    let ids = [&first[0], &first[1], &second[0]].map(|digest| digest["digest_id"].as_str());
    assert_eq!((second.len(), BTreeSet::from(ids).len()), (1, 3));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_trail_comes_in_pages_and_without_addresses_unless_asked() -> Result<()> {
    let cli = CliEnv::start("after 1h").await?;
    let why = "call of ann@example.test";
    cli.run(&["pause", "--filter", "tenant=acme", "--by", "carol", "--why", why]).await?;
    cli.run(&["resume", "--filter", "tenant=acme", "--by", "dan", "--why", "ticket 812"]).await?;
    cli.run(&["consent", "withdraw", "acme/activity/ann", "--by", "carol"]).await?;

    let first = lines(&cli, "audit --tenant acme --limit 2 --json").await?;
    let next = first[2]["next"].as_str().context("no cursor")?;
    let second = lines(&cli, &format!("audit --tenant acme --limit 2 --json --after {next}")).await?;
    let entries = [&first[0], &first[1], &second[0]].map(|entry| (entry["action"].as_str(), entry["actor"].as_str()));
    let told = [("withdraw consent", "carol"), ("resume", "dan"), ("pause", "carol")];
    assert_eq!(entries, told.map(|(action, actor)| (Some(action), Some(actor))));
    assert_eq!((second.len(), &second[0]["why"]), (1, &"call of <address>".into()));

    let by_carol = cli.run(&["audit", "--actor", "carol", "--action", "pause"]).await?;
    assert!(by_carol.ends_with("  pause by carol  tenant=acme: call of <address>\n"), "{by_carol}");
    let told = cli.run(&["audit", "--action", "pause", "--addresses"]).await?;
    assert!(told.contains(why), "{told}");
    let of_key = lines(&cli, "audit --tenant acme --digest-type activity --user ann --json").await?;
    assert_eq!((of_key.len(), &of_key[0]["user"]), (1, &"ann".into()));
    assert!(lines(&cli, "audit --until 1h --json").await?.is_empty());
    Ok(())
}
