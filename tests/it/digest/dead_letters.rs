//! Dead letters: an operator reads them, and emits them once their fault is fixed (rule 36).

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tidings_harness::{
    cli_env::CliEnv,
    env::{event, key, ledger},
    relay::events_by_message,
    signals::{json_events, malformed, signal, signal_named},
    wait::eventually,
};
use tidings_model::Key;
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

/// The lines of an answer in JSON.
async fn lines(cli: &CliEnv, command: &str) -> Result<Vec<Value>> {
    let answer = cli.run(&command.split(' ').collect::<Vec<_>>()).await?;
    answer.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Sends an event to the workflow of another key, and returns the id of the dead letter.
async fn misaddressed(cli: &CliEnv, to: &Key, owner: &Key) -> Result<String> {
    let mut event = json!(event(owner, "e1"));
    event["payload"] = json!({"title": "Plan", "by": "carol@example.test"});
    signal(&cli.server.client().await?, to, json_events([event.to_string().as_str()])).await?;
    let buried = async || {
        let letters = lines(cli, "dead-letters list --tenant acme --digest-type activity --user ann --json").await?;
        Ok(letters.into_iter().find(|letter| letter["reason"].as_str().is_some_and(|why| why.starts_with("user:"))))
    };
    let letter = eventually("the event is a dead letter", MINUTE, buried).await?;
    Ok(letter["id"].as_str().context("no id")?.to_owned())
}

/// The answer of `dead-letters emit`, or what its error says.
async fn emit(cli: &CliEnv, id: &str) -> Result<String> {
    cli.run(&["dead-letters", "emit", id, "--by", "carol", "--why", "ticket 812"]).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_event_sent_to_the_wrong_key_is_emitted_once_and_digested() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let [ann, bo] = ["ann", "bo"].map(|user| key("activity", user));
    cli.import(&BTreeSet::from([ann.clone(), bo.clone()])).await?;
    signal(&cli.server.client().await?, &ann, malformed()).await?;
    let id = misaddressed(&cli, &ann, &bo).await?;

    assert!(lines(&cli, "dead-letters list --tenant acme --user bo --json").await?.is_empty());
    let listed = cli.run(&["dead-letters", "list"]).await?;
    let shown = cli.run(&["dead-letters", "show", &id]).await?;
    assert!(shown.contains("would send 1 event and 0 retracts to acme/activity/bo"), "{shown}");
    assert!(!format!("{listed}{shown}").contains('@'), "{listed}{shown}");
    let payload: Value = serde_json::from_str(&cli.run(&["dead-letters", "show", &id, "--payload"]).await?)?;
    assert_eq!((&payload["event_id"], &payload["payload"]["by"]), (&json!("e1"), &json!("carol@example.test")));

    let emitted = emit(&cli, &id).await?;
    assert_eq!(emitted, format!("dead letter {id}: emitted 1 event and 0 retracts to acme/activity/bo\n"));
    cli.flush(&bo).await?;
    cli.settled(&BTreeSet::from([bo.clone()]), MINUTE).await?;
    let digests = lines(&cli, "digest list --tenant acme --digest-type activity --user bo --json").await?;
    assert_eq!((digests.len(), &digests[0]["items"]), (1, &json!(1)), "{digests:?}");
    let story = cli.run(&["digest", "show", digests[0]["digest_id"].as_str().context("no id")?]).await?;
    for expected in [": sent", "comment page  e1", &format!("dead_letter_emit by carol: {id}: ticket 812")] {
        assert!(story.contains(expected), "{expected:?} is not in {story}");
    }

    let again = emit(&cli, &id).await.unwrap_err().to_string();
    assert!(again.contains("exit status: 1") && again.contains("was emitted already, by carol at "), "{again}");
    let shown = lines(&cli, &format!("dead-letters show {id} --json")).await?.remove(0);
    assert_eq!((&shown["emitted"]["by"], &shown["keys"]), (&json!("carol"), &json!(["acme/activity/bo"])), "{shown}");
    assert_eq!(cli.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_cannot_be_emitted_is_refused_with_the_reason() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    signal(&cli.server.client().await?, &key("activity", "ann"), malformed()).await?;
    let buried = async || Ok(lines(&cli, "dead-letters list --json").await?.pop());
    let letter = eventually("a dead letter", MINUTE, buried).await?;
    let id = letter["id"].as_str().context("no id")?;
    let refused = emit(&cli, id).await.unwrap_err().to_string();
    assert!(refused.contains("exit status: 1") && refused.contains("cannot be emitted: is not JSON"), "{refused}");
    let shown = lines(&cli, &format!("dead-letters show {id} --json")).await?.remove(0);
    assert!(shown["refused"].as_str().is_some_and(|why| why.starts_with("is not JSON")), "{shown}");
    for (id, code) in [("no-such-run.1", 1), ("no-such-run", 2)] {
        assert_eq!(cli.ask(&["dead-letters", "show", id]).await?.0, code, "{id}");
        assert_eq!(cli.ask(&["dead-letters", "emit", id, "--why", "x", "--by", "carol"]).await?.0, code, "{id}");
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_emission_killed_before_the_mark_is_repeated_without_a_second_email() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let [ann, bo] = ["ann", "bo"].map(|user| key("activity", user));
    cli.import(&BTreeSet::from([ann.clone(), bo.clone()])).await?;
    let id = misaddressed(&cli, &ann, &bo).await?;

    // Another writer holds the database, so that the command waits between the signal and the mark.
    let mut writer = ledger(cli.folder.path()).await?;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut writer).await?;
    let mut command = cli.tidings();
    command.args(["dead-letters", "emit", &id, "--by", "carol", "--why", "ticket 812"]);
    let mut killed = command.spawn()?;
    let signalled = async || Ok((!cli.history_lengths(&bo).await?.is_empty()).then_some(()));
    eventually("Temporal has the event", MINUTE, signalled).await?;
    killed.kill().await?;
    sqlx::query("ROLLBACK").execute(&mut writer).await?;
    let shown = lines(&cli, &format!("dead-letters show {id} --json")).await?.remove(0);
    assert_eq!(shown["emitted"], Value::Null, "the letter is not marked");

    cli.flush(&bo).await?;
    cli.settled(&BTreeSet::from([bo.clone()]), MINUTE).await?;
    emit(&cli, &id).await?;
    // A known event opens no window, which would last for an hour.
    cli.settled(&BTreeSet::from([bo.clone()]), MINUTE).await?;
    assert_eq!(events_by_message(&cli.relay.mails())?.into_values().collect::<Vec<_>>(), [1]);
    let shown = lines(&cli, &format!("dead-letters show {id} --json")).await?.remove(0);
    assert_eq!(shown["emitted"]["by"], "carol");
    Ok(())
}

/// A run that is about to end takes no signal of its own worker.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn of_misspelt_signals_at_once_each_is_a_dead_letter() -> Result<()> {
    const NAMES: [&str; 4] = ["event", "Events", "add_events", "emit"];
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let client = cli.server.client().await?;
    let keys: Vec<Key> = (0..8).map(|n| key("activity", &format!("user-{n}"))).collect();
    let sent = keys.iter().flat_map(|key| {
        NAMES.map(|name| {
            let event = json!(event(key, name)).to_string();
            let client = &client;
            async move { signal_named(client, key, name, json_events([event.as_str()])).await }
        })
    });
    try_join_all(sent).await?;
    let expected = keys.len() * NAMES.len();
    let buried = async || {
        let letters = lines(&cli, "dead-letters list --limit 100 --json").await?;
        Ok((letters.len() == expected).then_some(letters))
    };
    let letters = eventually("each signal is a dead letter", MINUTE, buried).await?;
    for name in NAMES {
        let named = |letter: &&Value| letter["reason"].as_str().is_some_and(|why| why.contains(&format!("{name:?}")));
        assert_eq!(letters.iter().filter(named).count(), keys.len(), "{name}: {letters:?}");
    }
    Ok(())
}
