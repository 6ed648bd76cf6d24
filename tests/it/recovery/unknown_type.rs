//! What a door should have refused and no step can carry out: a digest type that no table has, and an address that no email can have
//! (rule 33). Both wait visibly, are tried again up to an hour apart, and end after seven days as `unknown` with the reason.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use tidings_activities::digest::{claim, render};
use tidings_harness::{
    env::{Env, activities, event, key, order, settings, sqlite},
    retention::worker_profile,
    steps::{claim_of, recorded_event},
    wait::wait_for_emails,
};
use tidings_model::{
    Key, names,
    process::{ProcessRecord, digest_section},
    records::Recipient,
    settings::{Settings, UnknownRecipients},
    step::{ClaimAnswer, ClaimInput, CloseAnswer, RenderAnswer, RenderInput},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_needs::needs;
use tidings_services::{StepError, StepServices};
use tidings_store::{SqliteStore, prelude::*};
use tidings_workflows::{Digest, DigestStage};

const RELAY: &str = "smtp://127.0.0.1:1";
const MINUTE: Duration = Duration::from_mins(1);

/// The settings after `[digest.activity]` was removed.
fn removed() -> Settings {
    let mut settings = settings("after 1s", "after 1s");
    settings.digests.remove("activity");
    settings
}

fn deps(store: &Arc<SqliteStore>, settings: Settings) -> Result<StepServices> {
    activities(store.clone(), RELAY, settings)
}

/// A window that was due this long ago.
fn due_for(key: Key, days: i64) -> Window {
    let due_at = Timestamp::now() - SignedDuration::from_hours(24 * days);
    Window { digest_id: key.digest_id("run", 0), key, opened_at: due_at, due_at }
}

async fn claimed(deps: &StepServices, window: &Window) -> Result<ClaimAnswer> {
    let input = claim_of(window, vec![recorded_event("e1", Timestamp::now())]);
    Ok(claim::run(deps, &ClaimInput { unknown_since: Some(window.due_at), ..input }).await?)
}

fn ended(answer: ClaimAnswer) -> Result<WindowEnd> {
    match answer {
        ClaimAnswer::Nothing(CloseAnswer { closed, .. }) => Ok(closed),
        other => anyhow::bail!("{other:?}"),
    }
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_type_without_a_table_waits_visibly_and_goes_out_when_the_table_is_there() -> Result<()> {
    let mut env = Env::without_worker(removed()).await?;
    env.start_worker()?;
    let ann = key("activity", "ann");
    env.events.emit(event(&ann, "e1")).await?;
    let waits = |why: &str| why.contains("[digest.activity]");
    let status = env.status_when(&ann, "it says what is missing", |status| waits(&status.why)).await?;
    assert_eq!((status.state, status.pending), (DigestStage::Collecting, 1));
    assert_eq!(status.trouble, None, "no activity fails for it");

    env.stop_worker()?;
    env.settings = settings("after 1s", "after 1s");
    env.start_worker()?;
    env.update(&ann, Digest::flush, order()).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    let last = env.completed(&ann).await?.last.context("no digest")?;
    assert_eq!(last.closed.outcome, DigestOutcome::Sent);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_without_a_table_ends_as_unknown_after_seven_days() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let (without, with) = (deps(&store, removed())?, deps(&store, settings("after 1s", "after 1s"))?);

    let early = claimed(&without, &due_for(key("activity", "ann"), 6)).await?;
    ensure!(matches!(&early, ClaimAnswer::Later { why, .. } if why.contains("[digest.activity]")), "{early:?}");
    let late = due_for(key("activity", "ann"), 7);
    let closed = ended(claimed(&without, &late).await?)?;
    assert_eq!(closed.outcome, DigestOutcome::Unknown);
    assert!(closed.why.contains("[digest.activity]"), "{}", closed.why);
    let digest = store.digest(late.digest_id).await?.context("the ledger has no digest")?;
    assert_eq!(digest.items, 1, "the ledger keeps the events");

    // The table goes between claim and render, and the days count from the claim: the window may have been held before.
    let rendered = async |window: &Window, days: i64| {
        let asked_at = Timestamp::now() + SignedDuration::from_hours(24 * days);
        let input = RenderInput { asked_at, window: window.clone(), stored: false, too_large: None };
        render::run(&without, &input).await
    };
    for (user, days) in [("bo", 6), ("cy", 7)] {
        let window = due_for(key("activity", user), 30);
        claimed(&with, &window).await?;
        let answer = rendered(&window, days).await;
        match days {
            6 => ensure!(matches!(answer, Err(StepError::UnknownType(_))), "{answer:?}"),
            _ => ensure!(
                matches!(&answer, Ok(RenderAnswer::Nothing(closed)) if closed.outcome == DigestOutcome::Unknown),
                "{answer:?}"
            ),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_type_that_only_another_worker_knows_is_left_to_that_one() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let deps = deps(&store, removed())?;
    let window = due_for(key("activity", "ann"), 6);
    let claim = async || claim::run(&deps, &claim_of(&window, vec![recorded_event("e1", Timestamp::now())])).await;
    let mut other =
        ProcessRecord { id: uuid::Uuid::nil(), seen_at: store.database_clock().await?, profile: worker_profile() };
    store.put_process(&other).await?;
    ensure!(matches!(claim().await, Ok(ClaimAnswer::Later { .. })), "nobody knows the type");
    other.profile.sections.insert(digest_section("activity"), "aa".to_owned());
    store.put_process(&other).await?;
    ensure!(matches!(claim().await, Err(StepError::OtherWorker(_))), "the other one does");
    other.profile.sections.clear();
    other.profile.former_types.insert("activity".to_owned());
    store.put_process(&other).await?;
    ensure!(matches!(claim().await, Err(StepError::OtherWorker(_))), "the other one has it under another name");
    "elsewhere".clone_into(&mut other.profile.task_queue);
    store.put_process(&other).await?;
    ensure!(matches!(claim().await, Ok(ClaimAnswer::Later { .. })), "the other one takes nothing from this queue");
    names::TASK_QUEUE.clone_into(&mut other.profile.task_queue);
    other.seen_at -= SignedDuration::from_mins(2);
    store.put_process(&other).await?;
    ensure!(matches!(claim().await, Ok(ClaimAnswer::Later { .. })), "the other one is gone");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_no_email_can_have_ends_like_an_unknown_recipient() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let ann = key("activity", "ann");
    let recipient = Recipient { address: "ann at home".to_owned(), ..Recipient::for_development(&ann) };
    store.put_recipients(&[recipient], Timestamp::now()).await?;
    let settings = Settings { unknown_recipients: UnknownRecipients::Wait, ..settings("after 1s", "after 1s") };
    let deps = deps(&store, settings)?;

    let early = claimed(&deps, &due_for(ann.clone(), 6)).await?;
    ensure!(
        matches!(&early, ClaimAnswer::Later { why, .. } if why.contains("the directory has an address that cannot be sent to")),
        "{early:?}"
    );
    let closed = ended(claimed(&deps, &due_for(ann, 7)).await?)?;
    assert_eq!(closed.outcome, DigestOutcome::Unknown);
    assert!(
        closed.why.contains("the directory has an address that cannot be sent to")
            && !closed.why.contains("ann at home"),
        "{}",
        closed.why
    );
    Ok(())
}
