//! The table of SMTP outcomes, row by row, over a real connection.

use std::time::Duration;

use anyhow::Result;
use tidings_harness::relay::{Act, At, FROM, Fault, Relay, Settings, bytes, deliver, mailer, mailer_with, offer};
use tidings_mail::smtp::{Follows, OUTCOMES, PoolLimits, RowEvent, SmtpTimeouts, WithdrawReason};
use tidings_model::attempt::{AttemptClass, AttemptPhase};

const ANN: &str = "ann@example.net";

fn reply(text: &str) -> Act {
    Act::Reply(text.to_owned())
}

#[tokio::test]
async fn each_reply_has_its_class_and_the_next_message_is_sent() -> Result<()> {
    let login = Some(("ann".to_owned(), "secret".to_owned()));
    for row in OUTCOMES {
        let RowEvent::Reply(text) = row.event else { continue };
        let at = match row.phase {
            AttemptPhase::Greeting => At::Greeting,
            AttemptPhase::Ehlo => At::Ehlo,
            AttemptPhase::Auth => At::Auth,
            AttemptPhase::Mail => At::Mail,
            AttemptPhase::Rcpt => At::Rcpt,
            AttemptPhase::Data => At::Data,
            AttemptPhase::Dot if row.follows != Follows::Delivered => At::Dot,
            _ => continue,
        };
        let relay = Relay::with(Settings { login: login.clone(), ..Settings::default() }).await?;
        a_reply_ends_one_attempt(&relay, at, text, (row.class, row.phase)).await?;
    }
    let lines = "550-5.1.1 no such user\r\n550 5.1.1 see help";
    let relay = Relay::with(Settings { login, ..Settings::default() }).await?;
    a_reply_ends_one_attempt(&relay, At::Rcpt, lines, (AttemptClass::HardBounce, AttemptPhase::Rcpt)).await
}

async fn a_reply_ends_one_attempt(
    relay: &Relay,
    at: At,
    text: &str,
    expected: (AttemptClass, AttemptPhase),
) -> Result<()> {
    relay.fault(Fault::new(at, reply(text)).times(1));
    let mailer = mailer(&relay.url().replace("smtp://", "smtp://ann:secret@"))?;
    let delivery = deliver(&mailer, ANN).await;
    assert_eq!((delivery.class, delivery.phase), expected, "{at:?} {text}: {delivery:?}");
    assert_eq!(delivery.reply.map(|reply| reply.code), text.get(..3).and_then(|code| code.parse().ok()), "{text}");
    assert_eq!(relay.mails(), [], "{text}");

    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent, "after {at:?} {text}");
    assert_eq!(relay.mails().len(), 1, "after {at:?} {text}");
    Ok(())
}

#[tokio::test]
async fn a_connection_lost_before_the_dot_is_safe_to_retry() -> Result<()> {
    for (at, phase) in [
        (At::Greeting, AttemptPhase::Greeting),
        (At::Ehlo, AttemptPhase::Ehlo),
        (At::Mail, AttemptPhase::Mail),
        (At::Rcpt, AttemptPhase::Rcpt),
        (At::Data, AttemptPhase::Data),
    ] {
        for act in [Act::Close, Act::HalfClose, reply("what?"), reply("\u{fffd}\u{fffd}"), reply("25")] {
            let relay = Relay::start().await?;
            relay.fault(Fault::new(at, act.clone()));
            let delivery = deliver(&mailer(&relay.url())?, ANN).await;
            assert_eq!(
                (delivery.class, delivery.phase),
                (AttemptClass::Deferred, phase),
                "{at:?} {act:?}: {delivery:?}"
            );
            assert_eq!(relay.mails(), []);
        }
    }
    let gone = Relay::start().await?.url();
    let delivery = deliver(&mailer(&gone)?, ANN).await;
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Deferred, AttemptPhase::Connect));
    let nowhere = deliver(&mailer("smtp://host.invalid?tls=none")?, ANN).await;
    assert_eq!((nowhere.class, nowhere.phase), (AttemptClass::Deferred, AttemptPhase::Connect));
    Ok(())
}

