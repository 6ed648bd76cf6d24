//! Connections are limited, used again, and replaced when the relay closed them.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use tidings_harness::relay::{Act, At, Fault, Relay, Settings, deliver, mailer, mailer_with};
use tidings_mail::smtp::{Limits, Timeouts};
use tidings_model::attempt::AttemptClass;

const ANN: &str = "ann@example.net";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_connections_never_exceed_the_limit() -> Result<()> {
    let relay = Relay::start().await?;
    let slow = Act::Slow(Duration::from_millis(5));
    relay.fault(Fault::new(At::Greeting, slow.clone()));
    relay.fault(Fault::new(At::Rcpt, Act::Reply("450 4.2.0 later".into())).times(20));
    relay.fault(Fault::new(At::Dot, slow));
    let mailer = mailer_with(&relay.url(), Limits { connections: 3, ..Limits::default() }, Timeouts::default())?;
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
    let mailer = mailer_with(&relay.url(), Limits { messages: 5, ..Limits::default() }, Timeouts::default())?;
    for _ in 0..20 {
        assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    }
    assert_eq!(relay.connections(), 4);
    Ok(())
}

#[tokio::test]
async fn an_old_or_idle_connection_is_not_reused() -> Result<()> {
    for limits in
        [Limits { idle: Duration::ZERO, ..Limits::default() }, Limits { age: Duration::ZERO, ..Limits::default() }]
    {
        let relay = Relay::start().await?;
        let mailer = mailer_with(&relay.url(), limits, Timeouts::default())?;
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
async fn closing_sends_quit_and_defers_later_messages() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer = mailer(&relay.url())?;
    let both = join_all([deliver(&mailer, ANN), deliver(&mailer, ANN)]).await;
    assert!(both.iter().all(|delivery| delivery.class == AttemptClass::Sent));
    mailer.close().await;
    relay.until("the connections close", |relay| relay.open_connections() == 0).await?;
    assert_eq!(relay.commands().iter().filter(|verb| *verb == "QUIT").count(), 2);
    let late = deliver(&mailer, ANN).await;
    assert_eq!((late.class, late.detail.as_str()), (AttemptClass::Deferred, "connect: the mailer is closed"));
    Ok(())
}
