//! Waits of days in simulated time: quiet hours, `max_events`, and recipients whom the directory does not know.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp, ToSpan as _, civil::time, tz::TimeZone};
use tidings_harness::{
    env::{key, settings},
    relay::{Act, At, Fault},
    time_skipping::TimeSkipping,
};
use tidings_model::{
    QuietHours,
    records::Recipient,
    settings::{Settings, UnknownRecipients},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_store::prelude::*;

const UNDELIVERED: &str = "SELECT COUNT(*) FROM digests WHERE claimed_at IS NOT NULL AND closed_at IS NULL";

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn quiet_hours_move_an_email_to_their_end_plus_the_spread() -> Result<()> {
    let mut settings = settings("after 1h", "instant");
    let activity = settings.digests.get_mut("activity").context("no such type")?;
    activity.zone = Some("Europe/Berlin".to_owned());
    activity.spread = Some(Duration::from_mins(10));
    activity.quiet = QuietHours::new(vec!["22:00-07:00".parse().map_err(anyhow::Error::msg)?])?;
    let env = TimeSkipping::start(settings).await?;
    let key = key("activity", "ann");
    let zone = TimeZone::get("Europe/Berlin")?;
    let evening = env.server.now().await?.to_zoned(zone).tomorrow()?.with().time(time(21, 30, 0, 0)).build()?;
    let end = evening.tomorrow()?.with().time(time(7, 0, 0, 0)).build()?.timestamp();

    env.server.sleep_until(evening.timestamp()).await?;
    env.emit(&key, "e1").await?;
    env.server.sleep_until(end).await?;
    assert!(env.relay.mails().is_empty(), "an email in quiet hours");
    env.completed(&key).await?;
    let digest = env.store.digests(&key, 1).await?.pop().context("no digest")?;
    assert_eq!(digest.closed.map(|closed| closed.outcome), Some(DigestOutcome::Sent));
    let late = digest.closed_at.context("never closed")?.duration_since(end);
    assert!(!late.is_negative() && late < SignedDuration::from_mins(11), "{late:#} after the quiet hours");
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_and_the_end_of_undo_wait_for_the_end_of_quiet_hours() -> Result<()> {
    let mut settings = settings("after 1h", "after 1h");
    for digest in settings.digests.values_mut() {
        digest.quiet = QuietHours::new(vec!["22:00-07:00".parse().map_err(anyhow::Error::msg)?])?;
    }
    settings.digests.get_mut("alerts").context("no such type")?.undo = Some(Duration::from_mins(45));
    let env = TimeSkipping::start(settings).await?;
    let evening =
        env.server.now().await?.to_zoned(TimeZone::UTC).tomorrow()?.with().time(time(20, 30, 0, 0)).build()?;
    let end = evening.tomorrow()?.with().time(time(7, 0, 0, 0)).build()?.timestamp();
    let (retried, undoable) = (key("activity", "ann"), key("alerts", "bo"));
    // The attempts of 21:30, 21:31 and 21:36 fail. The next one would be at 22:06, and the end of the wait for a drop at 22:15.
    let later = Act::Reply("451 4.3.0 later".into());
    env.relay.fault(Fault::new(At::Rcpt, later).to(&Recipient::for_development(&retried).address).times(3));
    env.server.sleep_until(evening.timestamp()).await?;
    for key in [&retried, &undoable] {
        env.emit(key, "e1").await?;
    }
    env.server.sleep_until(end - 1.minute()).await?;
    assert!(env.relay.mails().is_empty(), "an email in quiet hours");
    for key in [&retried, &undoable] {
        env.completed(key).await?;
        let digest = env.store.digests(key, 1).await?.pop().context("no digest")?;
        let late = digest.closed_at.context("never closed")?.duration_since(end);
        assert!(!late.is_negative() && late < SignedDuration::from_mins(1), "{key}: {late:#} after the quiet hours");
    }
    assert_eq!(env.relay.mails().len(), 2);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn repeated_events_never_fill_a_window_and_the_last_new_event_does() -> Result<()> {
    let mut settings = settings("after 6h", "instant");
    settings.digests.get_mut("activity").context("no such type")?.max_events = Some(3);
    let env = TimeSkipping::start(settings).await?;
    let key = key("activity", "ann");
    for event_id in ["a", "b"] {
        env.emit(&key, event_id).await?;
    }
    env.completed(&key).await?;

    env.emit(&key, "c").await?;
    for event_id in ["a", "b", "a", "c", "b"] {
        env.emit(&key, event_id).await?;
    }
    env.server.sleep(Duration::from_hours(1)).await?;
    let status = env.planned(&key).await?;
    // The last repetition may have come after the others were compared. It is too little to fill the window.
    assert!(status.pending == 1 && status.uncompared < 2, "{status}");
    assert!(status.to_string().contains("1 event pending"), "{status}");
    for event_id in ["d", "a", "b"] {
        env.emit(&key, event_id).await?;
        env.server.sleep(Duration::from_hours(1)).await?;
    }
    assert_eq!((env.planned(&key).await?.pending, env.relay.mails().len()), (2, 1));
    let full_at = env.server.now().await?;
    env.emit(&key, "e").await?;
    env.completed(&key).await?;

    let digests = env.store.digests(&key, 10).await?;
    assert_eq!(digests.iter().map(|digest| digest.items).collect::<Vec<_>>(), [3, 2]);
    let late = digests[0].closed_at.context("never closed")?.duration_since(full_at);
    assert!(!late.is_negative() && late < SignedDuration::from_mins(1), "{late:#} after the third new event");
    Ok(())
}

/// An unknown recipient's window that is due at once.
async fn unknown() -> Result<(TimeSkipping, Timestamp)> {
    let env =
        TimeSkipping::start(Settings { unknown_recipients: UnknownRecipients::Wait, ..settings("instant", "instant") })
            .await?;
    env.emit(&key("activity", "ann"), "e1").await?;
    let begins = env.server.now().await?;
    Ok((env, begins))
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_imported_after_days_gets_the_email_within_an_hour() -> Result<()> {
    let (env, begins) = unknown().await?;
    let key = key("activity", "ann");
    env.server.sleep_until(begins + (3 * 24).hours()).await?;
    assert!(env.relay.mails().is_empty() && env.count(UNDELIVERED).await? == 0);
    let imported_at = env.server.now().await?;
    env.store.put_recipients(&[Recipient::for_development(&key)], imported_at).await?;
    env.completed(&key).await?;
    let digest = env.store.digests(&key, 1).await?.pop().context("no digest")?;
    let late = digest.closed_at.context("never closed")?.duration_since(imported_at);
    assert!(late <= SignedDuration::from_mins(61), "{late:#} after the import");
    assert_eq!(env.relay.mails().len(), 1);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_unknown_for_seven_days_is_given_up() -> Result<()> {
    let (env, begins) = unknown().await?;
    let key = key("activity", "ann");
    env.server.sleep_until(begins + (7 * 24 - 1).hours()).await?;
    let closed = "SELECT COUNT(*) FROM digests WHERE closed_at IS NOT NULL";
    assert_eq!(env.count(closed).await?, 0, "given up before seven days");
    env.completed(&key).await?;
    let digest = env.store.digests(&key, 1).await?.pop().context("no digest")?;
    assert_eq!(digest.closed.map(|closed| closed.outcome), Some(DigestOutcome::Unknown));
    let waited = digest.closed_at.context("never closed")?.duration_since(begins);
    assert!(waited <= SignedDuration::from_hours(7 * 24 + 1), "{waited:#}");
    assert!(env.relay.mails().is_empty());
    Ok(())
}
