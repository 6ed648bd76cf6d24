//! Recovery of a terminated run: its collected events and its digest in delivery are sent after all (rule 31).

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use sqlx::{Connection, Executor, PgConnection};
use temporalio_client::{
    NamespacedClient as _, WorkflowDescribeOptions, WorkflowTerminateOptions, tonic::IntoRequest as _,
};
use temporalio_common::{
    data_converters::RawValue,
    protos::temporal::api::{common::v1::WorkflowExecution, workflowservice::v1::DeleteWorkflowExecutionRequest},
};
use tidings_client::{Client, Config, v1};
use tidings_harness::{
    env::{Env, event, key, ledger, settings},
    postgres::{database, waits},
    relay::{Act, At, Fault, events_by_message},
    signals::{json_events, signal},
    wait::{eventually, wait_for_emails},
};
use tidings_model::{Key, command::CommandContext, names, troubled_run::RunResolution, window::DigestOutcome};
use tidings_needs::needs;
use tidings_operations::recover::{RecoveryReport, RunRecovery};
use tidings_store::{PostgresStore, Store, prelude::*};
use tidings_workflows::DigestStage;

const MINUTE: Duration = Duration::from_mins(1);
/// Bytes of signals after which a run continues as new.
const BYTES_OF_A_RUN: usize = 4 * 1024 * 1024;
const BYTES_OF_A_SIGNAL: usize = 240 * 1024;

fn order() -> CommandContext {
    CommandContext { by: "ann".to_owned(), why: "terminated by mistake".to_owned() }
}

fn recovery<'a, S: Store>(env: &'a Env<S>, key: &'a Key) -> RunRecovery<'a> {
    let (temporal, events, task_queue) = (&env.temporal, &env.events, names::TASK_QUEUE);
    RunRecovery { temporal, events, task_queue, store: &*env.store, key, run_id: None }
}

fn retract(key: &Key, event_id: &str) -> v1::Retract {
    let Key { tenant, digest_type: digest, user } = key.clone();
    v1::Retract { tenant, digest, user, event_id: event_id.to_owned(), ..v1::Retract::default() }
}

