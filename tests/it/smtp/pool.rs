//! Connections are limited, used again, and replaced when the relay closed them.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use tidings_harness::relay::{Act, At, Fault, Relay, Settings, deliver, mailer, mailer_with};
use tidings_mail::smtp::{PoolLimits, SendLane, SmtpTimeouts};
use tidings_model::attempt::AttemptClass;

const ANN: &str = "ann@example.net";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_connections_never_exceed_the_limit() -> Result<()> {
    let relay = Relay::start().await?;
    let slow = Act::Slow(Duration::from_millis(5));
    relay.fault(Fault::new(At::Greeting, slow.clone()));
    relay.fault(Fault::new(At::Rcpt, Act::Reply("450 4.2.0 later".into())).times(20));
    relay.fault(Fault::new(At::Dot, slow));
    let mailer =
        mailer_with(&relay.url(), PoolLimits { connections: 3, ..PoolLimits::default() }, SmtpTimeouts::default())?;
    let classes = join_all((0..100).map(|_| deliver(&mailer, ANN))).await;
    assert_eq!(classes.iter().filter(|delivery| delivery.class == AttemptClass::Sent).count(), 80);
    assert_eq!(relay.mails().len(), 80);
    assert_eq!(relay.most_connections(), 3);
    Ok(())
}

#[tokio::test]
async fn one_connection_carries_many_messages_despite_refusals() -> Result<()> {
    let relay = Relay::start().await?;
    for at in [At::Rcpt, At::Data, At::Dot] {
        relay.fault(Fault::new(at, Act::Reply("550 5.1.1 no".into())).after(2).times(1));
    }
    let mailer = mailer(&relay.url())?;
    let mut sent = 0;
    for _ in 0..20 {
        sent += usize::from(deliver(&mailer, ANN).await.class == AttemptClass::Sent);
    }
    assert_eq!((sent, relay.mails().len(), relay.connections()), (17, 17, 1));
    Ok(())
}

#[tokio::test]
async fn a_session_that_takes_no_more_messages_is_given_up() -> Result<()> {
    for (at, reply) in [
        (At::Mail, "451 4.3.2 Mails per session limit"),
        (At::Mail, "451 4.3.0 later"),
        (At::Rcpt, "452 4.5.3 Too many recipients: Too many messages sent"),
        (At::Rcpt, "421 4.5.0 Too many errors, bye"),
    ] {
        let relay = Relay::start().await?;
        relay.fault(Fault::new(at, Act::Reply(reply.into())).after(2).times(1));
        let mailer = mailer(&relay.url())?;
        for _ in 0..4 {
            assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent, "{reply}");
        }
        assert_eq!((relay.mails().len(), relay.connections()), (4, 2), "{reply}");
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_closes_after_its_number_of_messages() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer =
        mailer_with(&relay.url(), PoolLimits { messages: 5, ..PoolLimits::default() }, SmtpTimeouts::default())?;
    for _ in 0..20 {
        assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    }
    assert_eq!(relay.connections(), 4);
    Ok(())
}