#[tokio::test]
async fn a_connection_lost_within_the_content_is_safe_to_retry() -> Result<()> {
    let relay = Relay::start().await?;
    relay.fault(Fault::new(At::Body, Act::Close));
    // More than the buffers of both sides hold.
    let large = b"Three new comments\r\n".repeat(1_000_000);
    let delivery = offer(&mailer(&relay.url())?, ANN, &large).await.err().expect("the relay is gone");
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Deferred, AttemptPhase::Body));
    assert_eq!(relay.mails(), []);
    Ok(())
}

#[tokio::test]
async fn a_lost_or_unreadable_reply_to_the_dot_is_ambiguous() -> Result<()> {
    for (act, kept) in [
        (Act::Close, 0),
        (Act::HalfClose, 0),
        (Act::KeepAndClose, 1),
        (Act::KeepAndReply("what?".into()), 1),
        (Act::KeepAndReply("354 go on".into()), 1),
        (Act::KeepAndReply("25".into()), 1),
    ] {
        let relay = Relay::start().await?;
        relay.fault(Fault::new(At::Dot, act.clone()).times(1));
        let mailer = mailer(&relay.url())?;
        let delivery = deliver(&mailer, ANN).await;
        assert_eq!(
            (delivery.class, delivery.phase),
            (AttemptClass::Ambiguous, AttemptPhase::Dot),
            "{act:?}: {delivery:?}"
        );
        assert_eq!(relay.mails().len(), kept, "{act:?}");
        assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent, "after {act:?}");
        assert_eq!(relay.connections(), 2, "a late reply to the one must not be read as that to the other: {act:?}");
    }
    Ok(())
}

#[tokio::test]
async fn replies_of_bare_codes_are_accepted() -> Result<()> {
    let extensions = vec!["  ".to_owned(), "SIZE 1000  ".to_owned(), "\t".to_owned()];
    let relay = Relay::with(Settings { extensions, ..Settings::default() }).await?;
    for (at, code) in [(At::Greeting, "220"), (At::Mail, "250"), (At::Rcpt, "250"), (At::Data, "354")] {
        relay.fault(Fault::new(at, Act::Slip(code.into())).times(1));
    }
    relay.fault(Fault::new(At::Dot, Act::KeepAndReply("250".into())).times(1));
    let mailer = mailer(&relay.url())?;
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    assert_eq!(relay.mails().len(), 1);
    let large = offer(&mailer, ANN, &b"0123456789\r\n".repeat(100)).await.err();
    assert_eq!(large.map(|delivery| delivery.class), Some(AttemptClass::TooLarge));
    Ok(())
}

#[tokio::test]
async fn words_in_another_encoding_do_not_matter() -> Result<()> {
    let extensions = vec!["X-GRÜSSE ÿ".to_owned(), "SIZE 1000".to_owned()];
    let login = Some(("ann".to_owned(), "secret".to_owned()));
    let relay = Relay::with(Settings { latin1: true, login, extensions, ..Settings::default() }).await?;
    for (at, reply) in [
        (At::Greeting, "220 relay.test grüßt"),
        (At::Auth, "235 2.7.0 schön"),
        (At::Mail, "250-2.1.0 für\r\n250 2.1.0 alle"),
        (At::Rcpt, "250 2.1.5 gehört"),
        (At::Data, "354 Übertragung"),
        (At::Rset, "250 zurück"),
    ] {
        relay.fault(Fault::new(at, Act::Slip(reply.into())).times(1));
    }
    relay.fault(Fault::new(At::Dot, Act::KeepAndReply("250 2.0.0 angenommen für alle".into())).times(1));
    relay.fault(Fault::new(At::Rcpt, reply("550 5.1.1 Empfänger fehlt")).times(1));
    let mailer = mailer(&relay.url().replace("smtp://", "smtp://ann:secret@"))?;
    let sent = deliver(&mailer, ANN).await;
    assert_eq!(
        (sent.class, sent.reply.map(|reply| reply.text)),
        (AttemptClass::Sent, Some("angenommen f\u{fffd}r alle".into()))
    );
    let refused = deliver(&mailer, ANN).await;
    assert_eq!((refused.class, refused.phase), (AttemptClass::HardBounce, AttemptPhase::Rcpt), "{refused:?}");
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    assert_eq!((relay.mails().len(), relay.connections()), (2, 1));
    Ok(())
}

