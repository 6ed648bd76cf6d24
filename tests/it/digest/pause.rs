//! Pauses of a tenant or a digest type: nothing goes out, whatever comes, and everything after the resume.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;
use temporalio_client::{Client, WorkflowFetchHistoryOptions};
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use tidings_harness::{
    cli_env::CliEnv,
    env::{Env, event, key, order, settings},
    relay::{Act, At, Fault, events_by_message},
    time_skipping::TimeSkipping,
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key,
    pause::{PauseDetails, PauseScope},
    records::AuditEntry,
    settings::Settings,
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_services::choices;
use tidings_store::{Store, prelude::*};
use tidings_workflows::{Digest, DigestStage};

const MINUTE: Duration = Duration::from_mins(1);

/// Settings without a spread worth waiting for.
fn unspread() -> Settings {
    let mut settings = settings("after 1s", "after 1s");
    settings.digests.values_mut().for_each(|digest| digest.spread = Some(Duration::from_secs(1)));
    settings
}

fn alerts_of_acme() -> PauseScope {
    PauseScope { tenant: Some("acme".to_owned()), digest_type: Some("alerts".to_owned()) }
}

async fn pause(store: &dyn Store, until: Option<Timestamp>) -> Result<PauseDetails> {
    let paused = PauseDetails { by: "ann".to_owned(), why: "wrong prices".to_owned(), since: Timestamp::now(), until };
    Ok(store.pause(&alerts_of_acme(), false, &paused).await?.paused)
}

/// Ends the pause, and signals the key.
async fn resume(store: &dyn Store, temporal: &Client, key: &Key) -> Result<()> {
    let (at, actor, action, why) = (Timestamp::now(), "ann".to_owned(), "resume".to_owned(), "fixed".to_owned());
    store
        .resume(&alerts_of_acme(), &AuditEntry { at, actor: actor.into(), action, why })
        .await?
        .context("was not paused")?;
    Ok(choices::signal_workflow(temporal, key.workflow_id()).await?)
}

async fn history(temporal: &Client, key: &Key) -> Result<Vec<HistoryEvent>> {
    let workflow = temporal.get_workflow_handle::<Digest>(key.workflow_id());
    Ok(workflow.fetch_history(WorkflowFetchHistoryOptions::default()).into_events().await?)
}

/// Replays the key's history with the current workflow.
async fn replays(temporal: &Client, key: &Key) -> Result<()> {
    let workflow = temporal.get_workflow_handle::<Digest>(key.workflow_id());
    let history = workflow.fetch_history(WorkflowFetchHistoryOptions::default());
    let options = WorkflowReplayerOptions::new().register_workflow::<Digest>()?.build();
    let replaying = WorkflowReplayer::new(options)?;
    tokio::time::timeout(MINUTE, replaying.replay_workflow(history)).await.context("the replay hangs")??;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_key_collects_past_flush_urgency_and_a_restart() -> Result<()> {
    let mut env = Env::start(unspread()).await?;
    let paused = pause(&*env.store, None).await?;
    let (alerts, activity) = (key("alerts", "ann"), key("activity", "ann"));
    for key in [&alerts, &activity] {
        env.events.emit(event(key, "e1")).await?;
    }
    env.completed(&activity).await?;
    env.reaches(&alerts, DigestStage::Paused).await?;
    assert_eq!(env.status(&alerts).await?.pause, Some(paused));

    assert_eq!(env.update(&alerts, Digest::flush, order()).await?.events, 1);
    let urgent = tidings_proto::v1::Event { urgent: true, ..event(&alerts, "e2") };
    env.events.emit(urgent).await?;
    env.status_when(&alerts, "the urgent event waits", |status| {
        status.pending == 2 && status.state == DigestStage::Paused
    })
    .await?;
    env.stop_worker()?;
    env.start_worker()?;
    env.reaches(&alerts, DigestStage::Paused).await?;
    assert_eq!(env.relay.mails().len(), 1, "the other digest type");

    resume(&*env.store, &env.temporal, &alerts).await?;
    assert_eq!(env.completed(&alerts).await?.last.context("no digest")?.closed.outcome, DigestOutcome::Sent);
    let mut events: Vec<_> = events_by_message(&env.relay.mails())?.into_values().collect();
    events.sort_unstable();
    assert_eq!(events, [1, 2]);
    replays(&env.temporal, &alerts).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_shows_the_pause_of_an_open_window() -> Result<()> {
    let mut settings = unspread();
    settings.digests.insert("alerts".to_owned(), self::settings("after 1h", "after 1h").digests["alerts"].clone());
    let env = Env::start(settings).await?;
    let key = key("alerts", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    let due_at = env.status(&key).await?.due_at;
    pause(&*env.store, None).await?;
    choices::signal_workflow(&env.temporal, key.workflow_id()).await?;
    env.reaches(&key, DigestStage::Paused).await?;
    assert_eq!(env.status(&key).await?.due_at, due_at);
    resume(&*env.store, &env.temporal, &key).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    assert_eq!(env.status(&key).await?.due_at, due_at);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_with_an_end_ends_without_a_signal() -> Result<()> {
    let env = Env::start(unspread()).await?;
    let key = key("alerts", "ann");
    let until = Timestamp::now() + Duration::from_secs(4);
    pause(&*env.store, Some(until)).await?;
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Paused).await?;
    let digest_id = env.completed(&key).await?.last.context("no digest")?.digest_id;
    let attempts = env.store.attempts(digest_id).await?;
    assert_eq!(attempts.len(), 1);
    assert!(attempts[0].begun_at >= until, "{attempts:?}");
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_window_asks_at_most_twice_an_hour() -> Result<()> {
    let env = TimeSkipping::start(unspread()).await?;
    let key = key("alerts", "ann");
    pause(&*env.store, None).await?;
    env.emit(&key, "e1").await?;
    env.server.sleep(Duration::from_mins(2)).await?;
    let before = history(&env.server.client, &key).await?.len();
    env.server.sleep(Duration::from_hours(24)).await?;
    let added = history(&env.server.client, &key).await?.len() - before;
    // A look adds a fired timer, a workflow task of three events, a marker and the next timer.
    assert!((24 * 6..=48 * 6).contains(&added), "{added} history events in a day");
    assert!(env.relay.mails().is_empty());

    resume(&*env.store, &env.server.client, &key).await?;
    env.completed(&key).await?;
    assert_eq!(env.relay.mails().len(), 1);
    replays(&env.server.client, &key).await
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_between_two_attempts_waits_for_the_resume() -> Result<()> {
    let env = TimeSkipping::start(unspread()).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    let key = key("alerts", "ann");
    env.emit(&key, "e1").await?;
    env.server.sleep(Duration::from_secs(10)).await?;
    let refused = "SELECT COUNT(*) FROM attempts WHERE class = 'deferred'";
    eventually("the first attempt failed", MINUTE, async || Ok((env.count(refused).await? == 1).then_some(()))).await?;
    pause(&*env.store, None).await?;
    env.server.sleep(Duration::from_hours(12)).await?;
    assert_eq!(env.count("SELECT COUNT(*) FROM attempts").await?, 1, "the store refuses no attempt, and none began");
    let added = history(&env.server.client, &key).await?.len();
    assert!(added < 24 * 10 + 40, "{added} history events in half a day");

    resume(&*env.store, &env.server.client, &key).await?;
    assert_eq!(env.completed(&key).await?.last.context("no digest")?.closed.outcome, DigestOutcome::Sent);
    assert_eq!(env.count("SELECT COUNT(*) FROM attempts").await?, 2);
    replays(&env.server.client, &key).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_pauses_and_resumes_a_tenant_by_the_command_line() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    let config = cli.folder.path().join("tidings.toml");
    fs::write(&config, fs::read_to_string(&config)? + "spread = \"1s\"\n")?;
    let key = key("activity", "ann");
    cli.import(&[key.clone()].into()).await?;
    cli.start_worker()?;
    let paused =
        cli.run(&["pause", "--filter", "tenant=acme", "--by", "ann", "--why", "wrong prices", "--json"]).await?;
    let paused: Value = serde_json::from_str(&paused)?;
    assert_eq!((&paused["pause"]["tenant"], &paused["failed"]), (&"acme".into(), &0.into()), "{paused}");

    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    events.emit(event(&key, "e1")).await?;
    let status = eventually("the key is paused", MINUTE, async || {
        let status: Value = serde_json::from_str(&cli.run(&["status", "acme/activity/ann", "--json"]).await?)?;
        Ok((status["state"] == "paused").then_some(status))
    })
    .await?;
    assert_eq!((&status["pause"]["by"], &status["pause"]["why"]), (&"ann".into(), &"wrong prices".into()));
    let words = cli.run(&["status", "acme/activity/ann"]).await?;
    assert!(words.contains("until a resume, by ann: wrong prices"), "{words}");

    // Visibility is a moment behind, and the command is meant to be run again.
    eventually("the resume reaches the key", MINUTE, async || {
        let resume = ["resume", "--filter", "tenant=acme", "--by", "carol", "--why", "prices fixed", "--rate", "100"];
        Ok(cli.run(&resume).await?.contains("1 running workflow signalled, 0 failed").then_some(()))
    })
    .await?;
    wait_for_emails(&cli.relay, 1, MINUTE).await?;
    assert_eq!(cli.run(&["pause", "list"]).await?, "");
    assert!(cli.run(&["pause", "list", "--all"]).await?.contains("ended by carol"));
    Ok(())
}
