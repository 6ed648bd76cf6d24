//! Bounces and complaints of one tenant's messages, which stop no other tenant's.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use tempfile::TempDir;
use tidings_harness::{
    env::{Env, event, settings, sqlite},
    relay::{self, Act, At, FROM, Fault, Relay},
    wait::{eventually, wait_for_emails},
};
use tidings_mail::smtp::{SendLane, SmtpTimeouts};
use tidings_model::{
    Key,
    attempt::AttemptClass,
    breaker::BreakerCause,
    delivery_events::{DeliveryEvent, ReportKind},
    settings::{RelaySettings, Settings, TenantSettings},
};
use tidings_needs::needs;
use tidings_services::{
    delivery_events,
    relays::{BreakerCommand, RelayChoice, RelaySet},
};
use tidings_store::{SqliteStore, Store, prelude::*};
use uuid::Uuid;

const MINUTE: Duration = Duration::from_mins(1);

/// The tenants acme and bolt have tables, and share everybody's relay.
fn shared() -> Settings {
    let mut settings = settings("instant", "instant");
    for tenant in ["acme", "bolt"] {
        settings.tenants.insert(tenant.to_owned(), TenantSettings::new(settings.streams.clone()));
    }
    settings
}

fn key(tenant: &str, user: &str) -> Result<Key> {
    Ok(Key::new(tenant.to_owned(), "activity".to_owned(), user.to_owned())?)
}

/// Why mail does not go by this breaker.
async fn cause(store: &dyn Store, name: &str) -> Result<Option<BreakerCause>> {
    let mut breakers = store.breakers().await?;
    Ok(breakers.remove(name).and_then(|kept| kept.breaker.open).map(|open| open.cause))
}

