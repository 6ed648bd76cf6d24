//! A team's own directory behind a real service on a socket: it changes, is away, is wrong and is hostile (rule 33).

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use prost::Message as _;
use serde_json::{Value, json};
use tidings::registration;
use tidings_activities::digest::claim;
use tidings_harness::{
    env::{Env, activities, count, event, key, settings, sqlite},
    steps::{claim_of, recorded_event},
    team_service::{Says, TeamService},
    wait::{eventually, wait_for_emails},
    worker::Running,
};
use tidings_model::{
    names,
    records::{Recipient, Suppression, SuppressionReason},
    settings::{Settings, UnknownRecipients},
    step::{ClaimAnswer, ClaimInput, CloseAnswer},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_needs::needs;
use tidings_services::{StepError, StepServices, TeamDirectory};
use tidings_store::{SqliteStore, prelude::*};

const RELAY: &str = "smtp://127.0.0.1:1";
const MINUTE: Duration = Duration::from_mins(1);
/// Makes the last answers older than those that need no question.
const AGED: &str = "UPDATE recipients SET answered_at = answered_at - 61000 RETURNING 1";
/// Makes them too old to be used while the directory is away.
const TOO_OLD: &str = "UPDATE recipients SET answered_at = answered_at - 86400000 RETURNING 1";

fn waiting() -> Settings {
    Settings { unknown_recipients: UnknownRecipients::Wait, ..settings("after 1s", "after 1s") }
}

fn ann(address: &str) -> Says {
    Says::Json(json!({"email": address, "name": "Ann", "zone": "Asia/Tokyo", "locale": "de"}))
}

fn not_found() -> Says {
    Says::Raw("HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n".to_owned())
}

/// A store whose recipients come from a directory.
struct Bench {
    folder: tempfile::TempDir,
    store: Arc<SqliteStore>,
    windows: std::cell::Cell<u64>,
}

impl Bench {
    async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = sqlite(folder.path()).await?;
        Ok(Self { folder, store, windows: std::cell::Cell::new(0) })
    }

    async fn sql(&self, statement: &'static str) -> Result<()> {
        count(self.folder.path(), statement).await.map(drop)
    }

    /// Claims another window, which was due `late` ago, in a process that has not asked yet.
    async fn claim_late(&self, directory: &Arc<TeamDirectory>, late: SignedDuration) -> Result<(Window, ClaimAnswer)> {
        let run = self.windows.replace(self.windows.get() + 1);
        let (key, now) = (key("activity", "ann"), Timestamp::now());
        let due_at = now - late;
        let window = Window { digest_id: key.digest_id("run", run), key, opened_at: due_at, due_at };
        let directory = Some(Arc::clone(directory));
        let deps = StepServices { directory, ..activities(self.store.clone(), RELAY, waiting())? };
        let events = vec![recorded_event(&format!("e{run}"), now)];
        let input = ClaimInput { flushed: true, unknown_since: Some(due_at), ..claim_of(&window, events) };
        Ok((window, claim::run(&deps, &input).await?))
    }

    async fn claim(&self, service: &TeamService) -> Result<(Window, ClaimAnswer)> {
        self.claim_late(&service.directory()?, SignedDuration::ZERO).await
    }

    /// The address of the message of another window.
    async fn sent_to(&self, service: &TeamService) -> Result<String> {
        let (window, answer) = self.claim(service).await?;
        ensure!(matches!(answer, ClaimAnswer::Claimed { rendered: true, .. }), "{answer:?}");
        Ok(self.store.message(window.digest_id).await?.context("no message")?.envelope_to)
    }

    /// The reason why another window waits.
    async fn waits(&self, service: &TeamService) -> Result<String> {
        match self.claim(service).await?.1 {
            ClaimAnswer::Later { why, .. } => Ok(why),
            other => anyhow::bail!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_goes_to_the_address_that_the_directory_gives_now() -> Result<()> {
    let (bench, service) = (Bench::start().await?, TeamService::start(ann("ann@old.example")).await?);
    assert_eq!(bench.sent_to(&service).await?, "ann@old.example");
    service.says(ann("ann@new.example"));
    assert_eq!(bench.sent_to(&service).await?, "ann@old.example", "an answer counts for a minute");
    bench.sql(AGED).await?;
    assert_eq!(bench.sent_to(&service).await?, "ann@new.example");
    let asked = service.asked();
    let asked: Vec<_> = asked.iter().map(|asked| (asked.method.as_str(), asked.path.as_str(), asked.signed)).collect();
    assert_eq!(asked, [("GET", "/recipients/acme/ann", true); 2]);
    // What Tidings keeps goes on holding: a suppression, and the zone of the answer in the facts.
    let suppression = Suppression {
        tenant: "acme".into(),
        address: "ann@gone.example".into(),
        reason: SuppressionReason::HardBounce,
        detail: String::new(),
        at: Timestamp::now(),
    };
    bench.store.suppress(&suppression).await?;
    service.says(ann("Ann@gone.example"));
    bench.sql(AGED).await?;
    let (_, answer) = bench.claim(&service).await?;
    assert!(
        matches!(&answer, ClaimAnswer::Nothing(CloseAnswer { closed, .. }) if closed.outcome == DigestOutcome::Suppressed),
        "{answer:?}"
    );
    let facts = bench.store.facts(&key("activity", "ann")).await?;
    assert_eq!(
        facts.recipient.map(|ann| [ann.name, ann.zone, ann.locale]),
        Some(["Ann".into(), "Asia/Tokyo".into(), "de".into()])
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_directory_is_away_the_last_answer_serves_for_a_day() -> Result<()> {
    let elsewhere = TeamService::start(ann("eve@evil.example")).await?;
    let redirect = format!("HTTP/1.1 302 x\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url());
    let (bench, service) = (Bench::start().await?, TeamService::start(ann("ann@acme.example")).await?);
    bench.sent_to(&service).await?;
    for (says, told) in [
        (Says::Hangs, "no answer within 2 s"),
        (Says::Drips, "no answer within 2 s"),
        (Says::Closes, ""),
        (Says::Raw("no HTTP\r\n\r\n".to_owned()), ""),
        (Says::Raw(redirect), "the status 302"),
        (Says::Raw("HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n".to_owned()), "the status 500"),
        (Says::Raw("HTTP/1.1 200 x\r\ncontent-length: 99\r\n\r\n{}".to_owned()), "breaks off"),
        (Says::Raw("HTTP/1.1 200 x\r\ncontent-length: 13\r\n\r\n<html></html>".to_owned()), "not a JSON object"),
        (Says::Json(json!({"email": "ann@acme.example", "name": "x".repeat(10 << 20)})), "longer than 16384 bytes"),
    ] {
        let what = format!("{says:?}").chars().take(60).collect::<String>();
        service.says(says);
        bench.sql(AGED).await?;
        let began = Timestamp::now();
        assert_eq!(bench.sent_to(&service).await?, "ann@acme.example", "{what}");
        let taken = Timestamp::now().duration_since(began);
        assert!(taken.as_millis() < 2_900, "{what}: a local activity has 3 s, and this took {taken:#}");
        let fresh = Bench::start().await?;
        let error = fresh.claim(&service).await.err().context("a claim without any answer")?;
        assert!(
            matches!(error.downcast_ref::<StepError>(), Some(StepError::Directory(why)) if why.contains(told)),
            "{what}: {error}"
        );
        assert!(!error.to_string().contains('@'), "{error}");
    }
    bench.sql(TOO_OLD).await?;
    let error = bench.claim(&service).await.err().context("the answer was too old")?;
    assert!(matches!(error.downcast_ref::<StepError>(), Some(StepError::Directory(_))), "{error}");
    service.says(ann("ann@back.example"));
    assert_eq!(bench.sent_to(&service).await?, "ann@back.example");
    assert!(elsewhere.asked().is_empty(), "a redirect was followed");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_hangs_is_left_alone_for_a_moment() -> Result<()> {
    let (bench, service) = (Bench::start().await?, TeamService::start(Says::Hangs).await?);
    let directory = service.directory()?;
    for _ in 0..3 {
        assert!(bench.claim_late(&directory, SignedDuration::ZERO).await.is_err());
    }
    assert_eq!(service.asked().len(), 1, "each question takes two seconds");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_person_waits_and_is_known_later() -> Result<()> {
    let (bench, service) = (Bench::start().await?, TeamService::start(not_found()).await?);
    let imported =
        Recipient { address: "imported@example.net".into(), ..Recipient::for_development(&key("activity", "ann")) };
    bench.store.put_recipients(std::slice::from_ref(&imported), Timestamp::now()).await?;
    assert_eq!(bench.waits(&service).await?, "the team's directory does not know the recipient");
    let late = SignedDuration::from_hours(7 * 24);
    let (_, answer) = bench.claim_late(&service.directory()?, late).await?;
    let ClaimAnswer::Nothing(CloseAnswer { closed: WindowEnd { outcome, why }, .. }) = answer else {
        anyhow::bail!("{answer:?}")
    };
    assert_eq!(outcome, DigestOutcome::Unknown);
    assert_eq!(why, "for seven days there was no recipient: the team's directory does not know the recipient");
    assert!(bench.store.facts(&key("activity", "ann")).await?.recipient == Some(imported), "an import was deleted");
    service.says(ann("ann@acme.example"));
    assert_eq!(bench.sent_to(&service).await?, "ann@acme.example");
    bench.sql(AGED).await?;
    service.says(not_found());
    assert_eq!(bench.waits(&service).await?, "the team's directory does not know the recipient");
    // What it said last is what counts while it is away.
    service.says(Says::Closes);
    assert!(bench.claim(&service).await.is_err(), "an answer from before the last one was used");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_answer_is_in_the_ledger_with_its_reason() -> Result<()> {
    let (bench, service) = (Bench::start().await?, TeamService::start(ann("ann@acme.example")).await?);
    bench.sent_to(&service).await?;
    bench.sql(AGED).await?;
    let wrong = |field: &str, value: Value| {
        let mut answer = json!({"email": "ann@acme.example", "zone": "Asia/Tokyo"});
        answer[field] = value;
        Says::Json(answer)
    };
    for (says, why) in [
        (wrong("email", json!("ann@acme@example")), "email is not an address"),
        (wrong("email", json!("a@b.example\r\nBcc: eve@evil.example")), "email is not an address"),
        (wrong("email", Value::Null), "email is required"),
        (wrong("email", json!({"is": "ann@acme.example"})), "email is not text"),
        (wrong("locale", json!("d\u{0}e")), "locale has a NUL"),
    ] {
        service.says(says);
        let said = bench.waits(&service).await?;
        assert!(said.starts_with(&format!("the team's directory has no usable recipient: {why}")), "{said}");
        let (window, _) = bench.claim_late(&service.directory()?, SignedDuration::from_hours(7 * 24)).await?;
        let mut digests = bench.store.digests(&window.key, 100).await?.into_iter();
        let digest = digests.find(|digest| digest.digest_id == window.digest_id).context("not in the ledger")?;
        let closed = digest.closed.context("no end in the ledger")?;
        assert!(closed.outcome == DigestOutcome::Unknown && closed.why.contains(why), "{closed:?}");
        // The remedy has an address of its own as an example.
        assert!(!closed.why.contains("acme@") && !closed.why.contains("evil"), "{closed:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_with_line_breaks_adds_no_header() -> Result<()> {
    let name = "Ann\r\nBcc: eve@evil.example\r\n\r\nBuy gold";
    let answer = json!({"email": "ann@acme.example", "name": name});
    let (bench, service) = (Bench::start().await?, TeamService::start(Says::Json(answer)).await?);
    let (window, _) = bench.claim(&service).await?;
    let message = bench.store.message(window.digest_id).await?.context("no message")?;
    let bytes = bench.store.message_bytes("acme", message.id).await?.context("no bytes")?;
    let text = String::from_utf8(bytes)?;
    let head = text.split("\r\n\r\n").next().context("no head")?;
    assert!(head.contains("ann@acme.example") && head.contains("\r\nSubject:"), "{head}");
    assert!(!head.to_lowercase().contains("\nbcc:"), "{head}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_waits_for_a_directory_that_is_away_and_loses_nothing() -> Result<()> {
    let service = TeamService::start(Says::Closes).await?;
    let mut env = Env::without_worker(waiting()).await?;
    let deps = StepServices { directory: Some(service.directory()?), ..env.activities()? };
    env.worker = Some(Running::start(env.temporal.clone(), registration::digest_worker(names::TASK_QUEUE, deps)?)?);
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    let asked = async || Ok((service.asked().len() >= 2).then_some(()));
    eventually("the plan asks again", MINUTE, asked).await?;
    assert_eq!(env.relay.count(), 0);
    service.says(ann("ann@old.example"));
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    env.wait_until_idle(&key, MINUTE).await?;
    service.says(ann("ann@new.example"));
    env.count(AGED).await?;
    env.events.emit(event(&key, "e2")).await?;
    wait_for_emails(&env.relay, 2, MINUTE).await?;
    let to: Vec<_> = env.relay.mails().into_iter().flat_map(|mail| mail.to).collect();
    assert_eq!(to, ["ann@old.example", "ann@new.example"]);
    assert!(service.asked().iter().all(|asked| asked.signed));
    let history: Vec<u8> = env.history(&key).await?.iter().flat_map(|event| event.encode_to_vec()).collect();
    let history = String::from_utf8_lossy(&history);
    assert!(history.contains("plan") && !history.contains("old.example") && !history.contains("new.example"));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_nobody_knows_costs_no_email_and_is_shown() -> Result<()> {
    let answer = json!({"email": "ann@acme.example", "zone": "Mars/Olympus bo@acme.example"});
    let service = TeamService::start(Says::Json(answer)).await?;
    let mut env = Env::without_worker(waiting()).await?;
    let deps = StepServices { directory: Some(service.directory()?), ..env.activities()? };
    env.worker = Some(Running::start(env.temporal.clone(), registration::digest_worker(names::TASK_QUEUE, deps)?)?);
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    env.wait_until_idle(&key, MINUTE).await?;
    let planned = env.store.digests(&key, 1).await?.pop().context("no digest")?.plan_why;
    assert!(planned.ends_with("the zone \"Mars/Olympus?\" is unknown: UTC counts"), "{planned}");
    assert_eq!(env.store.count_zones(None).await?, [("Mars/Olympus?".to_owned(), 1)]);
    Ok(())
}
