//! Deliveries while everything works, and the ends that a receiver can choose.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use prost::Message;
use temporalio_client::{Client, WorkflowFetchHistoryOptions, WorkflowHandle, WorkflowQueryOptions};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use tidings_activities::subscriptions::{self, NoticeDelivery};
use tidings_harness::{
    env::{Env, event, key, settings},
    notice_receiver::{NEXT_SECRET, NoticeReceiver, SECRET, deliver_to},
    wait::eventually,
};
use tidings_model::{
    names,
    records::AuditEntry,
    subscription::{DeliveryResult, NoticeType, ReplayScope},
    webhook_secret::SigningSecret,
};
use tidings_needs::needs;
use tidings_operations::subscriptions::NoticeWatch;
use tidings_store::{DirectoryStore, prelude::*};
use tidings_workflows::Deliveries;

const MINUTE: Duration = Duration::from_mins(1);

pub(super) fn workflow(temporal: &Client) -> WorkflowHandle<Client, Deliveries> {
    temporal.get_workflow_handle(names::subscription_workflow_id(names::TASK_QUEUE, "crm"))
}

pub(super) fn watch(env: &Env) -> NoticeWatch {
    NoticeWatch::new(env.store.clone(), env.temporal.clone(), names::TASK_QUEUE.to_owned())
}

pub(super) fn entry(action: &str) -> AuditEntry {
    AuditEntry { at: Timestamp::now(), actor: "ann".into(), action: action.to_owned(), why: "a test".to_owned() }
}

/// Withdraws the consent of a user, a fact that needs no digest.
pub(super) async fn unsubscribe(store: &impl DirectoryStore, user: &str) -> Result<()> {
    Ok(store.put_consent(&key("activity", user), false, &entry("withdraw")).await?)
}

/// Waits until the receiver took this number of notices.
pub(super) async fn accepts(receiver: &NoticeReceiver, count: usize) -> Result<()> {
    let met = async || Ok((receiver.accepted()?.len() >= count).then_some(()));
    eventually(&format!("{count} notices are accepted"), MINUTE, met).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_and_a_click_are_told_signed_once_and_without_secrets() -> Result<()> {
    let receiver = NoticeReceiver::start(|_, _| 204).await?;
    let env = Env::start(settings("after 1s", "after 1s")).await?;
    let mut subscription = receiver.subscription(&[NoticeType::DigestSent, NoticeType::RecipientUnsubscribed])?;
    subscription.secrets.push(SigningSecret::parse(NEXT_SECRET).map_err(anyhow::Error::msg)?);
    let _worker = deliver_to(&env.temporal, env.store.clone(), subscription).await?;
    let (ann, mut watch) = (key("activity", "ann"), watch(&env));
    watch.poll_once().await?;
    env.events.emit(event(&ann, "e1")).await?;
    env.wait_until_idle(&ann, MINUTE).await?;
    watch.poll_once().await?;
    accepts(&receiver, 1).await?;
    unsubscribe(&*env.store, "ann").await?;
    watch.poll_once().await?;
    accepts(&receiver, 2).await?;

    let received = receiver.received()?;
    let [sent, unsubscribed] = &received[..] else { anyhow::bail!("{received:?}") };
    let digest = env.store.digests(&ann, 1).await?.pop().context("no digest")?;
    let expected = serde_json::json!({
        "type": "digest.sent",
        "timestamp": digest.closed_at,
        "data": {
            "tenant": "acme", "digest_type": "activity", "user": "ann", "digest_id": digest.digest_id, "outcome": "sent",
        },
    });
    assert_eq!(sent.json(), expected);
    assert_eq!(sent.signature.split(' ').count(), 2, "one signature for each secret");
    assert_eq!((unsubscribed.event(), unsubscribed.user()), ("recipient.unsubscribed".to_owned(), "ann".to_owned()));

    // The receiver has a notice before the workflow has the answer.
    let both = async || {
        let status = workflow(&env.temporal).query(Deliveries::status, (), WorkflowQueryOptions::default()).await?;
        Ok((status.delivered == 2).then_some(status))
    };
    let status = eventually("both deliveries are answered", MINUTE, both).await?;
    assert_eq!((status.failed, status.dead_letters), (0, 0));
    let history = workflow(&env.temporal).fetch_history(WorkflowFetchHistoryOptions::default());
    let history: Vec<u8> = history.into_events().await?.iter().flat_map(Message::encode_to_vec).collect();
    let has = |text: &str| history.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    ensure!(has("crm") && has("delivered"), "the history is not read");
    for text in [SECRET.trim_start_matches("whsec_"), "acme", "notices?of", "127.0.0.1"] {
        ensure!(!has(text), "{text} is in the history");
    }
    let options = WorkflowReplayerOptions::new().register_workflow::<Deliveries>()?.build();
    let replaying = WorkflowReplayer::new(options)?;
    let history = workflow(&env.temporal).fetch_history(WorkflowFetchHistoryOptions::default());
    tokio::time::timeout(MINUTE, replaying.replay_workflow(history)).await.context("the replay hangs")??;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_a_refusal_and_410_ends_deliveries_until_a_replay() -> Result<()> {
    let receiver = NoticeReceiver::start(|n, _| if n == 0 { 307 } else { 410 }).await?;
    let env = Env::without_worker(settings("after 1s", "after 1s")).await?;
    let subscription = receiver.subscription(&[NoticeType::RecipientUnsubscribed])?;
    let _worker = deliver_to(&env.temporal, env.store.clone(), subscription).await?;
    let mut watch = watch(&env);
    unsubscribe(&*env.store, "ann").await?;
    watch.poll_once().await?;
    let met = async || Ok((receiver.received()?.len() == 1).then_some(()));
    eventually("the first delivery is redirected", MINUTE, met).await?;
    unsubscribe(&*env.store, "bo").await?;
    watch.poll_once().await?;
    let gone = async || Ok(env.store.subscriptions(9).await?.into_iter().find(|state| state.gone_at.is_some()));
    let state = eventually("the receiver is gone", MINUTE, gone).await?;
    assert_eq!((state.waiting, state.dead_letters, receiver.received()?.len()), (0, 2, 2));

    unsubscribe(&*env.store, "cy").await?;
    watch.poll_once().await?;
    receiver.says(|_, _| 200);
    let entry = entry("subscription_replay");
    let replayed = env.store.replay_notices("crm", Timestamp::UNIX_EPOCH, ReplayScope::All, &entry);
    assert_eq!(replayed.await?, Some(3));
    watch.poll_once().await?;
    accepts(&receiver, 3).await?;
    let redirected = receiver.received()?.swap_remove(0).id;
    ensure!(receiver.accepted()?.iter().any(|one| one.id == redirected), "a notice keeps its id");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_says_what_the_receiver_answered() -> Result<()> {
    let receiver = NoticeReceiver::start(|n, _| if n == 0 { 200 } else { 403 }).await?;
    let subscription = receiver.subscription(&[NoticeType::DigestSent])?;
    for (result, why) in [(DeliveryResult::Delivered, "200"), (DeliveryResult::Refused, "403")] {
        let NoticeDelivery { result: found, why: said } = subscriptions::test(&subscription, Timestamp::now()).await;
        ensure!(found == result && said.contains(why), "{found}: {said}");
    }
    assert_eq!(receiver.received()?[0].event(), "subscription.test");
    let _gone = receiver.gone();
    let NoticeDelivery { result, why } = subscriptions::test(&subscription, Timestamp::now()).await;
    ensure!(result == DeliveryResult::Unreachable && !why.contains("whsec"), "{result}: {why}");
    Ok(())
}
