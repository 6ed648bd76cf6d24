//! Reports of providers after a relay took an email: the message's state, the address and consent.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use tidings_harness::{
    cli_env::CliEnv,
    env::{Env, event, key, order, settings},
    relay::{Act, At, Fault},
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key,
    delivery_events::{BounceKind, DeliveryEvent, EventEffect, ReportKind},
    records::{MessageState, Recipient, SuppressionReason},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_services::{
    choices,
    delivery_events::{self, DeliveryEventError},
};
use tidings_store::prelude::*;
use tidings_workflows::Digest;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_mins(1);

fn reported(message: Uuid, kind: ReportKind) -> DeliveryEvent {
    DeliveryEvent {
        relay: Some("default".to_owned()),
        message: Some(message.to_string()),
        ..DeliveryEvent::new(kind, Timestamp::now())
    }
}

/// Records a provider's report and signals the digest whose consent it withdraws.
async fn tell(env: &Env, event: DeliveryEvent) -> Result<EventEffect> {
    let recorded = delivery_events::record_event(&*env.store, &env.settings, event, Timestamp::now()).await?;
    if let Some(key) = &recorded.withdrawn {
        choices::signal_key(&env.temporal, key).await?;
    }
    Ok(recorded)
}

pub(super) async fn state(env: &Env, message: Uuid) -> Result<(MessageState, String)> {
    let record = env.store.message(message).await?.context("the outbox does not know it")?;
    Ok((record.state, record.why))
}

pub(super) async fn know(env: &Env, users: &[&str]) -> Result<()> {
    let recipients = users.iter().map(|user| Recipient {
        tenant: "acme".to_owned(),
        user: (*user).to_owned(),
        address: format!("{user}@example.net"),
        name: String::new(),
        zone: String::new(),
        locale: String::new(),
    });
    env.store.put_recipients(&recipients.collect::<Vec<_>>(), Timestamp::now()).await?;
    Ok(())
}

pub(super) async fn collects(env: &Env, key: &Key, event_id: &str) -> Result<()> {
    env.events.emit(event(key, event_id)).await?;
    let planned = async || Ok(env.status(key).await?.due_at);
    eventually("it is planned", MINUTE, planned).await.map(|_| ())
}

