//! The checker finds bugs that tests put into Tidings. For the same events without the bug it reports nothing.

use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::{AssertSqlSafe, Connection};
use temporalio_sdk::workflow_interceptors::WorkflowInterceptorConstructor;
use tidings::registration;
use tidings_harness::{
    buggy_store::{Bug, Forgetful},
    checker::{self, Verdict},
    env::{Env, activities, event, key, ledger, settings, sqlite_file},
    flood::flood,
    signals::{json_batch, json_events, signal},
    wait::eventually,
    worker::Running,
};
use tidings_model::{Key, names};
use tidings_needs::needs;
use tidings_proto::v1;

/// More than one run takes: it continues as new, with events pending.
const SIGNALS: usize = 1_200;

fn worker(env: &Env, bug: Option<Bug>) -> Result<Running> {
    if let Some(bug) = bug {
        bug.put_into(&env.store);
    }
    let activities = activities(env.store.clone(), &env.relay.url(), env.settings.clone())?;
    Running::start(env.temporal.clone(), registration::digest_worker(names::TASK_QUEUE, activities)?)
}

async fn idle(env: &Env, key: &Key) -> Result<()> {
    let idle = async || Ok(env.is_idle(key).await?.then_some(()));
    match eventually("the key is idle", Duration::from_mins(1), idle).await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(format!("{:?}", env.status(key).await))),
    }
}

/// Emits each event into a window of its own, and answers with what the checker says.
async fn one_by_one(env: &Env, key: &Key, events: &[v1::Event]) -> Result<Verdict> {
    for event in events {
        env.events.emit(event.clone()).await?;
        idle(env, key).await?;
    }
    let acknowledged: String = events.iter().map(|event| checker::acknowledged(key, &event.event_id)).collect();
    checker::check(&acknowledged, &env.relay.mails(), &sqlite_file(env.folder.path()))
}

fn assert_nothing_is_found(verdict: &Verdict) {
    println!("without the bug: {verdict:?}");
    assert_eq!((verdict.code, verdict.violations.len()), (Some(0), 0));
}

fn assert_is_found(verdict: &Verdict, rule: &str) {
    println!("with the bug: {} violations", verdict.violations.len());
    for violation in verdict.violations.iter().take(3) {
        println!("  {}: {}", violation.rule, violation.detail);
    }
    assert_eq!(verdict.code, Some(1));
    assert!(verdict.violations.iter().any(|violation| violation.rule == rule), "not among them: {rule}");
}

async fn three_digests(bug: Option<Bug>) -> Result<Verdict> {
    let env = Env::without_worker(settings("after 1s", "after 1s")).await?;
    let _worker = worker(&env, bug)?;
    let key = key("activity", "ann");
    one_by_one(&env, &key, &["e1", "e2", "e3"].map(|event_id| event(&key, event_id))).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_checker_finds_an_outcome_that_was_not_recorded() -> Result<()> {
    assert_nothing_is_found(&three_digests(None).await?);
    assert_is_found(&three_digests(Some(Bug::OutcomeNotRecorded)).await?, "digest has no recorded outcome");
    Ok(())
}

/// Removes the unique key that keeps an event from being in two digests, by making the empty table again.
async fn lift_the_key_of_events(env: &Env) -> Result<()> {
    let mut ledger = ledger(env.folder.path()).await?;
    let create: String =
        sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE name = 'events'").fetch_one(&mut ledger).await?;
    let (key, lifted) = ("user_id, event_id)", "user_id, event_id, digest_id)");
    ensure!(create.contains(key), "the ledger keeps events apart in another way");
    let again = format!("DROP TABLE events; {}", create.replace(key, lifted));
    sqlx::raw_sql(AssertSqlSafe(again)).execute(&mut ledger).await?;
    Ok(ledger.close().await?)
}

async fn the_same_event_after_its_digest(bug: Option<Bug>) -> Result<Verdict> {
    let env = Env::without_worker(settings("after 1s", "after 1s")).await?;
    if bug.is_some() {
        lift_the_key_of_events(&env).await?;
    }
    let _worker = worker(&env, bug)?;
    let key = key("activity", "ann");
    one_by_one(&env, &key, &["e1", "e1"].map(|event_id| event(&key, event_id))).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_checker_finds_missing_deduplication() -> Result<()> {
    assert_nothing_is_found(&the_same_event_after_its_digest(None).await?);
    let verdict = the_same_event_after_its_digest(Some(Bug::NoDeduplication)).await?;
    assert_is_found(&verdict, "event is in more than one digest");
    Ok(())
}

/// Takes an event back, and emits it then.
async fn an_event_after_its_retract(bug: Option<Bug>) -> Result<Verdict> {
    let env = Env::without_worker(settings("after 1s", "after 1s")).await?;
    let _worker = worker(&env, bug)?;
    let key = key("activity", "ann");
    let (event, retract) = (event(&key, "e1"), r#"{"event_id": "e1"}"#);
    signal(&env.temporal, &key, json_batch([], [retract])).await?;
    idle(&env, &key).await?;
    env.events.emit(event).await?;
    idle(&env, &key).await?;
    let id = checker::acknowledged(&key, "e1");
    checker::check_retracted(&id, &id, &env.relay.mails(), &sqlite_file(env.folder.path()))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_checker_finds_a_forgotten_retract() -> Result<()> {
    assert_nothing_is_found(&an_event_after_its_retract(None).await?);
    let verdict = an_event_after_its_retract(Some(Bug::RetractForgotten)).await?;
    assert_is_found(&verdict, "retracted event is in a digest that was sent");
    Ok(())
}

/// One key takes more signals than a run does while its window is open.
async fn over_continue_as_new(forgets: bool) -> Result<Verdict> {
    let env = Env::without_worker(settings("after 10s", "after 1s")).await?;
    let activities = activities(env.store.clone(), &env.relay.url(), env.settings.clone())?;
    let mut options = registration::digest_worker(names::TASK_QUEUE, activities)?;
    if forgets {
        options.workflow_interceptor(WorkflowInterceptorConstructor::new(|_| Forgetful));
    }
    let _worker = Running::start(env.temporal.clone(), options)?;
    let key = key("activity", "ann");

    let ids: Vec<_> = (0..SIGNALS).map(|n| format!("e{n}")).collect();
    let events = ids.iter().map(|event_id| serde_json::to_string(&event(&key, event_id)));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    flood(&env, &key, events.iter().map(|event| json_events([event.as_str()]))).await?;
    idle(&env, &key).await?;
    let acknowledged: String = ids.iter().map(|event_id| checker::acknowledged(&key, event_id)).collect();
    checker::check(&acknowledged, &env.relay.mails(), &sqlite_file(env.folder.path()))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_checker_finds_a_continue_as_new_that_forgets_events() -> Result<()> {
    assert_nothing_is_found(&over_continue_as_new(false).await?);
    assert_is_found(&over_continue_as_new(true).await?, "acknowledged event is not in the ledger");
    Ok(())
}
