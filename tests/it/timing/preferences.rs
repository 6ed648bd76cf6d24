//! Preferences of recipients, as the command line stores them, and the cap over all digests of a person.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use tidings_activities::choices;
use tidings_harness::{
    env::{Env, event, key, order, settings},
    wait::wait_for_emails,
};
use tidings_model::{
    records::Preferences,
    settings::{Cap, Settings},
    step::Outcome,
};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tidings_workflows::Digest;

const MINUTE: Duration = Duration::from_mins(1);

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_choice_retimes_the_open_window_and_withdrawn_consent_skips_it() -> Result<()> {
    let types = settings("after 1d", "after 1d");
    let env = Env::start(types.clone()).await?;
    let (ann, bo) = (key("activity", "ann"), key("activity", "bo"));
    for key in [&ann, &bo] {
        env.events.emit(event(key, "e1")).await?;
        env.status_when(key, "planned", |s| s.due_at.is_some()).await?;
    }
    let instant = Preferences { cadence: Some("instant".to_owned()), ..Preferences::default() };
    choices::choose(&*env.store, &types, &ann, &instant, &order(), Timestamp::now()).await?;
    choices::tell(&env.temporal, &ann).await?;
    assert_eq!(env.completed(&ann).await?.digests, 1);
    wait_for_emails(&env.relay, 1, MINUTE).await?;

    choices::consent(&*env.store, &types, &bo, false, &order(), Timestamp::now()).await?;
    choices::tell(&env.temporal, &bo).await?;
    env.completed(&bo).await?;
    let closed = env.store.digests(&bo, 1).await?.pop().and_then(|digest| digest.closed).context("no digest")?;
    assert_eq!((closed.outcome, closed.why.as_str()), (Outcome::Skipped, "the recipient opted out"));
    assert_eq!(env.relay.mails().len(), 1);

    // Without an open run there is no workflow to signal, which is not an error.
    choices::tell(&env.temporal, &key("activity", "nobody")).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_over_the_cap_waits_and_keeps_collecting() -> Result<()> {
    let cap = Some(Cap { most: 1, within: Duration::from_hours(24) });
    let env = Env::start(Settings { cap, ..settings("instant", "after 1s") }).await?;
    let (activity, alerts) = (key("activity", "ann"), key("alerts", "ann"));
    env.events.emit(event(&activity, "e1")).await?;
    env.completed(&activity).await?;
    env.events.emit(event(&alerts, "e1")).await?;
    let waiting = env.status_when(&alerts, "it waits", |s| s.why.starts_with("the recipient had")).await?;
    assert!(waiting.why.starts_with("the recipient had 1 digest in 1d, as many as they get -> "), "{}", waiting.why);
    assert_eq!((waiting.pending, env.relay.mails().len()), (1, 1));
    // An operator's flush is not refused.
    env.update(&alerts, Digest::flush, order()).await?;
    env.completed(&alerts).await?;
    wait_for_emails(&env.relay, 2, MINUTE).await
}
