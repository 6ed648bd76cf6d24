//! The table of SMTP outcomes, row by row, end to end: the digest, the recipient and the relay after each reply.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use jiff::Timestamp;
use tidings::registration;
use tidings_harness::{
    env::{Env, activities, event, key, order, settings},
    relay::{self, Act, At, Fault, Relay},
    wait::{eventually, wait_for_emails},
    worker::Running,
};
use tidings_mail::{
    render::TemplateRenderer,
    smtp::{Follows, OUTCOMES, RowEvent},
};
use tidings_model::{
    Key,
    attempt::{AttemptClass, AttemptPhase},
    breaker::BreakerCause,
    names,
    records::{DigestRecord, Recipient, Suppression, SuppressionReason},
    settings::{RelaySettings, Settings},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_proto::v1;
use tidings_services::{StepServices, choices, relays::BreakerCommand};
use tidings_store::prelude::*;
use tidings_workflows::{Digest, DigestStage};

const MINUTE: Duration = Duration::from_mins(1);

/// Retried at once.
fn impatient() -> Settings {
    let mut settings = settings("instant", "instant");
    settings.streams.bulk.retry_delays = vec![Duration::ZERO; 5];
    settings
}

/// The latest.
async fn digest(env: &Env, key: &Key) -> Result<DigestRecord> {
    env.store.digests(key, 1).await?.pop().context("no digest")
}

async fn ended(env: &Env, key: &Key) -> Result<DigestOutcome> {
    env.completed(key).await?;
    Ok(digest(env, key).await?.closed.context("it has no end")?.outcome)
}

async fn classes(env: &Env, key: &Key) -> Result<Vec<String>> {
    let attempts = env.store.attempts(digest(env, key).await?.digest_id).await?;
    Ok(attempts
        .into_iter()
        .map(|attempt| attempt.class.map(AttemptClass::name).unwrap_or_default().to_owned())
        .collect())
}

fn reply(text: &str) -> Act {
    Act::Reply(text.to_owned())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn possibly_delivered_events_stay_out_of_later_digests() -> Result<()> {
    let env = Env::start(impatient()).await?;
    let key = key("activity", "ann");
    env.relay.fault(Fault::new(At::Dot, Act::KeepAndClose).times(1));
    env.relay.fault(Fault::new(At::Rcpt, reply("450 4.2.0 greylisted")).after(1));
    env.events.emit(event(&key, "e1")).await?;
    assert_eq!(ended(&env, &key).await?, DigestOutcome::Ambiguous);
    let refused = ["deferred"; 5].map(str::to_owned);
    assert_eq!(classes(&env, &key).await?, [&["ambiguous".to_owned()], &refused[..]].concat());
    assert_eq!(env.count("SELECT COUNT(*) FROM events WHERE returned_at IS NOT NULL").await?, 0);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn after_a_dot_a_retry_stops_when_its_original_address_was_suppressed() -> Result<()> {
    let mut settings = settings("instant", "instant");
    settings.streams.bulk.retry_delays = vec![Duration::from_secs(3); 5];
    let env = Env::start(settings).await?;
    let key = key("activity", "ann");
    env.relay.fault(Fault::new(At::Dot, reply("451 4.3.0 try again later")));
    env.events.emit(event(&key, "e1")).await?;
    eventually("an attempt was made", MINUTE, async || {
        Ok((env.count("SELECT COUNT(*) FROM attempts WHERE class = 'deferred'").await? > 0).then_some(()))
    })
    .await?;
    let recipient = env.store.facts(&key).await?.recipient;
    let old = recipient.map_or_else(|| "ann@dev.invalid".to_owned(), |recipient| recipient.address);
    let moved = Recipient { address: "ann@elsewhere.example".into(), ..Recipient::for_development(&key) };
    env.store.put_recipients(&[moved], Timestamp::now()).await?;
    let (tenant, detail) = (key.tenant.clone(), String::new());
    let suppression =
        Suppression { tenant, address: old, reason: SuppressionReason::HardBounce, detail, at: Timestamp::now() };
    env.store.suppress(&suppression).await?;
    assert_eq!(ended(&env, &key).await?, DigestOutcome::Suppressed);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_stops_after_a_suppression_or_a_withdrawn_consent() -> Result<()> {
    let mut settings = settings("instant", "instant");
    settings.streams.bulk.retry_delays = vec![Duration::from_secs(3); 5];
    let env = Env::start(settings.clone()).await?;
    let (ann, bo) = (key("activity", "ann"), key("activity", "bo"));
    let recipient = Recipient::for_development(&ann);
    let address = recipient.address.clone();
    env.store.put_recipients(&[recipient], Timestamp::now()).await?;
    env.relay.fault(Fault::new(At::Rcpt, reply("450 4.2.0 greylisted")));
    for key in [&ann, &bo] {
        env.events.emit(event(key, "e1")).await?;
        env.reaches(key, DigestStage::Retrying).await?;
    }
    let (tenant, detail) = (ann.tenant.clone(), String::new());
    let suppression =
        Suppression { tenant, address, reason: SuppressionReason::HardBounce, detail, at: Timestamp::now() };
    env.store.suppress(&suppression).await?;
    // No signal wakes the workflow: the check before the next attempt has to see it.
    choices::set_consent(&*env.store, &settings, &bo, false, &order(), Timestamp::now()).await?;
    env.relay.heal();
    assert_eq!(ended(&env, &ann).await?, DigestOutcome::Suppressed);
    assert_eq!(ended(&env, &bo).await?, DigestOutcome::Skipped);
    assert!(env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_about_a_message_or_address_affects_that_digest_only() -> Result<()> {
    use DigestOutcome::{Failed, Sent};
    let env = Env::start(impatient()).await?;
    // The fault of the first attempt, the classes of the attempts, the digest's outcome, messages that the relay kept, and
    // whether the address is suppressed.
    let mut rows = vec![
        (At::Rcpt, reply("%$&/ what?"), vec!["deferred", "sent"], Sent, 1, false),
        (At::Rcpt, Act::Close, vec!["deferred", "sent"], Sent, 1, false),
        (At::Rcpt, Act::HalfClose, vec!["deferred", "sent"], Sent, 1, false),
        (At::Rcpt, Act::Slow(Duration::from_millis(300)), vec!["sent"], Sent, 1, false),
        // The record comes before the last block, and a small message has one block.
        (At::Body, Act::Close, vec!["ambiguous", "sent"], Sent, 1, false),
        (At::Dot, Act::Close, vec!["ambiguous", "sent"], Sent, 1, false),
        (At::Dot, Act::KeepAndClose, vec!["ambiguous", "sent"], Sent, 2, false),
        (At::Dot, Act::KeepAndReply("%$&/ what?".to_owned()), vec!["ambiguous", "sent"], Sent, 2, false),
    ];
    let mut confirmed = 0;
    for row in OUTCOMES {
        // Before RCPT the relay does not know which digest it answers.
        let RowEvent::Reply(text) = row.event else { continue };
        let at = match row.phase {
            AttemptPhase::Rcpt => At::Rcpt,
            AttemptPhase::Data => At::Data,
            AttemptPhase::Dot => At::Dot,
            _ => continue,
        };
        let class = row.class.name();
        confirmed += usize::from(row.follows == Follows::Confirm);
        rows.push(match row.follows {
            // Three recipients in a row that are refused open the breaker.
            Follows::Confirm if confirmed > 2 => continue,
            Follows::Retry | Follows::Repeat | Follows::Confirm => {
                (at, reply(text), vec![class, "sent"], Sent, 1, false)
            }
            Follows::Suppress => (at, reply(text), vec![class], Failed, 0, true),
            Follows::Fail => (at, reply(text), vec![class], Failed, 0, false),
            Follows::Delivered | Follows::OpenBreaker(_) | Follows::Shrink => continue,
        });
    }
    for (n, (at, act, ..)) in rows.iter().enumerate() {
        env.relay.fault(Fault::new(*at, act.clone()).to(&format!("row{n}@dev.invalid")).times(1));
        env.events.emit(event(&key("activity", &format!("row{n}")), "e1")).await?;
    }
    for (n, (at, act, attempts, outcome, kept, suppressed)) in rows.into_iter().enumerate() {
        let (key, address) = (key("activity", &format!("row{n}")), format!("row{n}@dev.invalid"));
        let row = format!("{at:?} {act:?}");
        assert_eq!(ended(&env, &key).await.context(row.clone())?, outcome, "{row}");
        let classes = classes(&env, &key).await?;
        // Where the session served another digest before, a new one is tried within the same attempt.
        let is_same_attempt = row.contains("\"421 ") && classes == ["sent"];
        assert!(classes == attempts || is_same_attempt, "{row}: {classes:?} and not {attempts:?}");
        let all = env.relay.mails();
        let mails: Vec<_> = all.iter().filter(|mail| mail.to == [address.clone()]).collect();
        assert_eq!(mails.len(), kept, "{row}");
        assert!(mails.windows(2).all(|pair| pair[0].bytes() == pair[1].bytes()), "{row}");
        assert_eq!(!env.store.suppression_reasons(&key.tenant, &address).await?.is_empty(), suppressed, "{row}");
    }
    assert!(env.store.breakers().await?.values().all(|kept| kept.breaker.open.is_none()), "the relay was blamed");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_about_the_sender_opens_the_breaker_and_digests_wait() -> Result<()> {
    let login = ("ann".to_owned(), "secret".to_owned());
    let relay = Relay::with(relay::Settings {
        login: Some(login),
        idle: Some(Duration::from_millis(200)),
        ..relay::Settings::default()
    })
    .await?;
    let mut settings = impatient();
    let url = relay.url().replace("smtp://", "smtp://ann:secret@");
    settings.relays.insert("default".to_owned(), RelaySettings::new(url.parse()?));
    let env = Env::start(settings).await?;
    let mut sent = 0;
    let mut causes = Vec::new();
    for row in OUTCOMES {
        // One row for each cause: `smtp::outcomes` has every row over a real connection.
        let (RowEvent::Reply(text), Follows::OpenBreaker(cause)) = (row.event, row.follows) else { continue };
        if causes.contains(&cause) {
            continue;
        }
        causes.push(cause);
        let at = match row.phase {
            AttemptPhase::Greeting => At::Greeting,
            AttemptPhase::Auth => At::Auth,
            AttemptPhase::Mail => At::Mail,
            AttemptPhase::Rcpt => At::Rcpt,
            AttemptPhase::Dot => At::Dot,
            _ => continue,
        };
        let class = row.class.name();
        // An open connection is not asked for AUTH again.
        relay.until("its connections end", |relay| relay.open_connections() == 0).await?;
        relay.fault(Fault::new(at, reply(text)));
        let key = key("activity", &format!("row{sent}"));
        env.events.emit(event(&key, "e1")).await?;
        let open = eventually("the circuit breaker is open", MINUTE, async || {
            Ok(env.store.breakers().await?.remove("default").and_then(|kept| kept.breaker.open))
        });
        let open = open.await.context(text)?;
        assert_eq!(open.cause, cause, "{text}");
        eventually("the digest waits and says why", MINUTE, async || {
            // In the relay's words first, and by the breaker's cause when it asked again.
            let waiting = env.status(&key).await?.delivering;
            Ok(waiting
                .is_some_and(|digest| [cause.name(), text].iter().any(|said| digest.why.contains(said)))
                .then_some(()))
        })
        .await
        .context(text)?;
        assert_eq!(env.count("SELECT COUNT(*) FROM suppressions").await?, 0, "{text}");
        relay.heal();
        BreakerCommand::Close.carry_out(&*env.store, "default", "carol", "ticket 812", Timestamp::now()).await?;
        // One that opened the breaker asks once a minute only, and a worker sees within a second that an operator closed it.
        eventually("a flush sends it", MINUTE, async || {
            // Refused once the digest has gone out, and the run has ended.
            env.update(&key, Digest::flush, order()).await.ok();
            Ok((relay.mails().len() > sent).then_some(()))
        })
        .await
        .context(text)?;
        assert_eq!(ended(&env, &key).await.context(text)?, DigestOutcome::Sent, "{text}");
        assert_eq!(classes(&env, &key).await?, [class, "sent"], "{text}");
        sent += 1;
        assert_eq!(relay.mails().len(), sent, "{text}");
    }
    assert_eq!(
        causes,
        [
            BreakerCause::Throttled,
            BreakerCause::DailyQuota,
            BreakerCause::HourlyQuota,
            BreakerCause::Configuration,
            BreakerCause::Policy
        ]
    );
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_that_is_too_large_is_rendered_again_with_few_lines() -> Result<()> {
    const EVENTS: usize = 30;
    let mut settings = impatient();
    let activity = settings.digests.get_mut("activity").context("no such type")?;
    activity.cadence = "after 1s".parse()?;
    let env = Env::start(settings).await?;
    let key = key("activity", "ann");
    let too_large = |times| Fault::new(At::Dot, reply("552 5.3.4 too big")).times(times);
    for (n, (times, outcome, attempts)) in
        [(1, DigestOutcome::Sent, &["too_large", "sent"][..]), (2, DigestOutcome::Failed, &["too_large", "too_large"])]
            .into_iter()
            .enumerate()
    {
        env.relay.fault(too_large(times));
        let events = (0..EVENTS).map(|event_id| {
            let event_id = format!("{n} {event_id}");
            env.events.emit(v1::Event { entity_id: event_id.clone(), ..event(&key, &event_id) })
        });
        try_join_all(events).await?;
        assert_eq!(ended(&env, &key).await?, outcome);
        assert_eq!(classes(&env, &key).await?, attempts);
    }
    let [mail] = &env.relay.mails()[..] else { anyhow::bail!("not one mail") };
    assert_eq!(mail.header("X-Tidings-Events")?, EVENTS.to_string(), "it tells of all events");
    let text = String::from_utf8(mail.bytes())?;
    assert!(text.contains("25 more"), "{text}");
    Ok(())
}

/// The operator has removed its type since the mail was made.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_reply_to_an_email_that_cannot_shrink_is_recorded() -> Result<()> {
    let mut settings = impatient();
    settings.streams.bulk.retry_delays = vec![Duration::from_secs(5)];
    let mut env = Env::start(settings).await?;
    let key = key("activity", "ann");
    env.relay.fault(Fault::new(At::Dot, reply("451 4.3.0 later")).times(1));
    env.events.emit(event(&key, "e1")).await?;
    eventually("the first attempt ends", MINUTE, async || {
        let waits = env.status(&key).await?.delivering.is_some_and(|delivering| delivering.next_attempt_at.is_some());
        Ok(waits.then_some(()))
    })
    .await?;
    env.stop_worker()?;

    env.relay.fault(Fault::new(At::Dot, reply("552 5.3.4 too big")));
    let mut changed = env.settings.clone();
    changed.digests.clear();
    let changed = activities(env.store.clone(), &env.relay.url(), changed)?;
    env.worker = Some(Running::start(env.temporal.clone(), registration::digest_worker(names::TASK_QUEUE, changed)?)?);
    assert_eq!(ended(&env, &key).await?, DigestOutcome::Failed);
    assert_eq!(classes(&env, &key).await?, ["deferred", "too_large"]);
    Ok(())
}

/// Rule 24: rendered before the upgrade, the first attempt before it, the second one after it.
#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_an_upgrade_with_another_template_sends_the_same_bytes() -> Result<()> {
    let mut settings = impatient();
    settings.streams.bulk.retry_delays = vec![Duration::from_secs(5)];
    let mut env = Env::start(settings).await?;
    let key = key("activity", "ann");
    env.relay.fault(Fault::new(At::Dot, Act::KeepAndReply("451 4.3.0 later".to_owned())).times(1));
    env.events.emit(event(&key, "e1")).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    env.stop_worker()?;

    let templates = env.folder.path().join("templates");
    std::fs::create_dir_all(templates.join("activity"))?;
    std::fs::write(templates.join("activity").join("body.txt"), "Another text\n")?;
    let upgraded = StepServices {
        renderer: Arc::new(TemplateRenderer::new(Some(&templates))?),
        ..activities(env.store.clone(), &env.relay.url(), env.settings.clone())?
    };
    let options = registration::digest_worker(names::TASK_QUEUE, upgraded)?;
    env.worker = Some(Running::start(env.temporal.clone(), options)?);
    assert_eq!(ended(&env, &key).await?, DigestOutcome::Sent);
    env.events.emit(event(&key, "e2")).await?;
    wait_for_emails(&env.relay, 3, MINUTE).await?;
    let [before, after, next] = &env.relay.mails()[..] else { anyhow::bail!("not three mails") };
    ensure!(before.bytes() == after.bytes(), "the attempts sent different bytes");
    assert!(String::from_utf8(next.bytes())?.contains("Another text"), "the new template was not in force");
    Ok(())
}