async fn terminated<S: Store>(env: &Env<S>, key: &Key) -> Result<()> {
    Ok(env.workflow(key).terminate(WorkflowTerminateOptions::default()).await?)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn recovery_puts_every_event_of_a_terminated_run_in_one_email() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1h")).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let retrying = async || Ok((env.status(&key).await?.state == DigestStage::Retrying).then_some(()));
    eventually("the first digest waits for its next attempt", MINUTE, retrying).await?;
    for event_id in ["e2", "e3", "e4"] {
        env.events.emit(event(&key, event_id)).await?;
    }
    env.events.retract(retract(&key, "e4")).await?;
    terminated(&env, &key).await?;

    let planned = recovery(&env, &key).dry_run().await?;
    assert!(env.is_idle(&key).await?, "a dry run starts nothing");
    let recovered = recovery(&env, &key).run(&order(), RunResolution::ByHand).await?;
    assert_eq!(recovered, planned, "and says what the recovery then does");
    let RecoveryReport { ended, digests, events, retracts, .. } = recovered;
    assert_eq!((ended, events, retracts), ("terminated", 4, 1));
    assert_eq!(digests.iter().map(|digest| (digest.events, &digest.refused)).collect::<Vec<_>>(), [(1, &None)]);

    wait_for_emails(&env.relay, 2, MINUTE).await?;
    env.completed(&key).await?;
    let mut told: Vec<_> = events_by_message(&env.relay.mails())?.into_values().collect();
    told.sort_unstable();
    assert_eq!(told, [1, 2], "e1 alone, then e2 and e3 together; e4 was taken back");
    let sent: Vec<_> = env.store.digests(&key, 10).await?.into_iter().filter(|digest| digest.is_sent()).collect();
    assert_eq!(sent.iter().map(|digest| digest.items).sum::<u64>(), 3);
    assert_eq!(env.count("SELECT COUNT(*) FROM audit WHERE actor = 'ann' AND action = 'recover'").await?, 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_recovery_sends_nothing_twice() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("alerts", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let run_id = env.run(&key).await?;
    terminated(&env, &key).await?;
    let by_id = RunRecovery { run_id: Some(&run_id), ..recovery(&env, &key) };
    by_id.run(&order(), RunResolution::ByHand).await?;
    env.completed(&key).await?;
    by_id.run(&order(), RunResolution::ByHand).await?;
    env.completed(&key).await?;
    let outcomes: Vec<_> =
        env.store.digests(&key, 10).await?.into_iter().filter_map(|digest| Some(digest.closed?.outcome)).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == DigestOutcome::Sent).count(), 1, "{outcomes:?}");
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn recovery_leaves_the_digest_of_a_later_run_alone() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1h")).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(2));
    let key = key("activity", "ann");
    let retrying = async || Ok((env.status(&key).await?.state == DigestStage::Retrying).then_some(()));
    env.events.emit(event(&key, "e1")).await?;
    eventually("the first digest waits for its next attempt", MINUTE, retrying).await?;
    let run_id = env.run(&key).await?;
    let left_behind = env.status(&key).await?.delivering.map(|delivery| delivery.digest_id);
    terminated(&env, &key).await?;
    env.events.emit(event(&key, "e2")).await?;
    eventually("a later run's digest waits for its next attempt", MINUTE, retrying).await?;

    let recovered = RunRecovery { run_id: Some(&run_id), ..recovery(&env, &key) }.dry_run().await?;
    let digests: Vec<_> = recovered.digests.iter().map(|digest| Some(digest.digest_id)).collect();
    assert_eq!(digests, [left_behind]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn recovery_leaves_the_open_window_of_a_later_run_alone() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let run_id = env.run(&key).await?;
    terminated(&env, &key).await?;
    for n in 0..8 {
        signal(&env.temporal, &key, bulky(n)).await?;
    }
    let stashed = async || {
        let digests = env.store.digests(&key, 10).await?;
        Ok(digests.into_iter().find(|digest| digest.items > 0).map(|digest| digest.digest_id))
    };
    let stashed = eventually("the later run's window has events in the ledger", MINUTE, stashed).await?;

    let recovered =
        RunRecovery { run_id: Some(&run_id), ..recovery(&env, &key) }.run(&order(), RunResolution::ByHand).await?;
    assert_eq!((recovered.digests, recovered.events), (Vec::new(), 1));
    let status = env.status(&key).await?;
    assert_eq!((status.state, status.digest_id), (DigestStage::Collecting, Some(stashed)));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn recovery_refuses_running_and_completed_runs() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let running = key("activity", "ann");
    env.events.emit(event(&running, "e1")).await?;
    let error = recovery(&env, &running).run(&order(), RunResolution::ByHand).await.unwrap_err();
    assert!(error.to_string().contains("is still running, and no earlier run waits"), "{error}");

    let completed = key("alerts", "ann");
    env.events.emit(event(&completed, "e1")).await?;
    env.completed(&completed).await?;
    let error = recovery(&env, &completed).dry_run().await.unwrap_err();
    assert!(error.to_string().contains("completed and left nothing behind"), "{error}");

    let error = recovery(&env, &key("alerts", "nobody")).dry_run().await.unwrap_err();
    assert!(error.to_string().contains("Temporal has no such run"), "{error}");
    Ok(())
}

/// A run that could neither carry nor stash its events left them to the next, which was terminated before it could read them.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn recovery_skips_a_deleted_history_and_recovers_the_rest() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    let mut locking = ledger(env.folder.path()).await?;
    let locked = locking.begin_with("BEGIN IMMEDIATE").await?;
    env.events.emit(event(&key, "e1")).await?;
    let first = env.run(&key).await?;
    for n in 0..=BYTES_OF_A_RUN / BYTES_OF_A_SIGNAL {
        signal(&env.temporal, &key, bulky(n)).await?;
    }
    eventually("the run continues as new", MINUTE, async || Ok((env.run(&key).await? != first).then_some(()))).await?;
    env.events.emit(event(&key, "last")).await?;
    terminated(&env, &key).await?;
    let execution = WorkflowExecution { workflow_id: key.workflow_id(), run_id: first.clone() };
    let namespace = env.temporal.namespace();
    let delete = DeleteWorkflowExecutionRequest { namespace, workflow_execution: Some(execution) };
    env.temporal.connection().workflow_service().delete_workflow_execution(delete.into_request()).await?;
    let run = env.run_handle(&key, Some(&first));
    eventually("the history is gone", MINUTE, async || {
        Ok(run.describe(WorkflowDescribeOptions::default()).await.is_err().then_some(()))
    })
    .await?;
    locked.rollback().await?;

    let planned = recovery(&env, &key).dry_run().await?;
    let recovered = recovery(&env, &key).run(&order(), RunResolution::ByHand).await?;
    assert_eq!(recovered, planned);
    assert_eq!((recovered.events, recovered.gone), (1, vec![first]));
    env.status_when(&key, "the event waits", |status| status.pending == 1).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn recovery_emits_more_events_than_one_client_deadline_allows() -> Result<()> {
    let mut env = Env::without_worker(settings("after 1h", "after 1s")).await?;
    let key = key("activity", "ann");
    // Each is a batch of its own, and five of them travel in a second.
    for n in 0..60 {
        signal(&env.temporal, &key, bulky(n)).await?;
    }
    terminated(&env, &key).await?;
    let deadline = Duration::from_secs(8);
    env.events = Client::new(env.temporal.clone(), Config { deadline, ..Config::default() });
    assert_eq!(recovery(&env, &key).run(&order(), RunResolution::ByHand).await?.events, 60 * 16);
    Ok(())
}

/// Sixteen events of nearly the largest payload.
fn bulky(n: usize) -> RawValue {
    let event = |of: usize| {
        let excerpt = "x".repeat(BYTES_OF_A_SIGNAL / 16);
        format!(
            r#"{{"event_id":"b{n}-{of}","category":"comment","entity_type":"page","entity_id":"p1","occurred_at":1767225600,
                "payload":{{"excerpt":"{excerpt}"}}}}"#
        )
    };
    let events: Vec<_> = (0..16).map(event).collect();
    json_events(events.iter().map(String::as_str))
}