#[tokio::test]
async fn each_phase_has_its_own_timeout() -> Result<()> {
    let short = Duration::from_millis(200);
    let all = SmtpTimeouts::default();
    for (at, timeouts, phase, class) in [
        (At::Greeting, SmtpTimeouts { greeting: short, ..all }, AttemptPhase::Greeting, AttemptClass::Deferred),
        (At::Ehlo, SmtpTimeouts { greeting: short, ..all }, AttemptPhase::Ehlo, AttemptClass::Deferred),
        (At::Mail, SmtpTimeouts { command: short, ..all }, AttemptPhase::Mail, AttemptClass::Deferred),
        (At::Rcpt, SmtpTimeouts { command: short, ..all }, AttemptPhase::Rcpt, AttemptClass::Deferred),
        (At::Data, SmtpTimeouts { data: short, ..all }, AttemptPhase::Data, AttemptClass::Deferred),
        (At::Dot, SmtpTimeouts { dot: short, ..all }, AttemptPhase::Dot, AttemptClass::Ambiguous),
    ] {
        let relay = Relay::start().await?;
        relay.fault(Fault::new(at, Act::Silent));
        let delivery = deliver(&mailer_with(&relay.url(), PoolLimits::default(), timeouts)?, ANN).await;
        assert_eq!((delivery.class, delivery.phase), (class, phase), "{at:?}: {delivery:?}");
        assert!(delivery.detail.contains("no answer within 200ms"), "{delivery:?}");
    }
    Ok(())
}

/// A process that was frozen wakes up when the time for the reply is over, and the reply lies in its socket.
#[tokio::test]
async fn a_reply_is_read_when_its_time_is_over_before_anybody_looked() -> Result<()> {
    let relay = Relay::start().await?;
    let timeouts = SmtpTimeouts { dot: Duration::ZERO, ..SmtpTimeouts::default() };
    let delivery = deliver(&mailer_with(&relay.url(), PoolLimits::default(), timeouts)?, ANN).await;
    assert_eq!((delivery.class, relay.mails().len()), (AttemptClass::Sent, 1), "{delivery:?}");
    Ok(())
}

#[tokio::test]
async fn a_relay_that_stops_reading_is_abandoned_before_the_dot() -> Result<()> {
    let relay = Relay::start().await?;
    relay.fault(Fault::new(At::Body, Act::Slow(Duration::from_mins(1))));
    let timeouts = SmtpTimeouts { block: Duration::from_millis(200), ..SmtpTimeouts::default() };
    let mailer = mailer_with(&relay.url(), PoolLimits::default(), timeouts)?;
    let large = b"Three new comments\r\n".repeat(1_000_000);
    let delivery = offer(&mailer, ANN, &large).await.err().expect("the relay does not read");
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Deferred, AttemptPhase::Body));
    Ok(())
}

#[tokio::test]
async fn a_relay_that_answers_slowly_gets_the_message() -> Result<()> {
    let relay = Relay::start().await?;
    for at in [At::Greeting, At::Ehlo, At::Mail, At::Rcpt, At::Data, At::Body, At::Dot] {
        relay.fault(Fault::new(at, Act::Slow(Duration::from_millis(50))));
    }
    assert_eq!(deliver(&mailer(&relay.url())?, ANN).await.class, AttemptClass::Sent);
    Ok(())
}

#[tokio::test]
async fn a_message_withdrawn_before_the_dot_is_not_sent() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer = mailer(&relay.url())?;
    for (why, class) in [
        (Some(WithdrawReason::Fenced), AttemptClass::Fenced),
        (Some(WithdrawReason::Cancelled), AttemptClass::Cancelled),
        (Some(WithdrawReason::Unrecorded("the store is unavailable".into())), AttemptClass::Deferred),
        (None, AttemptClass::Cancelled),
    ] {
        let ready = offer(&mailer, ANN, &bytes("Three new comments")).await.expect("a relay that takes it");
        match why {
            Some(why) => assert_eq!(ready.withdraw(why).class, class),
            None => drop(ready),
        }
        relay.until("the connection closes", |relay| relay.open_connections() == 0).await?;
    }
    assert_eq!(relay.mails(), []);
    Ok(())
}