/// Sends a digest of the user, and reports that the user complained.
async fn complains(env: &Env, key: &Key, already: usize) -> Result<()> {
    env.events.emit(event(key, "e1")).await?;
    wait_for_emails(&env.relay, already + 1, MINUTE).await?;
    env.completed(key).await?;
    let digest = env.store.digests(key, 1).await?.pop().context("no digest")?;
    let complaint = DeliveryEvent {
        relay: Some("default".to_owned()),
        message: Some(digest.digest_id.to_string()),
        ..DeliveryEvent::new(ReportKind::Complained, Timestamp::now())
    };
    for again in [false, true] {
        let recorded =
            delivery_events::record_event(&*env.store, &env.settings, complaint.clone(), Timestamp::now()).await?;
        assert_eq!(recorded.again, again);
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn complaints_of_one_tenant_stop_its_mail_and_no_other() -> Result<()> {
    let mut env = Env::start(shared()).await?;
    for n in 0..3 {
        assert_eq!(cause(&*env.store, "default/acme").await?, None, "after {n} complaints");
        complains(&env, &key("acme", &format!("u{n}"))?, n).await?;
    }
    assert_eq!(cause(&*env.store, "default/acme").await?, Some(BreakerCause::Complaints));
    // A worker that has read no breaker yet.
    env.stop_worker()?;
    env.start_worker()?;
    let waits = key("acme", "ann")?;
    env.events.emit(event(&waits, "e1")).await?;
    eventually("the digest of acme waits", MINUTE, async || {
        let said = env.status(&waits).await?.delivering.map(|digest| digest.why);
        Ok(said.is_some_and(|why| why.contains("default/acme: complaints: 3 complaints")).then_some(()))
    })
    .await?;
    for (already, tenant) in [(3, "bolt"), (4, "cask")] {
        env.events.emit(event(&key(tenant, "ann")?, "e1")).await?;
        wait_for_emails(&env.relay, already + 1, MINUTE).await?;
    }
    assert_eq!((cause(&*env.store, "default").await?, cause(&*env.store, "default/bolt").await?), (None, None));

    BreakerCommand::Close.carry_out(&*env.store, "default/acme", "carol", "ticket 812", Timestamp::now()).await?;
    wait_for_emails(&env.relay, 6, 2 * MINUTE).await?;
    env.completed(&waits).await?;
    let audited = "SELECT COUNT(*) FROM audit WHERE action = 'relay_close default/acme' AND actor = 'carol'";
    assert_eq!(env.count(audited).await?, 1);
    Ok(())
}

/// Relays in use, without a workflow.
struct Bench {
    relay: Relay,
    relays: RelaySet,
    store: Arc<SqliteStore>,
    _folder: TempDir,
}

impl Bench {
    async fn start() -> Result<Self> {
        let (relay, folder) = (Relay::start().await?, TempDir::new()?);
        let settings = RelaySettings::new(relay.url().parse()?);
        let relays = RelaySet::new(&[("own".to_owned(), settings)].into(), SmtpTimeouts::default())?;
        Ok(Self { relays, store: sqlite(folder.path()).await?, relay, _folder: folder })
    }

    /// Chooses the relay for a message of the tenant, tries it, and tells the breakers. `None`: no relay takes the message now.
    async fn send(
        &self,
        tenant: Option<&str>,
        message: u128,
        to: &str,
        now: Timestamp,
    ) -> Result<Option<AttemptClass>> {
        let (names, message) = (["own".to_owned()], Uuid::from_u128(message));
        let RelayChoice::By(route) = self.relays.choose_relay(&*self.store, &names, tenant, message, now).await? else {
            return Ok(None);
        };
        let slot = route.slot(SendLane::Digests, to).await.context("the relays are closed")?;
        let delivery = match route.offer(slot, FROM, to, &relay::bytes("Three new comments")).await {
            Ok(ready) => ready.send_dot().await,
            Err(delivery) => delivery,
        };
        self.relays.report_result(&*self.store, &route, &delivery, (to, false), now).await;
        Ok(Some(delivery.class))
    }
}

#[tokio::test]
async fn bounces_count_for_the_tenant_and_connections_for_the_relay() -> Result<()> {
    let bench = Bench::start().await?;
    bench.relay.fault(Fault::new(At::Rcpt, Act::Reply("550 5.1.1 no such user".into())).to("bo@example.net"));
    let now = Timestamp::now();
    for n in 0..100 {
        assert_eq!(bench.send(Some("acme"), n, "bo@example.net", now).await?, Some(AttemptClass::HardBounce));
    }
    assert_eq!(cause(&*bench.store, "own/acme").await?, Some(BreakerCause::Bounces));
    assert_eq!(bench.send(Some("acme"), 200, "ann@example.net", now).await?, None);
    for tenant in [Some("bolt"), None] {
        assert_eq!(bench.send(tenant, 201, "ann@example.net", now).await?, Some(AttemptClass::Sent), "{tenant:?}");
    }
    // After its time one message of the tenant tries it, and closes the breaker.
    let over = now + Duration::from_mins(30);
    assert_eq!(bench.send(Some("acme"), 202, "ann@example.net", over).await?, Some(AttemptClass::Sent));
    assert_eq!(cause(&*bench.store, "own/acme").await?, None);

    bench.relay.heal();
    bench.relay.fault(Fault::new(At::Greeting, Act::ReplyAndClose("421 4.3.2 shutting down".into())));
    let fresh = RelaySet::new(
        &[("own".to_owned(), RelaySettings::new(bench.relay.url().parse()?))].into(),
        SmtpTimeouts::default(),
    )?;
    let bench = Bench { relays: fresh, ..bench };
    for n in 300..305 {
        assert_eq!(bench.send(Some("acme"), n, "ann@example.net", over).await?, Some(AttemptClass::Deferred));
    }
    assert_eq!(cause(&*bench.store, "own").await?, Some(BreakerCause::Outage));
    assert_eq!(bench.send(Some("bolt"), 400, "ann@example.net", over).await?, None, "the relay is everybody's");
    Ok(())
}

#[tokio::test]
async fn bounces_of_others_do_not_stop_a_tenant_with_a_table() -> Result<()> {
    let bench = Bench::start().await?;
    bench.relay.fault(Fault::new(At::Rcpt, Act::Reply("550 5.1.1 no such user".into())).to("bo@example.net"));
    let now = Timestamp::now();
    for n in 0..100 {
        bench.send(None, n, "bo@example.net", now).await?;
    }
    assert_eq!(cause(&*bench.store, "own").await?, Some(BreakerCause::Bounces));
    assert_eq!(bench.send(None, 200, "ann@example.net", now).await?, None);
    let Some(AttemptClass::Sent) = bench.send(Some("acme"), 201, "ann@example.net", now).await? else {
        bail!("the mail of others stops acme's");
    };
    assert_eq!(cause(&*bench.store, "own").await?, Some(BreakerCause::Bounces), "acme's message is no probe");
    Ok(())
}
