//! Digests of one entity are a thread if the recipient gets them at once, and all others are kept apart (docs/delivery.md).

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use tidings_activities::{
    CancellableResult,
    digest::{claim, render, send},
};
use tidings_harness::{
    env::{activities, key, settings, sqlite},
    relay::{Mail, Relay},
    steps::{claim_of, recorded_event, send_of},
};
use tidings_model::{
    Key,
    step::{ClaimAnswer, RenderAnswer, RenderInput, SendAnswer},
    window::{DigestOutcome, Window},
};
use tidings_services::StepServices;

/// Sends the `n`th digest of a key: an event about each of these entities. One task opened the first three, so that they have one time.
async fn digest(deps: &StepServices, key: &Key, n: u64, entities: &[&str]) -> Result<()> {
    let now = Timestamp::now();
    let opened_at: Timestamp =
        "2026-11-21T12:00:00Z".parse::<Timestamp>()? + SignedDuration::from_mins(i64::try_from(n / 4)?);
    let window = Window { digest_id: key.digest_id("run", n), key: key.clone(), opened_at, due_at: opened_at };
    let events = entities.iter().enumerate().map(|(number, entity)| {
        let event = recorded_event(&format!("{n}-{number}"), now);
        tidings_model::Event { entity_id: (*entity).to_owned(), ..event }
    });
    let claimed = claim::run(deps, &claim_of(&window, events.collect())).await?;
    let ClaimAnswer::Claimed { rendered: stored, .. } = claimed else { anyhow::bail!("not claimed: {claimed:?}") };
    let input = RenderInput { asked_at: now, window: window.clone(), stored, too_large: None };
    ensure!(render::run(deps, &input).await? == RenderAnswer::Stored);
    let input = send_of(&window, now);
    let sent = send::run(deps, &input, std::future::pending()).await?;
    ensure!(
        matches!(&sent, CancellableResult::Done(SendAnswer::Closed { closed, .. }) if closed.outcome == DigestOutcome::Sent)
    );
    Ok(())
}

/// The message that an email answers, and the id that keeps it apart.
fn placed(mail: &Mail) -> (Option<String>, Option<String>) {
    let [answered, references, apart] =
        ["In-Reply-To", "References", "X-Entity-Ref-ID"].map(|header| mail.header(header).ok());
    assert_eq!(answered, references, "a thread has one level");
    (answered, apart)
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_about_an_entity_are_a_thread_and_digests_are_kept_apart() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let relay = Relay::start().await?;
    let deps = activities(sqlite(folder.path()).await?, &relay.url(), settings("after 1s", "instant"))?;
    let (ann, bob) = (key("alerts", "ann"), key("alerts", "bob"));
    for (n, entities) in [(1, vec!["db1"]), (2, vec!["db1", "db2"]), (3, vec!["db1", "db1"]), (4, vec!["db2"])] {
        digest(&deps, &ann, n, &entities).await?;
    }
    digest(&deps, &ann, 5, &["db1"]).await?;
    digest(&deps, &bob, 1, &["db1"]).await?;
    for n in 1..=2 {
        digest(&deps, &key("activity", "ann"), n, &["db1"]).await?;
    }

    let mails = relay.mails();
    let first = mails[0].header("Message-ID")?;
    let apart = |mail: &Mail| mail.header("X-Tidings-Message").ok();
    let expected = [
        (None, None),                // down
        (None, apart(&mails[1])),    // two at a time
        (Some(first.clone()), None), // still down, twice
        (None, None),                // another one
        (Some(first), None),         // up again
        (None, None),                // somebody else's
        (None, apart(&mails[6])),    // a day
        (None, apart(&mails[7])),    // another day
    ];
    assert_eq!(mails.iter().map(placed).collect::<Vec<_>>(), expected);
    Ok(())
}
