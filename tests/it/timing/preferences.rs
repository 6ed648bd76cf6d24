//! What recipients choose, as the command line and the gateway hand it in, and what holds for all that one person gets.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use tidings_activities::choices;
use tidings_harness::stage::{Stage, event, eventually, key, mails, settings};
use tidings_model::{
    Key,
    command::Order,
    contract::Outcome,
    records::Preferences,
    settings::{Cap, Settings},
};
use tidings_needs::needs;
use tidings_store::Store;
use tidings_workflows::Status;

const MINUTE: Duration = Duration::from_secs(60);

fn order() -> Order {
    Order { by: "carol".to_owned(), why: "ticket 812".to_owned() }
}

async fn status(stage: &Stage, key: &Key, what: &str, wanted: impl Fn(&Status) -> bool) -> Result<Status> {
    let met = async || Ok(Some(stage.status(key).await?).filter(|status| wanted(status)));
    eventually(what, MINUTE, met).await.with_context(|| format!("{what} is never so"))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_choice_retimes_the_open_window_and_withdrawn_consent_skips_it() -> Result<()> {
    let types = settings("after 1d", "after 1d");
    let stage = Stage::start(types.clone()).await?;
    let (ann, bo) = (key("activity", "ann"), key("activity", "bo"));
    for key in [&ann, &bo] {
        stage.events.emit(event(key, "e1")).await?;
        status(&stage, key, "planned", |s| s.due_at.is_some()).await?;
    }
    let instant = Preferences { cadence: Some("instant".to_owned()), ..Preferences::default() };
    choices::choose(&*stage.store, &types, &ann, &instant, &order(), Timestamp::now()).await?;
    choices::tell(&stage.temporal, &ann).await?;
    assert_eq!(stage.completed(&ann).await?.digests, 1);
    mails(&stage.relay, 1, MINUTE).await?;

    choices::consent(&*stage.store, &types, &bo, false, &order(), Timestamp::now()).await?;
    choices::tell(&stage.temporal, &bo).await?;
    stage.completed(&bo).await?;
    let closed = stage.store.digests(&bo, 1).await?.pop().and_then(|digest| digest.closed).context("no digest")?;
    assert_eq!((closed.outcome, closed.why.as_str()), (Outcome::Skipped, "the recipient opted out"));
    assert_eq!(stage.relay.mails().len(), 1);

    // Where nothing runs there is nobody to tell, and that is fine.
    choices::tell(&stage.temporal, &key("activity", "nobody")).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_over_the_cap_waits_and_keeps_collecting() -> Result<()> {
    let cap = Some(Cap { most: 1, within: Duration::from_secs(24 * 3600) });
    let stage = Stage::start(Settings { cap, ..settings("instant", "after 1s") }).await?;
    let (activity, alerts) = (key("activity", "ann"), key("alerts", "ann"));
    stage.events.emit(event(&activity, "e1")).await?;
    stage.completed(&activity).await?;
    stage.events.emit(event(&alerts, "e1")).await?;
    let waiting = status(&stage, &alerts, "it waits", |s| s.why.contains("as many as they get")).await?;
    assert!(waiting.why.starts_with("the recipient had 1 digest in 1d, as many as they get -> "), "{}", waiting.why);
    assert_eq!((waiting.pending, stage.relay.mails().len()), (1, 1));
    // An operator's flush is not refused.
    stage.workflow(&alerts).execute_update(tidings_workflows::Digest::flush, order(), Default::default()).await?;
    stage.completed(&alerts).await?;
    mails(&stage.relay, 2, MINUTE).await
}
