//! Commands of an operator to a key: flush, hold, release, drop and cancel.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use temporalio_client::{WorkflowCancelOptions, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::enums::v1::EventType;
use tidings_harness::{
    cli_env::CliEnv,
    env::{Env, count, event, key, order, settings},
    relay::{Act, At, Fault, events_by_message},
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key,
    command::{CommandContext, HoldCommand, ReleaseCommand, ReopenCommand, ReopenResult},
    rules::spread::spread_share,
    settings::UnknownRecipients,
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tidings_workflows::{Digest, DigestStage};

const MINUTE: Duration = Duration::from_mins(1);

async fn cancelled(env: &Env, key: &Key) -> Result<()> {
    env.workflow(key).cancel(WorkflowCancelOptions::default()).await?;
    let over = async || Ok((env.run_status(key).await? == WorkflowExecutionStatus::Canceled).then_some(()));
    eventually("the run is cancelled", MINUTE, over).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_collecting_keeps_the_events_and_sends_nothing() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1h")).await?;
    let key = key("activity", "ann");
    for event_id in ["e1", "e2"] {
        env.events.emit(event(&key, event_id)).await?;
    }
    env.reaches(&key, DigestStage::Collecting).await?;
    cancelled(&env, &key).await?;

    let digests = env.store.digests(&key, 10).await?;
    assert_eq!(digests.iter().map(|digest| digest.items).sum::<u64>(), 2);
    assert!(
        digests.iter().all(|d| d.closed.as_ref().is_some_and(|c| c.outcome == DigestOutcome::Dropped)),
        "{digests:?}"
    );
    assert_eq!(env.count("SELECT COUNT(*) FROM audit WHERE action = 'close'").await?, 1);
    assert!(env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_between_attempts_ends_the_digest_without_another_attempt() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1h")).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Retrying).await?;
    env.events.emit(event(&key, "e2")).await?;
    cancelled(&env, &key).await?;

    let digests = env.store.digests(&key, 10).await?;
    assert_eq!(digests.len(), 2, "the digest on its way, and what was pending behind it: {digests:?}");
    assert!(
        digests.iter().all(|d| d.closed.as_ref().is_some_and(|c| c.outcome == DigestOutcome::Dropped)),
        "{digests:?}"
    );
    assert_eq!(digests.iter().map(|digest| digest.attempts).sum::<u32>(), 1);
    assert!(env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_sends_a_window_before_it_is_due() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1h")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    let flushed = env.update(&key, Digest::flush, order()).await?;
    assert_eq!(flushed.events, 1);
    let summary = env.completed(&key).await?;
    assert_eq!(summary.last.context("no digest")?.closed.outcome, DigestOutcome::Sent);
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_held_key_collects_events_and_a_release_sends_one_email() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1h")).await?;
    let key = key("activity", "ann");
    // The window is due in a second: the hold arrives with the event.
    env.events.emit(event(&key, "e1")).await?;
    let held = env.update(&key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    assert_eq!(held.events, 1);
    env.reaches(&key, DigestStage::Held).await?;
    env.events.emit(event(&key, "e2")).await?;
    let due = env.status(&key).await?.due_at.context("the window is planned, and everybody sees when it was due")?;
    eventually("the window is overdue", MINUTE, async || Ok((Timestamp::now() > due).then_some(()))).await?;
    let status = env.status(&key).await?;
    assert_eq!((status.pending, status.uncompared), (1, 1), "a key on hold compares nothing");
    assert!(env.relay.mails().is_empty());

    let released = env.update(&key, Digest::release, ReleaseCommand::from(order())).await?;
    assert_eq!((released.held, released.events), (true, 2));
    let summary = env.completed(&key).await?;
    assert_eq!(summary.last.context("no digest")?.closed.outcome, DigestOutcome::Sent);
    assert_eq!(events_by_message(&env.relay.mails())?.into_values().collect::<Vec<_>>(), [2]);
    let audited =
        "SELECT COUNT(*) FROM audit WHERE actor = 'ann' AND why = 'ticket 812' AND action IN ('hold', 'release')";
    assert_eq!(env.count(audited).await?, 2);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_fifty_keys_spreads_what_is_overdue() -> Result<()> {
    const SPREAD: Duration = Duration::from_secs(20);
    let mut settings = settings("after 1s", "after 1h");
    settings.digests.get_mut("activity").context("no such type")?.spread = Some(SPREAD);
    let env = Env::start(settings).await?;
    let keys: Vec<_> = (0..50).map(|user| key("activity", &format!("user{user}"))).collect();
    let mut overdue = Timestamp::MIN;
    for key in &keys {
        env.events.emit(event(key, "e1")).await?;
        env.update(key, Digest::hold, HoldCommand { order: order(), until: None }).await?;
        let planned = env.status_when(key, "planned", |status| status.due_at.is_some()).await?;
        overdue = overdue.max(planned.due_at.context("not planned")?);
    }
    eventually("all are overdue", MINUTE, async || Ok((Timestamp::now() > overdue).then_some(()))).await?;

    let mut due = BTreeMap::new();
    for key in &keys {
        let now = Timestamp::now();
        let released = env.update(key, Digest::release, ReleaseCommand { order: order(), spread: true }).await?;
        let at = released.due_at.context("nothing is due")?;
        let wait = spread_share(&key.workflow_id(), SPREAD);
        assert!(at >= now + wait && at <= Timestamp::now() + wait, "{key}: due at {at}, share {wait:?} from {now}");
        due.insert(key, at);
    }
    wait_for_emails(&env.relay, keys.len(), MINUTE).await?;
    let mut seconds = BTreeSet::new();
    for (key, due_at) in due {
        env.completed(key).await?;
        let digest = env.store.digests(key, 1).await?.pop().context("no digest")?;
        let closed_at = digest.closed_at.context("has no end")?;
        assert!(closed_at >= due_at, "{key} went out at {closed_at}, before {due_at}");
        seconds.insert(closed_at.as_second());
    }
    assert!(seconds.len() > 12, "not spread: {seconds:?}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_and_a_retry_send_a_digest_that_waits_for_its_next_attempt() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1h")).await?;
    for (user, flushes) in [("ann", true), ("bo", false)] {
        env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
        let key = key("activity", user);
        env.events.emit(event(&key, "e1")).await?;
        env.reaches(&key, DigestStage::Retrying).await?;
        if flushes {
            let flushed = env.update(&key, Digest::flush, order()).await?;
            assert_eq!((flushed.events, flushed.hurried), (0, true));
        } else {
            let digest_id = env.status(&key).await?.delivering.context("no digest")?.digest_id;
            let reopen = ReopenCommand { order: order(), digest_id, may_duplicate: false };
            let reopened = env.update(&key, Digest::reopen, reopen).await?;
            assert_eq!(reopened, ReopenResult { events: 1, refused: None });
        }
        env.completed(&key).await?;
        assert_eq!(
            env.store.digests(&key, 1).await?[0].closed.as_ref().map(|closed| closed.outcome),
            Some(DigestOutcome::Sent)
        );
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_drop_ends_the_retrying_digest_and_the_window_behind_it() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1h")).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Retrying).await?;
    env.events.emit(event(&key, "e2")).await?;
    let dropped = env.update(&key, Digest::discard, order()).await?;
    assert_eq!((dropped.events, dropped.delivering.is_some()), (1, true));
    env.completed(&key).await?;

    env.events.emit(event(&key, "e3")).await?;
    env.completed(&key).await?;
    let outcomes: Vec<_> =
        env.store.digests(&key, 10).await?.into_iter().filter_map(|d| Some((d.items, d.closed?.outcome))).collect();
    assert_eq!(outcomes, [(1, DigestOutcome::Sent), (1, DigestOutcome::Dropped), (1, DigestOutcome::Dropped)]);
    assert_eq!(env.count("SELECT COUNT(*) FROM audit WHERE actor = 'ann' AND action = 'close'").await?, 2);
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_requires_a_reason_and_an_actor_without_an_address() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1h")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    for (by, why, named) in
        [("", "x", "by: is required"), ("ann", " ", "why: is required"), ("a@b", "x", "by: is an address")]
    {
        let order = CommandContext { by: by.to_owned(), why: why.to_owned() };
        let refused = env.update(&key, Digest::flush, order).await;
        let error = format!("{:?}", refused.err().context("was accepted")?);
        assert!(error.contains(named), "{error}");
    }
    env.status_when(&key, "the event waits", |status| status.pending == 1).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_refuses_unknown_fields() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1h")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let digest_id = "00000000-0000-0000-0000-000000000001";
    for (update, fields) in [
        ("flush", json!({"untill": null})),
        ("hold", json!({"untill": "2026-01-01T08:00:00Z"})),
        ("release", json!({"spred": true})),
        ("drop", json!({"until": null})),
        ("retime", json!({"att": "2026-01-01T08:00:00Z"})),
        ("reopen", json!({"digest_id": digest_id, "may_dupicate": true})),
    ] {
        let mut input = json!({"by": "ann", "why": "ticket 812"});
        input.as_object_mut().context("an object")?.extend(fields.as_object().context("an object")?.clone());
        let refused = env.update_json(&key, update, input).await;
        let error = format!("{:?}", refused.err().context("was accepted")?);
        let field = fields.as_object().and_then(|fields| fields.keys().next_back()).context("no field")?;
        assert!(error.contains(&format!("{field}: is not a field of this command")), "{update}: {error}");
    }
    for (input, says) in [
        (
            Value::Null,
            "argument: encoding is binary/null: the argument is null, nil, None or undefined; send one JSON object",
        ),
        (json!({"by": "ann"}), "why: is required"),
        (json!({"by": "ann", "why": "x", "until": 1_795_860_000_123_i64}), "until: is outside the years 1 to 9999"),
    ] {
        let error = format!("{:?}", env.update_json(&key, "hold", input).await.err().context("was accepted")?);
        assert!(error.contains(says), "{error}");
    }
    let held = env.update_json(&key, "hold", json!({"by": "ann", "why": "ticket 812", "until": null})).await?;
    assert_eq!(held, json!({"events": 1, "delivering": null}));
    assert!(env.history(&key).await?.iter().all(|event| event.event_type() != EventType::WorkflowTaskFailed));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_that_the_recipient_is_unknown() -> Result<()> {
    let mut settings = settings("after 1s", "after 1h");
    settings.unknown_recipients = UnknownRecipients::Wait;
    let env = Env::start(settings).await?;
    let key = key("activity", "nobody");
    env.events.emit(event(&key, "e1")).await?;
    let waits = async || Ok(env.status(&key).await?.why.contains("does not know").then_some(()));
    eventually("the status says why", MINUTE, waits).await?;
    assert_eq!(env.status(&key).await?.pending, 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_namespace_is_an_error_and_not_an_idle_key() -> Result<()> {
    let cli = CliEnv::start("after 1h").await?;
    let order = " --by ann --why 812";
    for (command, order, code) in [
        ("status acme/activity/ann", "", 1),
        ("flush acme/activity/ann", "", 1),
        ("digest hold acme/activity/ann", order, 1),
        ("digest preview acme/activity/ann", "", 1),
        ("recover acme/activity/ann", order, 1),
        ("retention run", "", 1),
        // It was written down, and whoever looks at the window next follows it.
        ("preferences set acme/activity/ann --off promotion", order, 0),
    ] {
        let words = format!("{command}{order}");
        let output = cli.tidings().env("TEMPORAL_NAMESPACE", "nowhere").args(words.split(' ')).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        assert!(said.contains("Namespace nowhere is not found; check TEMPORAL_NAMESPACE"), "{command}: {said}");
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_preview_works_where_the_dkim_key_is_not() -> Result<()> {
    let mut cli = CliEnv::start("after 1h").await?;
    cli.start_worker()?;
    let events = tidings_client::Client::new(cli.server.client().await?, tidings_client::Config::default());
    events.emit(event(&key("activity", "ann"), "e1")).await?;
    let preview = ["digest", "preview", "acme/activity/ann", "--part", "subject"];
    let subject = eventually("the window is open", MINUTE, async || {
        let subject = cli.run(&preview).await?;
        Ok((!subject.contains("no window is open")).then_some(subject))
    })
    .await?;
    assert!(!subject.trim().is_empty());

    let path = cli.folder.path().join("tidings.toml");
    let signed =
        format!("{}[mail.dkim]\nselector = \"s1\"\nkey_file = \"elsewhere.pem\"\n", std::fs::read_to_string(&path)?);
    std::fs::write(&path, signed)?;
    let worker = cli.tidings().arg("worker").output().await?;
    assert!(String::from_utf8_lossy(&worker.stderr).contains("elsewhere.pem"), "the worker signs, and needs the key");
    assert_eq!(cli.run(&preview).await?, subject);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_digests_message_fails_when_it_was_sent_after_all() -> Result<()> {
    let mut cli = CliEnv::start("after 1s").await?;
    cli.start_worker()?;
    let temporal = cli.server.client().await?;
    let events = tidings_client::Client::new(temporal, tidings_client::Config::default());
    let (sent, waits) = (key("activity", "ann"), key("activity", "bo"));
    cli.import(&BTreeSet::from([sent.clone(), waits.clone()])).await?;
    cli.relay.fault(Fault::new(At::Dot, Act::Slow(Duration::from_secs(10))).to("ann@example.test"));
    cli.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).to("bo@example.test"));
    for (key, under_way, code, said) in [
        (sent, "SELECT COUNT(*) FROM attempts WHERE past_the_dot_at IS NOT NULL", 1, "is not cancelled but sent"),
        (waits, "SELECT COUNT(*) FROM attempts WHERE class = 'deferred'", 0, ""),
    ] {
        events.emit(event(&key, "e1")).await?;
        let begun = async || Ok((count(cli.folder.path(), under_way).await? == 1).then_some(()));
        eventually("an attempt is where it is to be", MINUTE, begun).await?;
        let listed = cli.run(&["messages", "list", "--limit", "1", "--json"]).await?;
        // The second line continues the list.
        let first = listed.lines().next().context("no message is listed")?;
        let message: serde_json::Value = serde_json::from_str(first)?;
        let id = message["id"].as_str().context("no id")?;
        let cancel = ["messages", "cancel", id, "--by", "ann", "--why", "ticket 812"];
        let output = cli.tidings().args(cancel).output().await?;
        let found = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{key}: {found}");
        assert!(found.contains(said), "{key}: {found}");
    }
    Ok(())
}