/// The claim of a run that is terminated waits for a lock, and comes through when its events were emitted again.
#[needs(temporal, postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_outlives_its_run_takes_no_event_from_the_next() -> Result<()> {
    let url = database().await?;
    let store = PostgresStore::connect(&url).await?;
    store.migrate().await?;
    let mut env = Env::with_store(settings("after 1s", "after 1h"), Arc::new(store), tempfile::tempdir()?).await?;
    env.start_worker()?;
    let key = key("activity", "ann");
    let (mut locking, mut ledger) = (PgConnection::connect(&url).await?, PgConnection::connect(&url).await?);
    let mut holding = locking.begin().await?;
    holding.execute("LOCK TABLE events IN SHARE MODE").await?;
    for event_id in ["e1", "e2"] {
        env.events.emit(event(&key, event_id)).await?;
    }
    eventually("the claim waits", MINUTE, async || waits(&mut ledger).await).await?;
    terminated(&env, &key).await?;
    let recovered = recovery(&env, &key).run(&order(), RunResolution::ByHand).await?;
    assert_eq!((recovered.digests, recovered.events), (Vec::new(), 2), "nothing is in the ledger yet");
    holding.rollback().await?;

    wait_for_emails(&env.relay, 1, MINUTE).await?;
    env.completed(&key).await?;
    assert_eq!(events_by_message(&env.relay.mails())?.into_values().collect::<Vec<_>>(), [2]);
    let digests = env.store.digests(&key, 10).await?;
    assert!(digests.iter().all(|digest| digest.items == 0 || digest.is_sent()), "{digests:?}");
    Ok(())
}
