//! A preference change, an event, a flush and a cancel at the same instant, a thousand times: each event is in exactly one
//! mail, or in the ledger with the reason, and no key is stuck.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use temporalio_client::{
    WorkflowCancelOptions, WorkflowSignalOptions,
    errors::{WorkflowInteractionError, WorkflowUpdateError},
    tonic::Code,
};
use tidings_harness::{
    env::{Env, event, key, settings},
    relay::events_by_message,
    wait::eventually,
};
use tidings_model::{
    Key,
    command::CommandContext,
    records::{AuditActor, AuditEntry, Preferences},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tidings_workflows::{Digest, IgnoredPayload};

const KEYS: u64 = 1_000;

/// Keys whose race is on at the same time.
const AT_ONCE: usize = 8;

async fn change(env: &Env, key: &Key) -> Result<()> {
    let preferences = Preferences { cadence: Some("after 2h".to_owned()), ..Preferences::default() };
    let (actor, action) = (AuditActor::Recipient, "preferences".to_owned());
    let entry = AuditEntry { at: Timestamp::now(), actor, action, why: String::new() };
    env.store.put_preferences(key, &preferences, None, &entry).await?;
    match env.workflow(key).signal(Digest::preferences, IgnoredPayload, WorkflowSignalOptions::default()).await {
        Ok(()) | Err(WorkflowInteractionError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn flush(env: &Env, key: &Key) -> Result<()> {
    loop {
        let order = CommandContext { by: "ann".to_owned(), why: "a race".to_owned() };
        match env.update(key, Digest::flush, order).await {
            // A run that completes first takes no more updates.
            Ok(_) | Err(WorkflowUpdateError::NotFound(_) | WorkflowUpdateError::Failed(_)) => return Ok(()),
            // An event came as the run was about to complete; the server hands out another workflow task.
            Err(WorkflowUpdateError::Rpc(status)) if status.code() == Code::FailedPrecondition => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn cancel(env: &Env, key: &Key) -> Result<()> {
    match env.workflow(key).cancel(WorkflowCancelOptions::default()).await {
        Ok(()) | Err(WorkflowInteractionError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn race(env: &Env, number: u64) -> Result<Key> {
    let key = key("activity", &number.to_string());
    env.events.emit(event(&key, "first")).await?;
    let emit = async { Ok(env.events.emit(event(&key, "second")).await?) };
    // Every key has its own order of departure, and the server's threads have theirs of arrival.
    match number % 4 {
        0 => tokio::try_join!(change(env, &key), emit, flush(env, &key), cancel(env, &key)).map(drop),
        1 => tokio::try_join!(cancel(env, &key), change(env, &key), emit, flush(env, &key)).map(drop),
        2 => tokio::try_join!(flush(env, &key), cancel(env, &key), change(env, &key), emit).map(drop),
        _ => tokio::try_join!(emit, flush(env, &key), change(env, &key)).map(drop),
    }?;
    Ok(key)
}

/// Flushes a key until nothing of it is open.
async fn ends(env: &Env, key: &Key) -> Result<()> {
    let met = async || {
        flush(env, key).await?;
        Ok(env.is_idle(key).await?.then_some(()))
    };
    eventually("the key is idle", Duration::from_mins(2), met).await.with_context(|| key.to_string())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_change_event_flush_and_cancel_lose_no_event() -> Result<()> {
    let env = Env::start(settings("after 1h", "after 1h")).await?;
    let races = stream::iter(0..KEYS).map(|number| race(&env, number));
    let keys: Vec<Key> = races.buffer_unordered(AT_ONCE).try_collect().await?;

    // An event that came after the cancel, or after the flush, has a window of its own: it goes out now.
    let idle = stream::iter(&keys).map(|key| ends(&env, key));
    idle.buffer_unordered(AT_ONCE).try_collect::<()>().await?;

    let mails = events_by_message(&env.relay.mails())?;
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut sent = 0;
    for key in &keys {
        let digests = env.store.digests(key, 10).await?;
        ensure!(digests.iter().map(|digest| digest.items).sum::<u64>() == 2, "{key} lost an event: {digests:?}");
        for digest in digests {
            let closed = digest.closed.with_context(|| format!("{key} has a digest without an end"))?;
            *outcomes.entry(closed.outcome.name()).or_default() += digest.items;
            sent += u64::from(closed.outcome == DigestOutcome::Sent);
        }
    }
    println!(
        "{} keys, events by outcome {outcomes:?}, {} mails of {sent} digests",
        keys.len(),
        env.relay.mails().len()
    );
    assert_eq!(outcomes.values().sum::<u64>(), 2 * KEYS);
    // A cancel past the dot leaves it open whether the mail arrived.
    let ambiguous = env.count("SELECT COUNT(*) FROM digests WHERE outcome = 'ambiguous'").await?;
    let mails_of_sent = env.relay.mails().len() as u64;
    assert_eq!(mails.len() as u64, mails_of_sent, "two mails for one digest");
    assert!((sent..=sent + u64::try_from(ambiguous)?).contains(&mails_of_sent), "{sent} sent, {ambiguous} ambiguous");
    Ok(())
}
