//! An id is all that it identifies: an alert that fires, resolves and fires again under one id, and one that went out before.

use std::time::Duration;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use tidings_harness::{
    env::{Env, event, key, order, settings},
    signals::{json_batch, json_events, signal},
    wait::eventually,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_proto::v1;
use tidings_store::prelude::*;
use tidings_workflows::Digest;

const MINUTE: Duration = Duration::from_mins(1);

/// The firing of the alert `fp` this number of seconds after `begin`, as proto3-JSON.
fn firing(key: &Key, begin: Timestamp, seconds: i64) -> Result<String> {
    let occurred_at = Some((begin + SignedDuration::from_secs(seconds)).into());
    Ok(serde_json::to_string(&v1::Event { occurred_at, ..event(key, "fp") })?)
}

async fn mailed(env: &Env, key: &Key, digests: usize) -> Result<()> {
    env.completed(key).await?;
    assert_eq!(env.relay.mails().len(), digests);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_alert_that_fires_again_after_its_retract_is_mailed_and_one_that_went_out_is_refused_by_name() -> Result<()>
{
    let env = Env::start(settings("after 1d", "after 1d")).await?;
    let key = key("alerts", "ann");
    let begin = Timestamp::now();
    let retract = r#"{"eventId": "fp"}"#;
    let refused = async || Ok(env.store.refused_contents(begin).await?);

    signal(&env.temporal, &key, json_events([firing(&key, begin, 0)?.as_str()])).await?;
    env.status_when(&key, "the first firing", |status| status.pending + status.uncompared == 1).await?;
    signal(&env.temporal, &key, json_batch([], [retract])).await?;
    signal(&env.temporal, &key, json_events([firing(&key, begin, 60)?.as_str()])).await?;
    signal(&env.temporal, &key, json_batch([], [retract])).await?;
    signal(&env.temporal, &key, json_events([firing(&key, begin, 120)?.as_str()])).await?;
    env.status_when(&key, "the last firing", |status| status.pending + status.uncompared == 1).await?;
    env.update(&key, Digest::flush, order()).await?;
    mailed(&env, &key, 1).await?;
    assert_eq!(anyhow::Ok(refused().await?)?, 0);

    // The next day, with the id that went out: nothing is mailed, and it shows.
    signal(&env.temporal, &key, json_events([firing(&key, begin, 86_400)?.as_str()])).await?;
    eventually("the refusal is counted", MINUTE, async || {
        let refused: Result<u64> = refused().await;
        Ok((refused? == 1).then_some(()))
    })
    .await?;
    mailed(&env, &key, 1).await?;
    Ok(())
}
