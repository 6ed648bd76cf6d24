//! Changes while a window is open: by the recipient, the producer or the operator. No event is lost or sent twice, and
//! the audit trail has the reason.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp, Unit};
use temporalio_client::{WorkflowIdConflictPolicy, WorkflowSignalOptions, WorkflowUpdateWithStartOptions};
use tidings_harness::{
    env::{Env, event, key, order, settings},
    relay::{Act, At, Fault, events_by_message},
    signals::{json_events, signal},
    wait::eventually,
};
use tidings_model::{
    Key,
    command::{ReopenCommand, ReopenResult, RetimeCommand},
    names,
    records::{AuditActor, AuditEntry, Preferences},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_proto::v1;
use tidings_store::prelude::*;
use tidings_workflows::{CarriedState, Digest, DigestStage, DigestStatus, IgnoredPayload};
use tokio::time::timeout;

const MINUTE: Duration = Duration::from_mins(1);

async fn collecting(env: &Env, key: &Key, events: u64) -> Result<DigestStatus> {
    env.status_when(key, "it collects", |s| {
        s.state == DigestStage::Collecting && s.pending + s.uncompared == events && s.due_at.is_some()
    })
    .await
}

/// The recipient chooses in the store, as `tidings preferences set` does; the signal is up to the test.
async fn choose(env: &Env, key: &Key, preferences: &Preferences) -> Result<()> {
    let entry = AuditEntry {
        at: Timestamp::now(),
        actor: AuditActor::Recipient,
        action: "preferences".to_owned(),
        why: String::new(),
    };
    env.store.put_preferences(key, preferences, None, &entry).await?;
    Ok(())
}

async fn tell_of_choice(env: &Env, key: &Key) -> Result<()> {
    Ok(env.workflow(key).signal(Digest::preferences, IgnoredPayload, WorkflowSignalOptions::default()).await?)
}

/// A retract of the key, to be filled in.
fn retract(key: &Key) -> v1::Retract {
    let Key { tenant, digest_type: digest, user } = key.clone();
    v1::Retract { tenant, digest, user, ..v1::Retract::default() }
}

/// The number of events in the key's digests, by outcome and reason.
async fn outcomes(env: &Env, key: &Key) -> Result<BTreeMap<(&'static str, String), u64>> {
    let mut outcomes = BTreeMap::new();
    for digest in env.store.digests(key, 100).await? {
        let closed = digest.closed.context("a digest without an end")?;
        *outcomes.entry((closed.outcome.name(), closed.why)).or_default() += digest.items;
    }
    Ok(outcomes)
}

fn of(counts: &[(&'static str, &str, u64)]) -> BTreeMap<(&'static str, String), u64> {
    counts.iter().map(|(outcome, why, events)| ((*outcome, (*why).to_owned()), *events)).collect()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_cadence_retimes_the_open_window_and_audits_both_times() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let before = collecting(&env, &key, 1).await?.due_at.context("not planned")?;

    let hour = Preferences { cadence: Some("after 1h".to_owned()), ..Preferences::default() };
    choose(&env, &key, &hour).await?;
    tell_of_choice(&env, &key).await?;
    let moved = env.status_when(&key, "it is re-timed", |s| s.due_at.is_some_and(|at| at < before)).await?;
    let sooner = before.duration_since(moved.due_at.context("not planned")?);
    assert_eq!(sooner, SignedDuration::from_hours(23));
    assert!(moved.why.starts_with("after 1h -> "), "{}", moved.why);
    assert_eq!(moved.pending, 1);

    let audited = async || {
        let both =
            "SELECT COUNT(*) FROM audit WHERE action = 'retime' AND why LIKE 'the recipient chose: due at %, was %'";
        Ok((env.count(both).await? == 1).then_some(()))
    };
    eventually("the audit trail has it", MINUTE, audited).await?;

    choose(&env, &key, &Preferences { cadence: Some("instant".to_owned()), ..Preferences::default() }).await?;
    tell_of_choice(&env, &key).await?;
    env.completed(&key).await?;
    assert_eq!(outcomes(&env, &key).await?, of(&[("sent", "", 1)]));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_choice_without_its_signal_applies_before_the_window_is_due() -> Result<()> {
    let env = Env::start(settings("after 12s", "after 1d")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    collecting(&env, &key, 1).await?;
    // The choice comes in the first half of the window, and no signal follows.
    choose(&env, &key, &Preferences { cadence: Some("after 1d".to_owned()), ..Preferences::default() }).await?;
    let moved = env.status_when(&key, "it is re-timed", |s| s.why.starts_with("after 1d")).await?;
    assert!(moved.due_at.is_some_and(|at| at > Timestamp::now() + SignedDuration::from_hours(23)));
    assert!(env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_disabled_category_are_skipped_with_the_reason() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    let key = key("activity", "ann");
    let share = |id: &str| v1::Event { category: "share".to_owned(), ..event(&key, id) };
    for event in [event(&key, "e1"), share("e2"), share("e3")] {
        env.events.emit(event).await?;
    }
    collecting(&env, &key, 3).await?;
    choose(&env, &key, &Preferences { off: ["share".to_owned()].into(), ..Preferences::default() }).await?;
    tell_of_choice(&env, &key).await?;
    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    let expected = of(&[("sent", "", 1), ("skipped", "the recipient turned their category off", 2)]);
    assert_eq!(outcomes(&env, &key).await?, expected);
    assert_eq!(events_by_message(&env.relay.mails())?.into_values().collect::<Vec<_>>(), [1]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retracted_event_is_in_no_email_whichever_arrives_first() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    let key = key("activity", "ann");
    let retracts = ["e2", "still to come"].map(|id| v1::Retract { event_id: id.to_owned(), ..retract(&key) });
    // Each occurred before its retract.
    let [e1, e2, e3, late] = ["e1", "e2", "e3", "still to come"].map(|id| event(&key, id));
    for event in [e1, e2.clone(), e3] {
        env.events.emit(event).await?;
    }
    collecting(&env, &key, 3).await?;
    for retract in retracts.iter().chain(&retracts) {
        env.events.retract(retract.clone()).await?;
    }
    collecting(&env, &key, 2).await?;
    env.events.emit(late).await?;
    env.events.emit(e2).await?;
    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    assert_eq!(outcomes(&env, &key).await?, of(&[("sent", "", 2), ("skipped", "retracted", 2)]));
    assert_eq!(events_by_message(&env.relay.mails())?.into_values().collect::<Vec<_>>(), [2]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_window_whose_events_are_all_retracted_ends_without_an_email() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    let key = key("activity", "ann");
    for event_id in ["e1", "e2"] {
        env.events.emit(event(&key, event_id)).await?;
    }
    collecting(&env, &key, 2).await?;
    // All about the page that occurred so far.
    let (category, entity_type, entity_id) = ("comment".to_owned(), "page".to_owned(), "plans".to_owned());
    let occurred_at = Some(Timestamp::now().into());
    let page = v1::Retract { category, entity_type, entity_id, occurred_at, ..retract(&key) };
    env.events.retract(page).await?;
    let summary = env.completed(&key).await?;
    let last = summary.last.context("no digest")?.closed;
    let why = "every event was retracted, opted out of, seen elsewhere, too old, too few, or in an earlier digest";
    assert_eq!((last.outcome, last.why.as_str()), (DigestOutcome::Skipped, why));
    assert_eq!(outcomes(&env, &key).await?, of(&[("skipped", "retracted", 2), ("skipped", why, 0)]));
    assert!(env.relay.mails().is_empty());

    // What occurs later is new.
    env.events.emit(event(&key, "e3")).await?;
    collecting(&env, &key, 1).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn retime_applies_the_current_configuration_or_a_given_time() -> Result<()> {
    let mut env = Env::start(settings("after 1d", "after 1d")).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let planned = collecting(&env, &key, 1).await?.due_at;

    // Another configuration leaves the open window alone (rule 16).
    env.stop_worker()?;
    env.settings = settings("after 2h", "after 1d");
    env.start_worker()?;
    env.events.emit(event(&key, "e2")).await?;
    assert_eq!(collecting(&env, &key, 2).await?.due_at, planned);

    let retime = async |at: Option<Timestamp>| {
        let retime = RetimeCommand { order: order(), at };
        env.update(&key, Digest::retime, retime).await
    };
    let anew = retime(None).await?;
    assert_eq!((anew.events, anew.was), (2, planned));
    let sooner = planned.zip(anew.due_at).map(|(was, now)| was.duration_since(now)).context("not planned")?;
    // A worker that replays history may see the first event a workflow task later.
    assert_eq!(sooner.round(Unit::Second)?, SignedDuration::from_hours(22));
    assert!(anew.why.starts_with("after 2h -> "), "{}", anew.why);

    let at = Timestamp::now() + SignedDuration::from_secs(2);
    let moved = retime(Some(at)).await?;
    assert_eq!((moved.was, moved.due_at), (anew.due_at, Some(at)));
    assert!(moved.why.starts_with("retimed by ann: ticket 812 -> "), "{}", moved.why);
    env.completed(&key).await?;
    assert_eq!(outcomes(&env, &key).await?, of(&[("sent", "", 2)]));
    assert_eq!(env.count("SELECT COUNT(*) FROM audit WHERE action = 'retime' AND actor = 'ann'").await?, 2);
    Ok(())
}

/// As `tidings digest reopen` does: an idle key has no workflow that runs.
async fn reopen(env: &Env, key: &Key, digest_id: uuid::Uuid, may_duplicate: bool) -> Result<ReopenResult> {
    let reopen = ReopenCommand { order: order(), digest_id, may_duplicate };
    let existing = WorkflowIdConflictPolicy::UseExisting;
    let options = WorkflowUpdateWithStartOptions::new(names::TASK_QUEUE, key.workflow_id(), existing).build();
    let carried = CarriedState::default();
    Ok(env
        .temporal
        .execute_update_with_start_workflow(Digest::run, carried, Digest::reopen, reopen.into(), options)
        .await?)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_digest_can_be_reopened_and_a_sent_one_cannot() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1d")).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.status_when(&key, "it is retried", |s| s.state == DigestStage::Retrying).await?;
    env.update(&key, Digest::discard, order()).await?;
    env.completed(&key).await?;
    let digest_id = env.store.digests(&key, 1).await?[0].digest_id;
    assert_eq!(outcomes(&env, &key).await?, of(&[("dropped", "ticket 812", 1)]));

    let reopened = reopen(&env, &key, digest_id, false).await?;
    assert_eq!(reopened, ReopenResult { events: 1, refused: None });
    env.completed(&key).await?;
    assert_eq!(outcomes(&env, &key).await?, of(&[("sent", "", 1)]));
    assert_eq!(env.store.digests(&key, 10).await?.len(), 1, "the same digest");
    assert_eq!(env.relay.mails().len(), 1);

    let again = reopen(&env, &key, digest_id, true).await?.refused.context("a sent digest was taken up again")?;
    assert!(again.contains("sent"), "{again}");
    env.completed(&key).await?;
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reopens_of_one_key_are_all_answered() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1d")).await?;
    let key = key("activity", "ann");
    let unknown = || reopen(&env, &key, uuid::Uuid::new_v4(), false);
    for _ in 0..10 {
        for answer in timeout(MINUTE, try_join_all((0..8).map(|_| unknown()))).await.context("no answer")?? {
            assert!(answer.refused.is_some(), "{answer:?}");
        }
    }
    env.completed(&key).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_event_flushes_its_window_and_its_redelivery_changes_nothing() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    let key = key("activity", "ann");
    let urgent = || v1::Event { urgent: true, ..event(&key, "urgent") };
    env.events.emit(event(&key, "e1")).await?;
    collecting(&env, &key, 1).await?;
    env.events.emit(urgent()).await?;
    env.completed(&key).await?;
    assert_eq!(outcomes(&env, &key).await?, of(&[("sent", "", 2)]));

    env.events.emit(event(&key, "e2")).await?;
    let planned = collecting(&env, &key, 1).await?.due_at;
    let json = r#"{"event_id":"urgent","category":"comment","occurred_at":1767225600,"urgent":true}"#;
    signal(&env.temporal, &key, json_events([json])).await?;
    // It is looked at, and leaves.
    let plans = async || {
        let history = format!("{:?}", env.history(&key).await?);
        Ok((history.matches("MarkerRecordedEventAttributes").count() >= 2).then_some(()))
    };
    eventually("it was looked at", MINUTE, plans).await?;
    assert_eq!(collecting(&env, &key, 1).await?.due_at, planned);
    Ok(())
}
