//! A recipient who opens nothing gets digests weekly, over weeks of simulated time.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{Timestamp, ToSpan as _};
use mail_parser::MessageParser;
use tidings_harness::{
    env::{key, settings},
    time_skipping::TimeSkipping,
    wait::eventually,
};
use tidings_model::{
    AsBeforeLink, Key,
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind},
    records::{AuditActor, AuditEntry, DigestRecord, Preferences},
    settings::{Settings, TrackingSettings},
};
use tidings_needs::needs;
use tidings_store::prelude::*;

const KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const GATEWAY: &str = "https://mail.acme.example";
const DAILY: &str = "daily 08:00";
const WEEKLY: &str = "weekly mon 08:00";

fn adapting() -> Result<Settings> {
    let mut settings = settings(DAILY, DAILY);
    settings.pages.public_url = Some(GATEWAY.to_owned());
    settings.link_keys = Some(KEYS.parse()?);
    let activity = settings.digests.get_mut("activity").context("no such type")?;
    (activity.adapt, activity.track) = (true, TrackingSettings { opens: true, clicks: false });
    Ok(settings)
}

/// Sends a digest of the key at its next slot.
async fn digest(env: &TimeSkipping, key: &Key, event_id: &str) -> Result<DigestRecord> {
    env.emit(key, event_id).await?;
    env.completed(key).await?;
    env.store.digests(key, 1).await?.pop().context("no digest")
}

async fn opened(env: &TimeSkipping, digest: &DigestRecord, machine: Option<bool>) -> Result<()> {
    let now = env.server.now().await?;
    let report = DeliveryReport { machine, ..DeliveryReport::new(ReportKind::Opened, now) };
    let of = vec![MessageReference::Id(digest.digest_id)];
    let event = CheckedDeliveryEvent { relay: None, reports_for: Vec::new(), tenant: None, of, report, event_id: None };
    env.store.put_delivery_event(&event, 5, now).await?.context("no such message")?;
    Ok(())
}

/// Thirty-five days with a digest a week.
async fn five_weeks(env: &TimeSkipping, keys: &[&Key], from: Timestamp) -> Result<()> {
    for week in 0..5 {
        env.server.sleep_until(from + (week * 7 * 24).hours()).await?;
        for key in keys {
            let sent = digest(env, key, &format!("week {week}")).await?;
            assert_eq!(sent.cadence, DAILY, "{key} in week {week}");
        }
    }
    env.server.sleep_until(from + (35 * 24).hours()).await
}

/// The text of the latest email to the key.
fn text_to(env: &TimeSkipping, key: &Key) -> Result<String> {
    let mails = env.relay.mails();
    let mail = mails.iter().rev().find(|mail| mail.to == [format!("{}@dev.invalid", key.user)]).context("no email")?;
    let bytes = mail.bytes();
    let parsed = MessageParser::default().parse(&bytes).context("no message")?;
    Ok(parsed.body_text(0).context("no text")?.into_owned())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn digests_come_weekly_after_30_unread_days_until_the_next_opening() -> Result<()> {
    let env = TimeSkipping::start(adapting()?).await?;
    let key = key("activity", "ann");
    let first = digest(&env, &key, "first").await?;
    opened(&env, &first, Some(false)).await?;
    five_weeks(&env, &[&key], env.server.now().await?).await?;

    let mut adapted = None;
    // The sixth weekly digest is long after the five that decided.
    for week in 6..12 {
        let digest = digest(&env, &key, &format!("week {week}")).await?;
        assert_eq!(digest.cadence, WEEKLY, "week {week}");
        assert!(
            digest.plan_why.contains("weekly mon 08:00 UTC, as nothing was opened since 20"),
            "{}",
            digest.plan_why
        );
        let link = AsBeforeLink { key: key.clone(), message: digest.digest_id, generation: 0 };
        let url = format!("{GATEWAY}/b/{}", link.token(&KEYS.parse()?).context("no token")?);
        let text = text_to(&env, &key)?.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("so they come once a week now."), "{text}");
        assert!(text.contains(&url), "{text}");
        adapted = Some(digest);
    }
    opened(&env, &adapted.context("no digest")?, Some(false)).await?;
    let digest = digest(&env, &key, "read again").await?;
    assert_eq!(digest.cadence, DAILY);
    assert!(!text_to(&env, &key)?.contains("once a week"), "nothing is told");
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn recipients_without_evidence_or_with_a_choice_keep_the_cadence() -> Result<()> {
    let env = TimeSkipping::start(adapting()?).await?;
    let keys = ["never-counted", "machine", "proxy", "chose"].map(|user| key("activity", user));
    let [_, machine, proxy, chose] = &keys;
    for key in &keys {
        let first = digest(&env, key, "first").await?;
        let who = if key == machine { Some(Some(true)) } else { Some(Some(false)).filter(|_| key != &keys[0]) };
        if let Some(who) = who {
            opened(&env, &first, who).await?;
        }
    }
    let own = Preferences { cadence: Some(DAILY.to_owned()), ..Preferences::default() };
    let at = env.server.now().await?;
    let entry = AuditEntry { at, actor: AuditActor::Recipient, action: "preferences".to_owned(), why: "x".to_owned() };
    env.store.put_preferences(chose, &own, None, &entry).await?;
    five_weeks(&env, &keys.each_ref(), env.server.now().await?).await?;

    // Apple's proxy loads the picture of each message: nothing tells reading from not reading.
    let latest = env.store.digests(proxy, 1).await?.pop().context("no digest")?;
    opened(&env, &latest, None).await?;
    for key in &keys {
        assert_eq!(digest(&env, key, "after five weeks").await?.cadence, DAILY, "{key}");
    }
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn one_click_back_moves_the_open_window_as_any_choice() -> Result<()> {
    let env = TimeSkipping::start(adapting()?).await?;
    let key = key("activity", "ann");
    let first = digest(&env, &key, "first").await?;
    opened(&env, &first, Some(false)).await?;
    five_weeks(&env, &[&key], env.server.now().await?).await?;
    env.emit(&key, "waits").await?;
    let weekly = env.planned(&key).await?;
    assert!(weekly.why.starts_with("weekly mon 08:00 UTC, as nothing was opened"), "{}", weekly.why);

    let now = env.server.now().await?;
    let own = Preferences { cadence: Some(DAILY.to_owned()), ..Preferences::default() };
    let entry =
        AuditEntry { at: now, actor: AuditActor::Recipient, action: "preferences".to_owned(), why: "x".to_owned() };
    env.store.put_preferences(&key, &own, None, &entry).await?;
    tidings_services::choices::signal_key(&env.server.client, &key).await?;
    let daily = eventually("the window is planned again", Duration::from_mins(1), async || {
        let status = env.planned(&key).await?;
        Ok(status.why.starts_with("daily 08:00 UTC").then_some(status))
    })
    .await?;
    assert!(daily.due_at <= weekly.due_at, "{daily} before {weekly}");
    Ok(())
}
