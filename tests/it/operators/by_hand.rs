//! Starts, signals, updates and activities by hand, in the Temporal UI or CLI.

use std::time::Duration;

use anyhow::{Context as _, Result};
use temporalio_client::{
    Client, NamespacedClient as _, UntypedWorkflow, WorkflowDescribeOptions, WorkflowExecutionStatus,
    tonic::IntoRequest as _,
};
use temporalio_common::protos::temporal::api::{
    common::v1::{Payload, Payloads},
    workflowservice::v1::RespondActivityTaskCompletedByIdRequest,
};
use tidings_harness::{
    env::{Env, event, key, order, settings},
    relay::{Act, At, Fault},
    time_skipping::TimeSkipping,
    wait::eventually,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_workflows::{Digest, DigestStage};

use super::{MINUTE, attempted, emails, one_attempt_is_left, temporal, waiting};

/// Starts a digest workflow as an operator would, without an event.
async fn start(env: &Env, id: &str, more: &[&str]) -> Result<String> {
    let start = ["workflow", "start", "--type", "digest", "--task-queue", "tidings", "--workflow-id", id];
    temporal(&env.server, &[&start, more].concat()).await
}

/// Runs a command for the activity of a key.
async fn by_activity(env: &Env, command: &str, key: &Key) -> Result<String> {
    let (id, activity) = (key.workflow_id(), activity(&env.temporal, key).await?);
    temporal(&env.server, &["activity", command, "--workflow-id", &id, "--activity-id", &activity]).await
}

/// The id of the activity that a key's workflow waits for.
async fn activity(temporal: &Client, key: &Key) -> Result<String> {
    let workflow = temporal.get_workflow_handle::<UntypedWorkflow>(key.workflow_id());
    let description = workflow.describe(WorkflowDescribeOptions::default()).await?;
    let activity = description.raw().pending_activities.first();
    Ok(activity.context("it waits for no activity")?.activity_id.clone())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_an_event_completes() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let inputs: [&[&str]; 3] = [&[], &["--input", r#"{"hello": 1}"#], &["--input", "null", "--input", "7"]];
    for input in inputs {
        let key = key("activity", "ann");
        start(&env, &key.workflow_id(), input).await?;
        assert_eq!(env.completed(&key).await?.digests, 0, "{input:?}");
    }
    assert_eq!(env.count("SELECT COUNT(*) FROM digests").await?, 0);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_id_is_no_key_fails_and_says_why() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    for id in ["digest/acme/activity", "digest/acme/activity/Ann Lee", "b3f0c1de-0f5e-4d5f-9a57-0f2a4d1f6a11"] {
        start(&env, id, &[]).await?;
        let workflow = env.temporal.get_workflow_handle::<UntypedWorkflow>(id);
        let failed = async || {
            let status = workflow.describe(WorkflowDescribeOptions::default()).await?.status();
            Ok((status == WorkflowExecutionStatus::Failed).then_some(()))
        };
        eventually("the run fails", MINUTE, failed).await?;
        let shown = temporal(&env.server, &["workflow", "show", "--workflow-id", id, "--output", "json"]).await?;
        assert!(shown.contains("the workflow id is not digest/TENANT/TYPE/USER"), "{id}: {shown}");
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn signals_by_hand_become_dead_letters_or_nothing() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    let id = key.workflow_id();
    env.events.emit(event(&key, "e1")).await?;
    let signal = async |name: &str, more: &[&str]| {
        let signal = ["workflow", "signal", "--workflow-id", &id, "--name", name];
        temporal(&env.server, &[&signal, more].concat()).await
    };
    for junk in [r#""junk""#, "[7]", "{}", r#"{"event_id": 7}"#] {
        signal("events", &["--input", junk]).await?;
    }
    signal("events", &[]).await?;
    env.status_when(&key, "five dead letters are counted", |status| status.malformed == 5).await?;
    signal("events", &["--input", "[]"]).await?;
    signal("no_such_signal", &["--input", r#"{"hello": 1}"#]).await?;
    signal("__temporal_signal", &["--input", "7"]).await?;

    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    assert_eq!(emails(&env.relay)?, [1]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_is_no_command_is_refused() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    let id = key.workflow_id();
    env.events.emit(event(&key, "e1")).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    let wrong: [(&str, &[&str]); 5] = [
        ("flush", &[]),
        ("flush", &["--input", "{}"]),
        ("hold", &["--input", r#"{"by": "ann", "why": "ticket 812", "until": "tomorrow"}"#]),
        ("drop", &["--input", r#""now""#]),
        ("no_such_update", &["--input", r#"{"by": "ann", "why": "ticket 812"}"#]),
    ];
    for (name, more) in wrong {
        let update = ["workflow", "update", "execute", "--workflow-id", &id, "--name", name];
        let refused = temporal(&env.server, &[&update, more].concat()).await;
        assert!(refused.is_err(), "{name} {more:?}: {refused:?}");
    }
    waiting(&env, &key, 1).await?;
    env.reaches(&key, DigestStage::Collecting).await?;
    assert_eq!(env.count("SELECT COUNT(*) FROM audit").await?, 0);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_paused_or_reset_by_hand_sends_one_copy() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let keys = ["pause", "reset"].map(|command| (command, key("alerts", command)));
    let [(_, paused), _] = &keys;
    env.relay.fault(Fault::new(At::Rcpt, Act::Silent).times(2));
    for (_, key) in &keys {
        env.events.emit(event(key, "e1")).await?;
    }
    attempted(&env.relay, 2).await?;
    for (command, key) in &keys {
        by_activity(&env, command, key).await?;
    }
    // Each attempt learns of it with the answer to a heartbeat, and stops before its dot.
    let stopped =
        async || Ok((env.count("SELECT COUNT(*) FROM attempts WHERE class = 'cancelled'").await? == 2).then_some(()));
    eventually("both attempts stop", MINUTE, stopped).await?;
    by_activity(&env, "unpause", paused).await?;
    for (command, key) in &keys {
        env.completed(key).await.context(*command)?;
    }
    assert_eq!(emails(&env.relay)?, [1, 1]);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_completed_by_hand_sends_one_copy() -> Result<()> {
    let env = TimeSkipping::start(settings("after 1h", "after 1s")).await?;
    let key = key("alerts", "ann");
    env.relay.fault(Fault::new(At::Rcpt, Act::Silent).times(1));
    env.emit(&key, "e1").await?;
    env.server.sleep(Duration::from_secs(2)).await?;
    attempted(&env.relay, 1).await?;
    let nonsense = Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: b"7".to_vec(),
        ..Payload::default()
    };
    let completed = RespondActivityTaskCompletedByIdRequest {
        namespace: env.server.client.namespace(),
        workflow_id: key.workflow_id(),
        activity_id: activity(&env.server.client, &key).await?,
        result: Some(Payloads { payloads: vec![nonsense] }),
        ..RespondActivityTaskCompletedByIdRequest::default()
    };
    env.server
        .client
        .connection()
        .workflow_service()
        .respond_activity_task_completed_by_id(completed.into_request())
        .await?;
    env.status_when(&key, "the status shows it", |status| status.trouble.is_some()).await?;
    env.completed(&key).await?;
    one_attempt_is_left(&env.relay).await?;
    assert_eq!(emails(&env.relay)?, [1]);
    Ok(())
}
