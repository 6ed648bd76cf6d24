//! Pauses of a tenant with its single messages.

use anyhow::{Context, Result};
use jiff::Timestamp;
use tidings_harness::{
    env::{name_without_spread, settings},
    message_env::{MessageEnv, of, order, submission},
};
use tidings_model::{
    pause::{PauseDetails, PauseScope},
    records::{AuditEntry, MessageState},
};
use tidings_needs::needs;
use tidings_services::choices;
use tidings_store::prelude::*;
use tidings_workflows::message::MessageStage;

fn acme() -> PauseScope {
    PauseScope { tenant: Some("acme".to_owned()), digest_type: None }
}

fn paused() -> PauseDetails {
    PauseDetails { by: "ann".to_owned(), why: "wrong prices".to_owned(), since: Timestamp::now(), until: None }
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_waits_for_the_resume_and_survives_a_restart() -> Result<()> {
    let mut messages = MessageEnv::start(settings("after 1s", "after 1s")).await?;
    let name = name_without_spread(|name| of(name).workflow_id());
    let key = of(&name);
    let paused = messages.env.store.pause(&acme(), true, &paused()).await?.paused;
    messages.send(&submission(&name)).await?;
    let status = messages.waits(&key).await?;
    assert_eq!((status.state, status.pause), (MessageStage::Paused, Some(paused)));
    messages.worker.take();
    messages.work()?;
    assert_eq!(messages.waits(&key).await?.state, MessageStage::Paused);
    assert!(messages.classes(&key).await?.is_empty() && messages.env.relay.mails().is_empty());

    let (at, actor, action, why) = (Timestamp::now(), "ann".to_owned(), "resume".to_owned(), "fixed".to_owned());
    messages
        .env
        .store
        .resume(&acme(), &AuditEntry { at, actor: actor.into(), action, why })
        .await?
        .context("was not paused")?;
    choices::signal_workflow(&messages.env.temporal, key.workflow_id()).await?;
    assert_eq!(messages.ended(&key).await?, MessageState::Sent);
    messages.replays(&key).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_digests_lets_messages_go() -> Result<()> {
    let messages = MessageEnv::start(settings("after 1s", "after 1s")).await?;
    messages.env.store.pause(&acme(), false, &paused()).await?;
    messages.env.store.pause(&PauseScope { tenant: Some("zeta".to_owned()), ..acme() }, true, &paused()).await?;
    messages.send(&submission("code")).await?;
    assert_eq!(messages.ended(&of("code")).await?, MessageState::Sent);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_message_can_be_cancelled() -> Result<()> {
    let messages = MessageEnv::start(settings("after 1s", "after 1s")).await?;
    messages.env.store.pause(&PauseScope::default(), true, &paused()).await?;
    messages.send(&submission("code")).await?;
    messages.waits(&of("code")).await?;
    messages.tell(&of("code")).cancel(order()).await?;
    assert_eq!(messages.ended(&of("code")).await?, MessageState::Cancelled);
    assert!(messages.env.relay.mails().is_empty());
    Ok(())
}