/// Emits an event, flushes, and answers with the digest's id and outcome.
pub(super) async fn digest(env: &Env, key: &Key, event_id: &str) -> Result<(Uuid, DigestOutcome)> {
    collects(env, key, event_id).await?;
    env.update(key, Digest::flush, order()).await?;
    env.completed(key).await?;
    let last = env.store.digests(key, 1).await?.pop().context("no digest")?;
    Ok((last.digest_id, last.closed.context("no end")?.outcome))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reported_hard_bounce_suppresses_only_that_address() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    know(&env, &["ann", "bo"]).await?;
    let (ann, bo) = (key("activity", "ann"), key("activity", "bo"));
    let (to_ann, outcome) = digest(&env, &ann, "e1").await?;
    assert_eq!(outcome, DigestOutcome::Sent);
    let delivered = reported(to_ann, ReportKind::Delivered);
    assert!(!tell(&env, delivered.clone()).await?.again);
    assert!(tell(&env, delivered).await?.again);
    assert_eq!(state(&env, to_ann).await?, (MessageState::Delivered, String::new()));

    let (to_bo, _) = digest(&env, &bo, "e1").await?;
    let bounced = DeliveryEvent {
        status: Some("5.1.1".to_owned()),
        diagnostic: Some("<bo@example.net> no such user".to_owned()),
        ..reported(to_bo, ReportKind::Bounced(BounceKind::Hard))
    };
    tell(&env, bounced.clone()).await?;
    tell(&env, bounced).await?;
    let why = "bounced: 5.1.1 <address> no such user".to_owned();
    assert_eq!(state(&env, to_bo).await?, (MessageState::Failed, why));
    assert_eq!(env.store.suppression_reasons("acme", "Bo@Example.net").await?, [SuppressionReason::HardBounce]);
    let breaker = env.store.breakers().await?.remove("default").context("nothing was counted")?.breaker;
    assert_eq!(breaker.bounced, 1, "once");

    // One's bounce is no other's.
    env.events.emit(event(&bo, "e2")).await?;
    env.completed(&bo).await?;
    let last = env.store.digests(&bo, 1).await?.pop().and_then(|digest| digest.closed).context("no end")?;
    assert_eq!(
        (last.outcome, last.why.as_str()),
        (DigestOutcome::Suppressed, "the address is suppressed: hard_bounce")
    );
    assert_eq!(digest(&env, &ann, "e2").await?.1, DigestOutcome::Sent);
    assert_eq!(env.relay.mails().len(), 3);

    let unknown = tell(&env, reported(Uuid::nil(), ReportKind::Delivered)).await;
    let refused = unknown.err().and_then(|error| error.downcast::<DeliveryEventError>().ok()).context("not refused")?;
    assert!(matches!(refused, DeliveryEventError::UnknownMessage), "{refused}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn unsubscribing_ends_the_open_window_of_that_digest_type_only() -> Result<()> {
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    know(&env, &["ann"]).await?;
    let (activity, alerts) = (key("activity", "ann"), key("alerts", "ann"));
    let (sent, _) = digest(&env, &activity, "e1").await?;
    collects(&env, &activity, "e2").await?;
    collects(&env, &alerts, "e1").await?;

    let recorded = tell(&env, reported(sent, ReportKind::Unsubscribed)).await?;
    assert_eq!(recorded.withdrawn.as_ref(), Some(&activity));
    env.completed(&activity).await?;
    let closed = env.store.digests(&activity, 1).await?.pop().and_then(|digest| digest.closed).context("no end")?;
    assert_eq!((closed.outcome, closed.why.as_str()), (DigestOutcome::Skipped, "the recipient opted out"));
    assert!(env.status(&alerts).await?.due_at.is_some() && !env.is_idle(&alerts).await?);
    assert_eq!(
        env.store.suppression_reasons("acme", "ann@example.net").await?,
        [],
        "it is consent, and not the address"
    );
    let audited = "SELECT COUNT(*) FROM audit WHERE action = 'withdraw consent' AND actor = 'recipient'
                   AND digest_type = 'activity' AND why LIKE 'unsubscribed by the relay default from message %'";
    assert_eq!(env.count(audited).await?, 1);
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_lifted_suppression_lets_the_next_digest_through() -> Result<()> {
    let mut cli = CliEnv::start("instant").await?;
    let ann = key("activity", "ann");
    cli.import(&BTreeSet::from([ann.clone()])).await?;
    cli.start_worker()?;
    let address = "ann@example.test";
    cli.relay.fault(Fault::new(At::Rcpt, Act::Reply("550 5.1.1 no such user".into())).to(address).times(1));
    let emit = ["emit", "--tenant", "acme", "--user", "ann", "--digest", "activity", "--category", "comment"];
    let listed = async || anyhow::Ok(cli.ask(&["suppressions", "list", "--tenant", "acme"]).await?.1);

    cli.run(&emit).await?;
    let suppressed = async || Ok(Some(listed().await?).filter(|said| !said.is_empty()));
    let said = eventually("the address is suppressed", MINUTE, suppressed).await?;
    assert!(said.starts_with("acme  ann@example.test  hard_bounce since "), "{said}");
    assert!(said.ends_with(": rcpt: 550 5.1.1 no such user\n"), "{said}");

    let lift = ["suppressions", "lift", "acme", "ANN@example.test", "--why", "ticket 812"];
    assert_eq!(cli.ask(&lift).await?, (0, "lifted: hard_bounce\n".to_owned()));
    assert_eq!(cli.ask(&lift).await?, (1, "there was nothing to lift\n".to_owned()));
    assert_eq!(listed().await?, "");
    cli.run(&emit).await?;
    wait_for_emails(&cli.relay, 1, MINUTE).await?;
    assert_eq!(cli.relay.mails()[0].to, [address]);
    Ok(())
}
