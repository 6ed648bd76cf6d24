//! What providers report after the relay took a mail, as a gateway hands it in: the message's state, the address, consent.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use temporalio_client::WorkflowExecuteUpdateOptions;
use tidings_activities::{
    choices,
    delivery_events::{self, Error},
};
use tidings_harness::{
    outside::Outside,
    relay::{Act, At, Fault},
    stage::{Stage, event, eventually, key, mails, settings},
};
use tidings_model::{
    Key,
    command::Order,
    contract::Outcome,
    delivery_events::{Bounce, DeliveryEvent, Kind, Recorded},
    records::{MessageState, Reason, Recipient},
};
use tidings_needs::needs;
use tidings_store::Store;
use tidings_workflows::Digest;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_secs(60);

fn reported(message: Uuid, kind: Kind) -> DeliveryEvent {
    DeliveryEvent {
        relay: Some("default".to_owned()),
        tenant: None,
        message: Some(message.to_string()),
        message_id: None,
        kind,
        status: None,
        diagnostic: None,
        occurred_at: Timestamp::now(),
        event_id: None,
    }
}

/// What a gateway does with an event.
async fn tell(stage: &Stage, event: DeliveryEvent) -> Result<Recorded> {
    let recorded = delivery_events::record(&*stage.store, &stage.settings, event, Timestamp::now()).await?;
    if let Some(key) = &recorded.withdrawn {
        choices::tell(&stage.temporal, key).await?;
    }
    Ok(recorded)
}

async fn state(stage: &Stage, message: Uuid) -> Result<(MessageState, String)> {
    let record = stage.store.message(message).await?.context("the outbox does not know it")?;
    Ok((record.state, record.why))
}

async fn know(stage: &Stage, users: &[&str]) -> Result<()> {
    let recipients = users.iter().map(|user| Recipient {
        tenant: "acme".to_owned(),
        user: (*user).to_owned(),
        address: format!("{user}@example.net"),
        name: String::new(),
        zone: String::new(),
        locale: String::new(),
    });
    Ok(stage.store.put_recipients(&recipients.collect::<Vec<_>>(), Timestamp::now()).await?)
}

async fn collects(stage: &Stage, key: &Key, event_id: &str) -> Result<()> {
    stage.events.emit(event(key, event_id)).await?;
    let planned = async || Ok(stage.status(key).await?.due_at);
    eventually("it is planned", MINUTE, planned).await.map(|_| ())
}

