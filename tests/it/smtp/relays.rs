//! Relays that fail: an email goes by the next relay or waits, and every event is in one email.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use futures::future::{join_all, try_join_all};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tidings_harness::{
    buggy_store::Bug,
    cli_env::CliEnv,
    env::{Env, event, key, settings, sqlite},
    relay::{self, Act, At, FROM, Fault, Relay, events_by_message},
    wait::{eventually, wait_for_emails},
};
use tidings_mail::smtp::{AttemptOutcome, SendLane, SmtpTimeouts};
use tidings_model::{
    Provider,
    attempt::AttemptClass,
    breaker::BreakerCause,
    settings::{MessageRate, RateUnit, RelaySettings, Settings},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_services::relays::{BreakerCommand, RelayChoice, RelayRoute, RelaySet};
use tidings_store::{SqliteStore, Store, prelude::*};
use uuid::Uuid;

const ANN: &str = "ann@example.net";
const MINUTE: Duration = Duration::from_mins(1);

/// Bulk goes by these, the first of them preferred.
fn by(relays: &[(&str, RelaySettings)]) -> Settings {
    let mut settings = settings("instant", "instant");
    settings.relays = relays.iter().map(|(name, relay)| ((*name).to_owned(), relay.clone())).collect();
    settings.streams.bulk.relays = relays.iter().map(|(name, _)| (*name).to_owned()).collect();
    settings
}

fn at(relay: &Relay) -> Result<RelaySettings> {
    Ok(RelaySettings::new(relay.url().parse()?))
}

/// Why the circuit breaker is open.
async fn cause(store: &dyn Store, name: &str) -> Result<Option<BreakerCause>> {
    let mut breakers = store.breakers().await?;
    Ok(breakers.remove(name).and_then(|kept| kept.breaker.open).map(|open| open.cause))
}

fn policy() -> Fault {
    Fault::new(At::Rcpt, Act::Reply("550 5.7.606 we do not like you".into()))
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn after_wrong_credentials_the_next_relay_is_used_across_restarts() -> Result<()> {
    let login = Some(("ann".to_owned(), "right".to_owned()));
    let (first, second) =
        (Relay::with(relay::Settings { login, ..relay::Settings::default() }).await?, Relay::start().await?);
    let wrong = first.url().replace("smtp://", "smtp://ann:wrong@");
    let wrong = RelaySettings::new(wrong.parse()?);
    let mut env = Env::start(by(&[("first", wrong), ("second", at(&second)?)])).await?;
    env.events.emit(event(&key("activity", "ann"), "e1")).await?;
    wait_for_emails(&second, 1, MINUTE).await?;
    assert_eq!(cause(&*env.store, "first").await?, Some(BreakerCause::Configuration));
    assert_eq!(cause(&*env.store, "second").await?, None);
    env.completed(&key("activity", "ann")).await?;
    for (query, count) in [
        ("SELECT COUNT(*) FROM attempts WHERE relay = 'first' AND class = 'configuration' AND phase = 'auth'", 1),
        ("SELECT COUNT(*) FROM attempts WHERE relay = 'second' AND class = 'sent'", 1),
        ("SELECT COUNT(*) FROM suppressions", 0),
    ] {
        assert_eq!(env.count(query).await?, count, "{query}");
    }

    let connections = first.connections();
    for restart in [false, true] {
        if restart {
            env.stop_worker()?;
            env.start_worker()?;
        }
        let before = second.mails().len();
        env.events.emit(event(&key("alerts", "bo"), &format!("{restart}"))).await?;
        wait_for_emails(&second, before + 1, MINUTE).await?;
    }
    assert_eq!((first.connections(), first.mails().len(), second.mails().len()), (connections, 0, 3));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn digests_wait_while_every_breaker_is_open() -> Result<()> {
    let (first, second) = (Relay::start().await?, Relay::start().await?);
    first.fault(policy());
    second.fault(policy());
    let env = Env::start(by(&[("first", at(&first)?), ("second", at(&second)?)])).await?;
    let keys: Vec<_> = (0..8).map(|n| key("activity", &format!("u{n}"))).collect();
    try_join_all(keys.iter().map(|key| env.events.emit(event(key, "e1")))).await?;
    eventually("both circuit breakers are open", MINUTE, async || {
        let both = (cause(&*env.store, "first").await?, cause(&*env.store, "second").await?);
        Ok((both == (Some(BreakerCause::Policy), Some(BreakerCause::Policy))).then_some(()))
    })
    .await?;
    eventually("every digest waits", MINUTE, async || {
        let waiting = env.status(&keys[7]).await?;
        Ok(waiting.delivering.is_some_and(|digest| digest.why.contains("550 5.7.606")).then_some(()))
    })
    .await?;
    // What comes meanwhile waits for the next digest of its key.
    env.events.emit(event(&keys[0], "e2")).await?;
    assert_eq!((first.mails().len(), second.mails().len()), (0, 0));
    assert_eq!(env.count("SELECT COUNT(*) FROM suppressions").await?, 0);

    second.heal();
    BreakerCommand::Close.carry_out(&*env.store, "second", "carol", "ticket 812", Timestamp::now()).await?;
    wait_for_emails(&second, 9, 2 * MINUTE).await?;
    for key in &keys {
        env.completed(key).await?;
    }
    let told = events_by_message(&second.mails())?;
    assert_eq!((told.len(), told.values().sum::<u64>(), second.mails().len()), (9, 9, 9));
    assert!(first.mails().is_empty());
    assert_eq!(
        env.count("SELECT COUNT(*) FROM audit WHERE action = 'relay_close second' AND actor = 'carol'").await?,
        1
    );
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn after_its_retries_a_failed_digest_returns_its_events() -> Result<()> {
    let relay = Relay::start().await?;
    relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(3));
    let mut settings = by(&[("own", at(&relay)?)]);
    settings.streams.bulk.retry_delays = vec![Duration::from_secs(1), Duration::ZERO];
    let env = Env::start(settings).await?;
    let key = key("activity", "ann");
    env.events.emit(event(&key, "e1")).await?;
    env.completed(&key).await?;
    let digests = env.store.digests(&key, 10).await?;
    let outcomes: Vec<_> = digests.into_iter().filter_map(|digest| Some(digest.closed?.outcome)).collect();
    assert_eq!(outcomes, [DigestOutcome::Sent, DigestOutcome::Failed], "the latest first");
    assert_eq!(env.count("SELECT COUNT(*) FROM attempts WHERE class = 'deferred'").await?, 3);
    assert_eq!(events_by_message(&relay.mails())?.into_values().collect::<Vec<_>>(), [1]);
    Ok(())
}

/// A worker's view of one relay.
fn worker(relay: &Relay, provider: Provider) -> Result<RelaySet> {
    let settings = RelaySettings { provider, ..at(relay)? };
    Ok(RelaySet::new(&BTreeMap::from([("own".to_owned(), settings)]), SmtpTimeouts::default())?)
}

async fn store() -> Result<(Arc<SqliteStore>, TempDir)> {
    let folder = TempDir::new()?;
    Ok((sqlite(folder.path()).await?, folder))
}

fn names() -> Vec<String> {
    vec!["own".to_owned()]
}

async fn attempt(route: &RelayRoute<'_>) -> AttemptOutcome {
    let slot = route.slot(SendLane::Digests, ANN).await.expect("the relays are open");
    match route.offer(slot, FROM, ANN, &relay::bytes("Three new comments")).await {
        Ok(ready) => ready.send_dot().await,
        Err(delivery) => delivery,
    }
}

/// Chooses, tries, and tells the breaker.
async fn send(relays: &RelaySet, store: &SqliteStore, message: u128, now: Timestamp) -> Result<Option<AttemptClass>> {
    let RelayChoice::By(route) = relays.choose_relay(store, &names(), None, Uuid::from_u128(message), now).await?
    else {
        return Ok(None);
    };
    let delivery = attempt(&route).await;
    relays.report_result(store, &route, &delivery, (ANN, false), now).await;
    Ok(Some(delivery.class))
}

#[tokio::test]
async fn one_message_among_all_workers_probes_an_open_relay() -> Result<()> {
    let relay = Relay::start().await?;
    let (store, _folder) = store().await?;
    let workers = [worker(&relay, Provider::Other)?, worker(&relay, Provider::Other)?];
    relay.fault(policy());
    let start = Timestamp::now();
    assert_eq!(send(&workers[0], &store, 1, start).await?, Some(AttemptClass::Policy));
    assert_eq!(send(&workers[1], &store, 2, start).await?, None, "the other worker knows");
    relay.heal();

    let over = start + SignedDuration::from_mins(5);
    let names = names();
    let ask = |n: u128| {
        let (worker, store, names) = (&workers[usize::from(n.is_multiple_of(2))], &store, &names);
        async move { worker.choose_relay(&**store, names, None, Uuid::from_u128(n), over).await }
    };
    let mut tries = Vec::new();
    for choice in join_all((10..30).map(ask)).await {
        if let RelayChoice::By(route) = choice? {
            tries.push(route);
        }
    }
    let [route] = &tries[..] else { bail!("{} messages try it", tries.len()) };
    let delivery = attempt(route).await;
    assert_eq!(delivery.class, AttemptClass::Sent);
    workers[0].report_result(&*store, route, &delivery, (ANN, false), over).await;
    assert_eq!(cause(&*store, "own").await?, None);
    for message in 40..44 {
        assert_eq!(send(&workers[0], &store, message, over).await?, Some(AttemptClass::Sent));
    }
    Ok(())
}

/// Also when the process stands still before it has the answer for some of them.
#[tokio::test]
async fn concurrent_successes_are_each_counted_once() -> Result<()> {
    // Fewer outcomes than the breaker keeps before it forgets the older half.
    const MESSAGES: u32 = 60;
    let relay = Relay::start().await?;
    let (store, _folder) = store().await?;
    Bug::LateAnswers.put_into(&store);
    let relays = worker(&relay, Provider::Other)?;
    let route = relays.route("own", Uuid::nil()).context("it is configured")?;
    let delivery = attempt(&route).await;
    assert_eq!(delivery.class, AttemptClass::Sent);
    let report = |_| relays.report_result(&*store, &route, &delivery, (ANN, false), Timestamp::now());
    join_all((0..MESSAGES).map(report)).await;
    let sent = store.breakers().await?.remove("own").context("nothing was written")?.breaker.sent;
    // The latest wait until there are more of them.
    assert!((MESSAGES / 2..=MESSAGES).contains(&sent), "{sent} of {MESSAGES} are counted");
    Ok(())
}

#[tokio::test]
async fn an_unreachable_relay_is_probed_and_used_again_when_it_is_back() -> Result<()> {
    let relay = Relay::start().await?;
    let (store, _folder) = store().await?;
    let relays = worker(&relay, Provider::Other)?;
    relay.fault(Fault::new(At::Greeting, Act::ReplyAndClose("421 4.3.2 shutting down".into())));
    let mut now = Timestamp::now();
    for message in 0..5 {
        assert_eq!(send(&relays, &store, message, now).await?, Some(AttemptClass::Deferred));
    }
    assert_eq!(cause(&*store, "own").await?, Some(BreakerCause::Outage));
    // Hours later, with one attempt in five minutes.
    let connections = relay.connections();
    for second in 0..3 * 3600 / 30 {
        now += SignedDuration::from_secs(30);
        send(&relays, &store, 100 + second, now).await?;
    }
    let tries = relay.connections() - connections;
    assert!((30..45).contains(&tries), "{tries} tries in three hours");

    relay.heal();
    now += SignedDuration::from_mins(5);
    assert_eq!(send(&relays, &store, 1000, now).await?, Some(AttemptClass::Sent));
    assert_eq!(send(&relays, &store, 1001, now).await?, Some(AttemptClass::Sent));
    Ok(())
}

#[tokio::test]
async fn provider_headers_precede_the_same_stored_bytes_every_time() -> Result<()> {
    let stored = relay::bytes("Three new comments");
    for provider in Provider::ALL {
        let relay = Relay::start().await?;
        let (store, _folder) = store().await?;
        let relays = worker(&relay, provider)?;
        for _ in 0..2 {
            assert_eq!(send(&relays, &store, 7, Timestamp::now()).await?, Some(AttemptClass::Sent));
        }
        let headers = provider.headers(Uuid::from_u128(7), None);
        let expected = [headers.as_bytes(), &stored].concat();
        assert!(relay.mails().iter().all(|mail| mail.bytes() == expected), "{}", provider.name());
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_gets_no_more_emails_a_second_than_its_rate() -> Result<()> {
    let relay = Relay::start().await?;
    let rate = Some(MessageRate { mails: 5, per: RateUnit::Second });
    let env = Env::start(by(&[("slow", RelaySettings { rate, ..at(&relay)? })])).await?;
    let keys: Vec<_> = (0..40).map(|n| key("activity", &format!("u{n}"))).collect();
    try_join_all(keys.iter().map(|key| env.events.emit(event(key, "e1")))).await?;
    wait_for_emails(&relay, 40, 2 * MINUTE).await?;
    let mails = relay.mails();
    let (first, last) = (mails.first().context("no mail")?.at, mails.last().context("no mail")?.at);
    let took = last.duration_since(first);
    // The server lets a second's worth through at once.
    assert!(took >= SignedDuration::from_secs(6), "40 mails took {took}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_tests_opens_and_closes_relays() -> Result<()> {
    let cli = CliEnv::start("instant").await?;
    let (code, said) = cli.ask(&["relays", "list"]).await?;
    assert_eq!((code, said), (0, format!("default  {}  bulk, transactional: in use\n", cli.relay.url())));

    let (code, said) = cli.ask(&["relays", "test", "default", "--to", ANN]).await?;
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("connect: ok\ngreeting: ok\nehlo: ok\nnoop: ok\nmail: ok, 250"), "{said}");
    assert_eq!(cli.relay.mails().len(), 1);
    assert_eq!(cli.relay.mails()[0].to, [ANN]);

    let opportunistic = format!("{}?tls=opportunistic", cli.relay.url());
    let mut test = cli.tidings();
    let output = test.env("TIDINGS_SMTP_URL", opportunistic).args(["relays", "test", "default"]).output().await?;
    let said = String::from_utf8(output.stdout)?;
    let phases = "connect: ok\ngreeting: ok\nehlo: ok\ntls: ok, not offered: connection unencrypted\nnoop: ok\n";
    assert_eq!(said, phases, "{}", String::from_utf8_lossy(&output.stderr));

    cli.relay.fault(Fault::new(At::Ehlo, Act::Reply("550 5.7.1 go away".into())));
    let (code, said) = cli.ask(&["relays", "test", "default"]).await?;
    assert_eq!((code, said.as_str()), (1, "connect: ok\ngreeting: ok\nehlo: failed, 550 5.7.1 go away\n"));
    cli.relay.heal();

    let (code, said) = cli.ask(&["relays", "open", "default", "--by", "carol", "--why", "ticket 812"]).await?;
    assert_eq!(code, 0);
    assert!(said.contains("operator: ticket 812; until `tidings relays close default`"), "{said}");
    let (_, said) = cli.ask(&["relays", "list", "--json"]).await?;
    let shown: serde_json::Value = serde_json::from_str(&said)?;
    assert_eq!((&shown[0]["state"], &shown[0]["cause"]), (&"open".into(), &"operator".into()), "{said}");
    let (code, said) = cli.ask(&["relays", "close", "default", "--json"]).await?;
    let shown: serde_json::Value = serde_json::from_str(&said)?;
    assert_eq!((code, &shown["state"]), (0, &"closed".into()));
    let (code, said) = cli.ask(&["relays", "close", "defautl"]).await?;
    assert_eq!((code, said.as_str()), (2, ""));
    Ok(())
}
