//! Receivers that fail now and then, for a simulated day, and for longer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use temporalio_client::{WorkflowGetResultOptions, tonic::IntoRequest};
use temporalio_common::protos::temporal::api::testservice::v1::{LockTimeSkippingRequest, UnlockTimeSkippingRequest};
use tidings_harness::{
    env::{key, sqlite},
    notice_receiver::{NoticeReceiver, deliver_to},
    time_skipping::TimeSkippingServer,
    worker::Running,
};
use tidings_model::{
    names,
    records::AuditEntry,
    subscription::{NoticeType, ReplayScope},
};
use tidings_needs::needs;
use tidings_operations::subscriptions::wake_subscription;
use tidings_store::{SqliteStore, prelude::*};

use super::delivery::{entry, unsubscribe, workflow};

const HOUR: Duration = Duration::from_hours(1);

struct Day {
    server: TimeSkippingServer,
    store: Arc<SqliteStore>,
    _worker: Running,
    _folder: tempfile::TempDir,
}

impl Day {
    async fn start(receiver: &NoticeReceiver) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (store, server) = (sqlite(folder.path()).await?, TimeSkippingServer::start().await?);
        let types = [NoticeType::RecipientUnsubscribed, NoticeType::RecipientResubscribed];
        let worker = deliver_to(&server.client, store.clone(), receiver.subscription(&types)?).await?;
        Ok(Self { server, store, _worker: worker, _folder: folder })
    }

    async fn signal(&self) -> Result<()> {
        Ok(wake_subscription(&self.server.client, names::TASK_QUEUE, "crm").await?)
    }

    /// Lets time pass until the workflow of the subscription completes.
    async fn completed(&self) -> Result<()> {
        let service = || self.server.client.connection().test_service();
        service().unlock_time_skipping(UnlockTimeSkippingRequest {}.into_request()).await?;
        let handle = workflow(&self.server.client);
        let result = handle.get_result(WorkflowGetResultOptions::default());
        tokio::time::timeout(Duration::from_mins(2), result).await.context("it did not complete")??;
        service().lock_time_skipping(LockTimeSkippingRequest {}.into_request()).await?;
        Ok(())
    }
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn notices_of_a_key_stay_in_order_when_some_deliveries_fail() -> Result<()> {
    // 500 of one notice, 503 of another, and silence of the connection never happen in the same order for two keys.
    let receiver = NoticeReceiver::start(|n, _| [200, 500, 200, 503, 404, 200, 500][n % 7]).await?;
    let day = Day::start(&receiver).await?;
    let users: Vec<_> = (0..12).map(|n| format!("user-{n}")).collect();
    for round in 0..6 {
        for user in &users {
            let wanted = round % 2 == 1;
            day.store.put_consent(&key("activity", user), wanted, &entry("consent")).await?;
        }
    }
    day.signal().await?;
    day.completed().await?;
    let mut by_user: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in receiver.accepted()? {
        by_user.entry(one.user()).or_default().push(one.event());
    }
    assert_eq!(by_user.len(), users.len());
    for (user, events) in by_user {
        let expected = ["recipient.unsubscribed", "recipient.resubscribed"].repeat(3);
        assert_eq!(events, expected, "{user}");
    }
    ensure!(receiver.received()?.len() > 72, "nothing failed");
    assert_eq!(day.store.subscriptions(9).await?[0].dead_letters, 0);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_away_for_most_of_a_day_gets_everything() -> Result<()> {
    let receiver = NoticeReceiver::start(|_, _| 503).await?;
    let day = Day::start(&receiver).await?;
    for user in ["ann", "bo", "cy"] {
        unsubscribe(&*day.store, user).await?;
    }
    day.signal().await?;
    day.server.sleep(20 * HOUR).await?;
    let asked = receiver.received()?.len();
    ensure!((100..400).contains(&asked), "{asked} requests in 20 hours");
    unsubscribe(&*day.store, "di").await?;
    receiver.says(|_, _| 200);
    day.completed().await?;
    let users: Vec<_> = receiver.accepted()?.into_iter().map(|one| one.user()).collect();
    assert_eq!(users.len(), 4);
    let state = day.store.subscriptions(9).await?.remove(0);
    assert_eq!((state.waiting, state.dead_letters), (0, 0));
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_of_24_hours_is_a_dead_letter_until_a_replay() -> Result<()> {
    let receiver = NoticeReceiver::start(|_, body| if body["data"]["user"] == "ann" { 500 } else { 200 }).await?;
    let day = Day::start(&receiver).await?;
    for user in ["ann", "bo"] {
        unsubscribe(&*day.store, user).await?;
    }
    day.signal().await?;
    day.completed().await?;
    let of_ann = receiver.received()?.into_iter().filter(|one| one.user() == "ann").count();
    ensure!((25..40).contains(&of_ann), "{of_ann} tries in 24 hours");
    let state = day.store.subscriptions(9).await?.remove(0);
    assert_eq!((state.waiting, state.dead_letters), (0, 1));

    receiver.says(|_, _| 200);
    let entry = AuditEntry { at: day.server.now().await? + HOUR, ..entry("subscription_replay") };
    let replay = day.store.replay_notices("crm", Timestamp::UNIX_EPOCH, ReplayScope::DeadLetters, &entry);
    assert_eq!(replay.await?, Some(1));
    day.signal().await?;
    day.completed().await?;
    let users: Vec<_> = receiver.accepted()?.into_iter().map(|one| one.user()).collect();
    assert_eq!(users, ["bo", "ann"]);
    assert_eq!(day.store.subscriptions(9).await?[0].dead_letters, 0);
    Ok(())
}