/// Emits an event, flushes, and answers with the digest's id and outcome.
async fn digest(stage: &Stage, key: &Key, event_id: &str) -> Result<(Uuid, Outcome)> {
    collects(stage, key, event_id).await?;
    let order = Order { by: "carol".to_owned(), why: "ticket 812".to_owned() };
    stage.workflow(key).execute_update(Digest::flush, order, WorkflowExecuteUpdateOptions::default()).await?;
    stage.completed(key).await?;
    let last = stage.store.digests(key, 1).await?.pop().context("no digest")?;
    Ok((last.digest_id, last.closed.context("no end")?.outcome))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reported_hard_bounce_suppresses_only_that_address() -> Result<()> {
    let stage = Stage::start(settings("after 1d", "after 1d")).await?;
    know(&stage, &["ann", "bo"]).await?;
    let (ann, bo) = (key("activity", "ann"), key("activity", "bo"));
    let (to_ann, outcome) = digest(&stage, &ann, "e1").await?;
    assert_eq!(outcome, Outcome::Sent);
    let delivered = reported(to_ann, Kind::Delivered);
    assert!(!tell(&stage, delivered.clone()).await?.again);
    assert!(tell(&stage, delivered).await?.again);
    assert_eq!(state(&stage, to_ann).await?, (MessageState::Delivered, String::new()));

    let (to_bo, _) = digest(&stage, &bo, "e1").await?;
    let bounced = DeliveryEvent {
        status: Some("5.1.1".to_owned()),
        diagnostic: Some("<bo@example.net> no such user".to_owned()),
        ..reported(to_bo, Kind::Bounced(Bounce::Hard))
    };
    tell(&stage, bounced.clone()).await?;
    tell(&stage, bounced).await?;
    let why = "bounced: 5.1.1 <address> no such user".to_owned();
    assert_eq!(state(&stage, to_bo).await?, (MessageState::Failed, why));
    assert_eq!(stage.store.suppressed("acme", "Bo@Example.net").await?, [Reason::HardBounce]);
    let breaker = stage.store.breakers().await?.remove("default").context("nothing was counted")?.breaker;
    assert_eq!(breaker.bounced, 1, "once");

    // One's bounce is no other's.
    stage.events.emit(event(&bo, "e2")).await?;
    stage.completed(&bo).await?;
    let last = stage.store.digests(&bo, 1).await?.pop().and_then(|digest| digest.closed).context("no end")?;
    assert_eq!((last.outcome, last.why.as_str()), (Outcome::Suppressed, "the address is suppressed: hard_bounce"));
    assert_eq!(digest(&stage, &ann, "e2").await?.1, Outcome::Sent);
    assert_eq!(stage.relay.mails().len(), 3);

    let unknown = tell(&stage, reported(Uuid::nil(), Kind::Delivered)).await;
    let refused = unknown.err().and_then(|error| error.downcast::<Error>().ok()).context("not refused")?;
    assert!(matches!(refused, Error::UnknownMessage), "{refused}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn unsubscribing_ends_the_open_window_of_that_digest_type_only() -> Result<()> {
    let stage = Stage::start(settings("after 1d", "after 1d")).await?;
    know(&stage, &["ann"]).await?;
    let (activity, alerts) = (key("activity", "ann"), key("alerts", "ann"));
    let (sent, _) = digest(&stage, &activity, "e1").await?;
    collects(&stage, &activity, "e2").await?;
    collects(&stage, &alerts, "e1").await?;

    let recorded = tell(&stage, reported(sent, Kind::Unsubscribed)).await?;
    assert_eq!(recorded.withdrawn.as_ref(), Some(&activity));
    stage.completed(&activity).await?;
    let closed = stage.store.digests(&activity, 1).await?.pop().and_then(|digest| digest.closed).context("no end")?;
    assert_eq!((closed.outcome, closed.why.as_str()), (Outcome::Skipped, "the recipient opted out"));
    assert!(stage.status(&alerts).await?.due_at.is_some() && !stage.is_idle(&alerts).await?);
    assert_eq!(stage.store.suppressed("acme", "ann@example.net").await?, [], "it is consent, and not the address");
    let audited = "SELECT COUNT(*) FROM audit WHERE action = 'withdraw consent' AND actor = 'recipient'
                   AND digest_type = 'activity' AND why LIKE 'unsubscribed by the relay default from message %'";
    assert_eq!(stage.count(audited).await?, 1);
    assert_eq!(stage.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_lifted_suppression_lets_the_next_digest_through() -> Result<()> {
    let mut outside = Outside::start("instant").await?;
    let ann = key("activity", "ann");
    outside.import(&BTreeSet::from([ann.clone()])).await?;
    outside.start_worker()?;
    let address = "ann@example.test";
    outside.relay.fault(Fault::new(At::Rcpt, Act::Reply("550 5.1.1 no such user".into())).to(address).times(1));
    let emit = ["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"];
    let listed = async || anyhow::Ok(outside.ask(&["suppressions", "list", "--tenant", "acme"]).await?.1);

    outside.run(&emit).await?;
    let suppressed = async || Ok(Some(listed().await?).filter(|said| !said.is_empty()));
    let said = eventually("the address is suppressed", MINUTE, suppressed).await?;
    assert!(said.starts_with("acme  ann@example.test  hard_bounce since "), "{said}");
    assert!(said.ends_with(": rcpt: 550 5.1.1 no such user\n"), "{said}");

    let lift = ["suppressions", "lift", "acme", "ANN@example.test", "--why", "ticket 812"];
    assert_eq!(outside.ask(&lift).await?, (0, "lifted: hard_bounce\n".to_owned()));
    assert_eq!(outside.ask(&lift).await?, (1, "there was nothing to lift\n".to_owned()));
    assert_eq!(listed().await?, "");
    outside.run(&emit).await?;
    mails(&outside.relay, 1, MINUTE).await?;
    assert_eq!(outside.relay.mails()[0].to, [address]);
    Ok(())
}
