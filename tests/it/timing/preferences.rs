//! Preferences of recipients, as the command line stores them, and the cap over all digests of a person.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use tidings_harness::{
    env::{Env, event, key, order, settings},
    time_skipping::TimeSkipping,
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key,
    records::Preferences,
    settings::{DigestCap, Settings},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_services::choices;
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
    choices::update_preferences(&*env.store, &types, &ann, |_| instant.clone(), None, &order(), Timestamp::now())
        .await?;
    choices::signal_key(&env.temporal, &ann).await?;
    assert_eq!(env.completed(&ann).await?.digests, 1);
    wait_for_emails(&env.relay, 1, MINUTE).await?;

    choices::set_consent(&*env.store, &types, &bo, false, &order(), Timestamp::now()).await?;
    choices::signal_key(&env.temporal, &bo).await?;
    env.completed(&bo).await?;
    let closed = env.store.digests(&bo, 1).await?.pop().and_then(|digest| digest.closed).context("no digest")?;
    assert_eq!((closed.outcome, closed.why.as_str()), (DigestOutcome::Skipped, "the recipient opted out"));
    assert_eq!(env.relay.mails().len(), 1);

    // Without an open run there is no workflow to signal, which is not an error.
    choices::signal_key(&env.temporal, &key("activity", "nobody")).await?;
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_over_the_cap_waits_and_keeps_collecting() -> Result<()> {
    let cap = Some(DigestCap { most: 1, within: Duration::from_hours(23) });
    let env = Env::start(Settings { cap, ..settings("instant", "after 1s") }).await?;
    let (activity, alerts) = (key("activity", "ann"), key("alerts", "ann"));
    env.events.emit(event(&activity, "e1")).await?;
    env.completed(&activity).await?;
    env.events.emit(event(&alerts, "e1")).await?;
    let waiting = env.status_when(&alerts, "it waits", |s| s.why.starts_with("the recipient had")).await?;
    assert!(waiting.why.starts_with("the recipient had 1 digest in 23h, as many as they get -> "), "{}", waiting.why);
    assert_eq!((waiting.pending, env.relay.mails().len()), (1, 1));
    // An operator's flush is not refused.
    env.update(&alerts, Digest::flush, order()).await?;
    env.completed(&alerts).await?;
    wait_for_emails(&env.relay, 2, MINUTE).await
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_from_daily_to_weekly_makes_one_weekly_email_and_within_grace_it_holds_for_the_next() -> Result<()> {
    let types = settings("daily 08:00", "instant");
    let env = TimeSkipping::start(types.clone()).await?;
    let (early, late) = (key("activity", "early"), key("activity", "late"));
    let opened_at = env.server.now().await?;
    for key in [&early, &late] {
        env.emit(key, "e1").await?;
        env.planned(key).await?;
    }
    let daily = env.planned(&early).await?.due_at.context("not planned")?;
    let weekly = daily + 72.hours();
    let weekday = weekly.to_zoned(TimeZone::UTC).strftime("%a").to_string().to_lowercase();
    let chosen = Preferences { cadence: Some(format!("weekly {weekday} 08:00")), ..Preferences::default() };
    let choose = async |key: &Key| {
        choices::update_preferences(
            &*env.store,
            &types,
            key,
            |_| chosen.clone(),
            None,
            &order(),
            env.server.now().await?,
        )
        .await?;
        anyhow::Ok(choices::signal_key(&env.server.client, key).await?)
    };
    let is_weekly = |status: &tidings_workflows::DigestStatus| status.due_at == Some(weekly);
    choose(&early).await?;
    env.status_when(&early, "the open window is weekly", is_weekly).await?;
    env.emit(&early, "e2").await?;

    // A quarter of the window is within grace, whatever time it is now.
    let left = Duration::try_from(daily.duration_since(opened_at))?;
    env.server.sleep_until(daily - (left / 4).min(Duration::from_mins(10))).await?;
    choose(&late).await?;
    // Until then and no further: the other key's window must stay open.
    env.server.sleep_until(daily + 1.minute()).await?;
    let sent = async || {
        let digests = env.store.digests(&late, 1).await?;
        Ok(digests.iter().any(|digest| digest.sent_at.is_some()).then_some(()))
    };
    eventually("the daily digest is sent", MINUTE, sent).await?;
    env.emit(&late, "e2").await?;
    env.status_when(&late, "the next window is weekly", is_weekly).await?;
    for key in [&early, &late] {
        env.completed(key).await?;
    }
    let mut sent = Vec::new();
    for key in [&early, &late] {
        let digests = env.store.digests(key, 10).await?;
        sent.push(digests.iter().map(|digest| (digest.due_at, digest.items)).collect::<Vec<_>>());
    }
    assert_eq!(sent, [vec![(weekly, 2)], vec![(weekly, 1), (daily, 1)]]);
    assert_eq!(env.relay.mails().len(), 3);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_move_of_zones_makes_no_week_without_a_digest_and_none_with_two() -> Result<()> {
    let types = settings("daily 08:00", "instant");
    let env = TimeSkipping::start(types.clone()).await?;
    let key = key("activity", "ann");
    let weekly = (env.server.now().await?.to_zoned(TimeZone::UTC) + 2.days()).date();
    let cadence = format!("weekly {} 08:00", weekly.strftime("%a").to_string().to_lowercase());
    let lives_in = async |zone: &str| {
        let (cadence, zone) = (Some(cadence.clone()), Some(zone.to_owned()));
        let chosen = Preferences { cadence, zone, ..Preferences::default() };
        choices::update_preferences(
            &*env.store,
            &types,
            &key,
            |_| chosen.clone(),
            None,
            &order(),
            env.server.now().await?,
        )
        .await?;
        anyhow::Ok(choices::signal_key(&env.server.client, &key).await?)
    };
    let slot = weekly.at(8, 0, 0, 0).to_zoned(TimeZone::UTC)?.timestamp();
    // Until then and no further, so that the next window opens in this week.
    let sent_at = async |due_at: Timestamp, count: usize| {
        env.server.sleep_until(due_at + 1.minute()).await?;
        let sent = async || {
            let digests = env.store.digests(&key, 10).await?;
            Ok((digests.iter().filter(|digest| digest.sent_at.is_some()).count() == count).then_some(()))
        };
        eventually("the digest is sent", MINUTE, sent).await
    };

    lives_in("Etc/UTC").await?;
    env.emit(&key, "e1").await?;
    assert_eq!(env.planned(&key).await?.due_at, Some(slot));
    // An hour east it is half past eight already.
    env.server.sleep_until(slot - 30.minutes()).await?;
    lives_in("Etc/GMT-1").await?;
    let kept = env.status_when(&key, "the deadline stands", |status| status.then.is_some()).await?;
    assert_eq!(kept.due_at, Some(slot), "{}", kept.why);
    sent_at(slot, 1).await?;

    // Nine hours west of the first zone, eight o'clock of the same day is still to come.
    lives_in("Etc/GMT+9").await?;
    env.emit(&key, "e2").await?;
    let next = env.planned(&key).await?;
    let next_slot = slot + (7 * 24 + 9).hours();
    assert_eq!(next.due_at, Some(next_slot), "{}", next.why);
    sent_at(next_slot, 2).await?;
    let mut digests = env.store.digests(&key, 10).await?;
    digests.reverse();
    assert_eq!(digests.iter().map(|digest| Some(digest.due_at)).collect::<Vec<_>>(), [kept.due_at, next.due_at]);
    assert_eq!(env.relay.mails().len(), 2);
    Ok(())
}
