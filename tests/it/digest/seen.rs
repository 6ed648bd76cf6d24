//! Events that the recipient has seen elsewhere: a real service on a socket answers, hangs, fails and lies (rule 20).

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_activities::digest::claim;
use tidings_harness::{
    env::{Env, activities, event, key, settings, sqlite},
    steps::{claim_of, recorded_event},
    team_service::{Asked, Says, TeamService},
};
use tidings_model::{
    records::DigestRecord,
    settings::Settings,
    step::{ClaimAnswer, CloseAnswer},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_needs::needs;
use tidings_services::{StepServices, metrics};
use tidings_store::{SqliteStore, prelude::*};

const RELAY: &str = "smtp://127.0.0.1:1";
const WHY: &str = "the recipient has seen them elsewhere";

fn asking(service: &TeamService) -> Result<Settings> {
    let mut settings = settings("after 1s", "after 1s");
    settings.digests.get_mut("activity").context("no digest type")?.seen = Some(service.settings()?);
    Ok(settings)
}

fn deps(store: Arc<SqliteStore>, service: &TeamService) -> Result<StepServices> {
    activities(store, RELAY, asking(service)?)
}

fn window(run: u64, now: Timestamp) -> Window {
    let key = key("activity", "ann");
    Window { digest_id: key.digest_id("run", run), key, opened_at: now, due_at: now }
}

/// The digests of the key with their events: the outcome or none, the reason, the number of events.
async fn ledger(store: &SqliteStore, window: &Window) -> Result<Vec<(Option<DigestOutcome>, String, u64)>> {
    let mut digests = store.digests(&window.key, 10).await?;
    digests.sort_by_key(|digest| digest.digest_id != window.digest_id);
    let words = |DigestRecord { closed, items, .. }: DigestRecord| {
        (closed.as_ref().map(|closed| closed.outcome), closed.map(|closed| closed.why).unwrap_or_default(), items)
    };
    Ok(digests.into_iter().map(words).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn seen_events_are_in_the_ledger_and_in_no_message() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let service = TeamService::start(Says::Json(json!({"seen": ["b", "stashed", "of somebody else"]}))).await?;
    let (deps, now) = (deps(store.clone(), &service)?, Timestamp::now());
    let window = window(1, now);
    store.stash_events(&window, &[recorded_event("stashed", now)], None, now).await?;
    let events = vec![recorded_event("a", now), recorded_event("b", now)];
    let answer = claim::run(&deps, &claim_of(&window, events)).await?;
    assert_eq!(answer, ClaimAnswer::Claimed { items: 1, groups: 1, taken: 2, rendered: false });
    assert_eq!(
        ledger(&store, &window).await?,
        [(None, String::new(), 1), (Some(DigestOutcome::Skipped), WHY.to_owned(), 2)]
    );
    let asked = service.asked();
    let [Asked { method, path, body, signed }] = &asked[..] else { anyhow::bail!("{asked:?}") };
    assert_eq!((method.as_str(), path.as_str(), *signed), ("POST", "/seen?of=acme", true));
    let question = json!({"tenant": "acme", "digest": "activity", "user": "ann", "event_ids": ["a", "b", "stashed"]});
    assert_eq!(serde_json::from_slice::<Value>(body)?, question);
    assert!(
        metrics::encode_text().contains("tidings_seen_questions_total{digest_type=\"activity\",result=\"answered\"} ")
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_everything_goes_out_within_the_time() -> Result<()> {
    let elsewhere = TeamService::start(Says::Json(json!({"seen": ["a"]}))).await?;
    let redirect = format!("HTTP/1.1 307 x\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url());
    let many = "x".repeat(5 << 20);
    for (says, result) in [
        (Says::Hangs, "timed_out"),
        (Says::Drips, "timed_out"),
        (Says::Closes, "unreachable"),
        (Says::Raw("no HTTP\r\n\r\n".to_owned()), "unreachable"),
        (Says::Raw(redirect), "refused"),
        (Says::Raw("HTTP/1.1 500 x\r\ncontent-length: 14\r\n\r\n{\"seen\":[\"a\"]}".to_owned()), "refused"),
        (Says::Raw("HTTP/1.1 200 x\r\ncontent-length: 99\r\n\r\n{\"seen\":[\"a\"]}".to_owned()), "unreadable"),
        (Says::Json(json!(["a"])), "unreadable"),
        (Says::Json(json!({"seen": [many]})), "unreadable"),
        (Says::Json(json!({"seen": ["A", " a", "", "b"]})), "answered"),
    ] {
        let folder = tempfile::tempdir()?;
        let service = TeamService::start(says.clone()).await?;
        let (deps, now) = (deps(sqlite(folder.path()).await?, &service)?, Timestamp::now());
        let answer = claim::run(&deps, &claim_of(&window(1, now), vec![recorded_event("a", now)])).await?;
        let taken = Timestamp::now().duration_since(now);
        assert_eq!(answer, ClaimAnswer::Claimed { items: 1, groups: 1, taken: 1, rendered: true }, "{result}");
        assert!(taken.as_millis() < 2_900, "{result}: a local activity has 3 s, and this took {taken:#}");
        let counted = format!("tidings_seen_questions_total{{digest_type=\"activity\",result=\"{result}\"}} ");
        let count = metrics::encode_text().lines().find_map(|line| line.strip_prefix(&counted)?.parse::<u64>().ok());
        assert!(count.is_some_and(|count| count > 0), "{result}");
    }
    assert!(elsewhere.asked().is_empty(), "a redirect was followed");
    let (gone, folder) = (TeamService::start(Says::Hangs).await?.gone(), tempfile::tempdir()?);
    let deps = deps(sqlite(folder.path()).await?, &gone)?;
    let now = Timestamp::now();
    let answer = claim::run(&deps, &claim_of(&window(1, now), vec![recorded_event("a", now)])).await?;
    assert_eq!(answer, ClaimAnswer::Claimed { items: 1, groups: 1, taken: 1, rendered: true });
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_repeated_asks_again_and_loses_no_event() -> Result<()> {
    // A claim with a message stays unchanged; any other takes the later answer, too. The numbers are those of events in a message.
    for (first, second, left, left_again) in
        [(json!([]), json!(["a"]), 2, 2), (json!(["a"]), json!([]), 1, 1), (json!(["a"]), json!(["a", "b"]), 1, 0)]
    {
        let folder = tempfile::tempdir()?;
        let store = sqlite(folder.path()).await?;
        let service = TeamService::start(Says::Json(json!({"seen": first}))).await?;
        let (deps, now) = (deps(store.clone(), &service)?, Timestamp::now());
        let window = window(1, now);
        let input = claim_of(&window, vec![recorded_event("a", now), recorded_event("b", now)]);
        for (says, left) in [(first, left), (second, left_again)] {
            service.says(Says::Json(json!({"seen": says})));
            let items = match claim::run(&deps, &input).await? {
                ClaimAnswer::Claimed { items, .. } => items,
                ClaimAnswer::Nothing(_) => 0,
                other => anyhow::bail!("{other:?}"),
            };
            let events: u64 = ledger(&store, &window).await?.into_iter().map(|(.., events)| events).sum();
            assert_eq!((items, events), (left, 2), "{says}");
        }
        assert_eq!(service.asked().len(), 2);
        // The next window asks about its own events.
        service.says(Says::Json(json!({"seen": ["a", "c"]})));
        let next = self::window(2, now);
        let answer = claim::run(&deps, &claim_of(&next, vec![recorded_event("c", now)])).await?;
        let ClaimAnswer::Nothing(CloseAnswer { closed: WindowEnd { outcome, why }, .. }) = answer else {
            anyhow::bail!("{answer:?}")
        };
        assert!(outcome == DigestOutcome::Skipped && why.contains("seen elsewhere"), "{why}");
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_whose_events_were_all_seen_sends_nothing() -> Result<()> {
    let service = TeamService::start(Says::Json(json!({"seen": ["e1", "e2"]}))).await?;
    let env = Env::start(asking(&service)?).await?;
    let key = key("activity", "ann");
    for id in ["e1", "e2"] {
        env.events.emit(event(&key, id)).await?;
    }
    env.wait_until_idle(&key, Duration::from_mins(1)).await?;
    ensure!(!service.asked().is_empty() && service.asked().iter().all(|asked| asked.signed), "{:?}", service.asked());
    for digest in env.store.digests(&key, 10).await? {
        assert_eq!(digest.closed.map(|closed| closed.outcome), Some(DigestOutcome::Skipped));
    }
    assert_eq!(env.count("SELECT COUNT(*) FROM events").await?, 2);
    assert!(env.relay.mails().is_empty());
    // A service that is gone keeps no event back.
    service.says(Says::Closes);
    env.events.emit(event(&key, "e3")).await?;
    tidings_harness::wait::wait_for_emails(&env.relay, 1, Duration::from_mins(1)).await
}
