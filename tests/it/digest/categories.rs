//! Categories of a digest type in a claim: the message has their sections, and skipped events are in the ledger.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use tidings_activities::digest::{claim, render};
use tidings_harness::{
    env::{activities, key, settings, sqlite},
    steps::{claim_of, recorded_event},
};
use tidings_model::{
    Event,
    records::{AuditActor, AuditEntry, Preferences},
    settings::{CategorySettings, DigestCategories, SectionHeading},
    step::{ClaimAnswer, ClaimInput, RenderAnswer, RenderInput},
    window::{DigestOutcome, Window},
};
use tidings_services::StepServices;
use tidings_store::{SqliteStore, prelude::*};

const RELAY: &str = "smtp://127.0.0.1:1";

/// A digest type with the section "Talk" for comments, and for likes that are two or more and at most an hour old.
fn deps(store: Arc<SqliteStore>) -> Result<StepServices> {
    let mut settings = settings("after 1s", "after 1s");
    let activity = settings.digests.get_mut("activity").context("no digest type")?;
    let talk =
        CategorySettings { section: Some(SectionHeading::new("comment", "Talk")), ..CategorySettings::default() };
    let likes = CategorySettings { min_count: Some(2), max_age: Some(Duration::from_hours(1)), ..talk.clone() };
    activity.category = DigestCategories::from_iter([("comment", talk), ("like", likes)]);
    activities(store, RELAY, settings)
}

fn window(user: &str, now: Timestamp) -> Window {
    let key = key("activity", user);
    Window { digest_id: key.digest_id("run", 1), key, opened_at: now, due_at: now }
}

fn like(event_id: &str, occurred_at: Timestamp) -> Event {
    Event { category: "like".to_owned(), ..recorded_event(event_id, occurred_at) }
}

async fn text_of(store: &SqliteStore, window: &Window) -> Result<String> {
    let bytes = store.message_bytes(&window.key.tenant, window.digest_id).await?.context("no message")?;
    let mail = mail_parser::MessageParser::new().parse(&bytes).context("no mail")?;
    Ok(mail.body_text(0).context("no text")?.replace("\r\n", "\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_leaves_out_old_and_few_events_of_a_category() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let (deps, now) = (deps(store.clone())?, Timestamp::now());
    let window = window("ann", now);
    let events = vec![recorded_event("a", now), like("b", now), like("c", now - SignedDuration::from_hours(2))];
    let answer = claim::run(&deps, &claim_of(&window, events)).await?;
    assert_eq!(answer, ClaimAnswer::Claimed { items: 1, groups: 1, taken: 3, rendered: false });
    let input = RenderInput { asked_at: now, window: window.clone(), stored: false, too_large: None };
    assert_eq!(render::run(&deps, &input).await?, RenderAnswer::Stored);
    let text = text_of(&store, &window).await?;
    assert!(text.contains("== Talk ==") && text.contains("* Event a") && !text.contains("Event b"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_category_that_was_turned_off_under_either_name_is_off_under_both() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let mut settings = settings("after 1s", "after 1s");
    let activity = settings.digests.get_mut("activity").context("no digest type")?;
    activity.former_categories = [("comment".to_owned(), "reply".to_owned())].into();
    let (deps, now) = (activities(store.clone(), RELAY, settings)?, Timestamp::now());
    for (user, off) in [("ann", "comment"), ("bob", "reply")] {
        let window = window(user, now);
        let chosen = Preferences { off: [off.to_owned()].into(), ..Preferences::default() };
        let (actor, action, why) = (AuditActor::Recipient, "preferences".to_owned(), String::new());
        store.put_preferences(&window.key, &chosen, None, &AuditEntry { at: now, actor, action, why }).await?;
        let named = |id: &str, category: &str| Event { category: category.to_owned(), ..recorded_event(id, now) };
        let events = vec![named(&format!("{user}1"), "comment"), named(&format!("{user}2"), "reply")];
        let input = ClaimInput { revision: 1, ..claim_of(&window, events) };
        let answer = claim::run(&deps, &input).await?;
        let ClaimAnswer::Nothing(ending) = answer else { anyhow::bail!("{user} gets what is off: {answer:?}") };
        assert_eq!((ending.closed.outcome, ending.taken), (DigestOutcome::Skipped, 2));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_with_too_few_events_only_ends_as_skipped() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let (deps, now) = (deps(store.clone())?, Timestamp::now());
    let window = window("bob", now);
    let ClaimAnswer::Nothing(ending) = claim::run(&deps, &claim_of(&window, vec![like("a", now)])).await? else {
        anyhow::bail!("the window was claimed")
    };
    assert_eq!((ending.closed.outcome, ending.taken), (DigestOutcome::Skipped, 1));
    assert!(store.message_bytes(&window.key.tenant, window.digest_id).await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_window_has_its_sections_in_the_message_of_the_claim() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let (deps, now) = (deps(store.clone())?, Timestamp::now());
    let window = window("cleo", now);
    let share = Event { category: "share".to_owned(), ..recorded_event("s", now) };
    let events = vec![share, like("a", now), like("b", now)];
    let ClaimAnswer::Claimed { rendered: true, .. } = claim::run(&deps, &claim_of(&window, events)).await? else {
        anyhow::bail!("the claim has no message")
    };
    let text = text_of(&store, &window).await?;
    assert!(text.contains("== Talk ==\n\n* Event a") && text.contains("== Other ==\n\n* Event s"), "{text}");
    Ok(())
}