#[tokio::test]
async fn an_old_or_idle_connection_is_not_reused() -> Result<()> {
    for limits in [
        PoolLimits { idle: Duration::ZERO, ..PoolLimits::default() },
        PoolLimits { age: Duration::ZERO, ..PoolLimits::default() },
    ] {
        let relay = Relay::start().await?;
        let mailer = mailer_with(&relay.url(), limits, SmtpTimeouts::default())?;
        for _ in 0..3 {
            assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
        }
        assert_eq!(relay.connections(), 3, "{limits:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_silently() -> Result<()> {
    for at_idle in [None, Some(Act::Close)] {
        let relay = Relay::with(Settings { idle: Some(Duration::from_millis(100)), ..Settings::default() }).await?;
        if let Some(act) = at_idle {
            relay.fault(Fault::new(At::Idle, act));
        }
        let mailer = mailer(&relay.url())?;
        for round in 1..=3 {
            assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
            assert_eq!((relay.mails().len(), relay.connections()), (round, round));
            relay.until("the idle connection closes", |relay| relay.open_connections() == 0).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_reused_connection_that_ends_at_mail_or_rset_is_replaced() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer = mailer(&relay.url())?;
    relay.fault(Fault::new(At::Mail, Act::ReplyAndClose("421 4.7.0 too many messages".into())).after(1).times(1));
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);

    relay.heal();
    relay.fault(Fault::new(At::Rcpt, Act::Reply("550 5.1.1 no".into())).times(1));
    relay.fault(Fault::new(At::Rset, Act::Reply("502 5.5.1 what?".into())));
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::HardBounce);
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    assert_eq!((relay.mails().len(), relay.connections()), (3, 3));
    Ok(())
}

#[tokio::test]
async fn a_reused_connection_that_stays_silent_is_replaced() -> Result<()> {
    let relay = Relay::start().await?;
    let timeouts = SmtpTimeouts { reused: Duration::from_millis(200), ..SmtpTimeouts::default() };
    let mailer = mailer_with(&relay.url(), PoolLimits::default(), timeouts)?;
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    relay.fault(Fault::new(At::Mail, Act::Silent).times(1));
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    assert_eq!((relay.mails().len(), relay.connections()), (2, 2));
    Ok(())
}

#[tokio::test]
async fn closing_sends_quit_and_defers_later_messages() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer = mailer(&relay.url())?;
    let both = join_all([deliver(&mailer, ANN), deliver(&mailer, ANN)]).await;
    assert!(both.iter().all(|delivery| delivery.class == AttemptClass::Sent));
    mailer.close().await;
    relay.until("the connections close", |relay| relay.open_connections() == 0).await?;
    assert_eq!(relay.commands().iter().filter(|verb| *verb == "QUIT").count(), 2);
    assert!(mailer.acquire_slot(SendLane::Digests, ANN).await.is_none());
    Ok(())
}

#[tokio::test]
async fn a_relay_that_takes_three_connections_gets_every_message_over_three() -> Result<()> {
    let relay = Relay::with(Settings { connections: Some(3), ..Settings::default() }).await?;
    relay.fault(Fault::new(At::Dot, Act::Slow(Duration::from_millis(20))));
    let mailer = mailer(&relay.url())?;
    let classes = join_all((0..60).map(|_| deliver(&mailer, ANN))).await;
    assert!(classes.iter().all(|delivery| delivery.class == AttemptClass::Sent), "{classes:?}");
    assert_eq!(relay.mails().len(), 60);
    assert!(relay.connections() <= PoolLimits::default().connections, "{} were opened", relay.connections());
    Ok(())
}

#[tokio::test]
async fn mail_to_others_does_not_wait_for_a_domain_that_stalls() -> Result<()> {
    const SLOW: &str = "bo@slow.example";
    let relay = Relay::start().await?;
    let mailer = mailer(&relay.url())?;
    // The domain was well, so that it may use all connections.
    assert_eq!(deliver(&mailer, SLOW).await.class, AttemptClass::Sent);
    relay.fault(Fault::new(At::Rcpt, Act::Slow(Duration::from_secs(6))).to(SLOW).times(10));
    let stalled = tokio::spawn({
        let mailer = mailer.clone();
        async move { join_all((0..10).map(|_| deliver(&mailer, SLOW))).await }
    });
    relay.until("all connections are in use", |relay| relay.open_connections() == 10).await?;
    let others = join_all((0..10).map(|_| deliver(&mailer, ANN))).await;
    assert!(others.iter().all(|delivery| delivery.class == AttemptClass::Sent), "{others:?}");
    assert!(!stalled.is_finished(), "they waited");
    let stalled = stalled.await?;
    assert!(stalled.iter().all(|delivery| delivery.class == AttemptClass::Sent), "{stalled:?}");
    assert_eq!(relay.mails().len(), 21);
    Ok(())
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() -> Result<()> {
    let relay = Relay::start().await?;
    let limits = PoolLimits { idle: Duration::from_millis(100), ..PoolLimits::default() };
    let mailer = mailer_with(&relay.url(), limits, SmtpTimeouts::default())?;
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    relay.until("it closes", |relay| relay.open_connections() == 0).await?;
    assert!(relay.commands().iter().any(|verb| verb == "QUIT"));
    Ok(())
}