#[tokio::test]
async fn a_dropped_offer_sends_nothing_and_frees_its_connection() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer =
        mailer_with(&relay.url(), PoolLimits { connections: 1, ..PoolLimits::default() }, SmtpTimeouts::default())?;
    for at in [At::Greeting, At::Ehlo, At::Mail, At::Rcpt, At::Data] {
        relay.fault(Fault::new(at, Act::Silent));
        let cut = tokio::time::timeout(Duration::from_millis(50), deliver(&mailer, ANN)).await;
        assert!(cut.is_err(), "{at:?}");
        relay.until("the connection closes", |relay| relay.open_connections() == 0).await?;
        relay.heal();
    }
    assert_eq!(relay.mails(), []);
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    Ok(())
}

#[tokio::test]
async fn the_relay_gets_the_exact_bytes_every_time() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer = mailer(&relay.url())?;
    let large = "A line of text.\n.\n..and dots\n".repeat(20_000);
    for message in [bytes("."), bytes(&large), bytes(&"ü".repeat(100_000)), b".\r\n.\r\n..\r\n".to_vec()] {
        for _ in 0..2 {
            let ready = offer(&mailer, ANN, &message).await.expect("a relay that takes it");
            assert_eq!(ready.send_dot().await.class, AttemptClass::Sent);
            let kept = relay.mails().pop().expect("a mail");
            assert!(kept.bytes() == message, "{} bytes became {}", message.len(), kept.bytes().len());
            assert_eq!((kept.from.as_str(), kept.to.as_slice()), (FROM, &[ANN.to_owned()][..]));
        }
    }
    assert_eq!(relay.connections(), 1);
    Ok(())
}

#[tokio::test]
async fn a_message_over_the_advertised_size_is_not_offered() -> Result<()> {
    let relay = Relay::with(Settings { extensions: vec!["SIZE 2000".into()], ..Settings::default() }).await?;
    let mailer = mailer(&relay.url())?;
    let delivery = offer(&mailer, ANN, &bytes(&"long ".repeat(1000))).await.err().expect("it is too large");
    assert_eq!(delivery.class, AttemptClass::TooLarge);
    assert!(!relay.commands().contains(&"MAIL".to_owned()));
    assert_eq!(deliver(&mailer, ANN).await.class, AttemptClass::Sent);
    Ok(())
}

#[tokio::test]
async fn an_international_address_needs_smtputf8() -> Result<()> {
    let without = Relay::start().await?;
    let delivery = deliver(&mailer(&without.url())?, "zoë@example.net").await;
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Failed, AttemptPhase::Rcpt));
    assert!(delivery.detail.contains("SMTPUTF8"), "{}", delivery.detail);

    let with = Relay::with(Settings { extensions: vec!["SMTPUTF8".into(), "8BITMIME".into()], ..Settings::default() });
    let with = with.await?;
    assert_eq!(deliver(&mailer(&with.url())?, "zoë@example.net").await.class, AttemptClass::Sent);
    assert_eq!(with.mails()[0].to, ["zoë@example.net"]);
    Ok(())
}

#[tokio::test]
async fn a_quoted_local_part_is_sent_in_quotes_and_is_in_no_stored_reply() -> Result<()> {
    let relay = Relay::start().await?;
    let mailer = mailer(&relay.url())?;
    assert_eq!(deliver(&mailer, "hanako.@docomo.ne.jp").await.class, AttemptClass::Sent);
    assert_eq!(relay.mails()[0].to, ["\"hanako.\"@docomo.ne.jp"]);
    for said in ["550 5.1.1 <\"john smith\"@example.net>: no such user", "550 5.1.1 User <john smith> unknown"] {
        relay.fault(Fault::new(At::Rcpt, reply(said)).times(1));
        let delivery = deliver(&mailer, "\"john smith\"@example.net").await;
        assert_eq!(delivery.class, AttemptClass::HardBounce);
        assert!(!format!("{delivery:?}").contains("john"), "{delivery:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_stored_reply_does_not_contain_the_address() -> Result<()> {
    let relay = Relay::start().await?;
    relay.fault(Fault::new(At::Rcpt, reply("550 5.1.1 <ann@example.net>: no such user")));
    let delivery = deliver(&mailer(&relay.url())?, ANN).await;
    assert_eq!(
        delivery.reply.clone().map(|reply| reply.to_string()).as_deref(),
        Some("550 5.1.1 <address>: no such user")
    );
    assert!(!format!("{delivery:?}").contains("ann@"), "{delivery:?}");
    Ok(())
}
