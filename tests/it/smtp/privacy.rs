//! TLS and AUTH: passwords and messages go to the right relay only, and never in the clear.

use anyhow::Result;
use tempfile::TempDir;
use tidings_harness::relay::{Act, At, Authority, Fault, Privacy, Relay, Settings, deliver, mailer};
use tidings_mail::smtp::{PoolLimits, SmtpMailer, SmtpTimeouts};
use tidings_model::{
    RelayUrl,
    attempt::{AttemptClass, AttemptPhase},
    relay_url::TokenSource,
};

const ANN: &str = "ann@example.net";

/// A relay that wants TLS and a login, and a URL to it.
struct Guarded {
    relay: Relay,
    ca: TempDir,
}

impl Guarded {
    async fn start(privacy: Privacy, host: &str) -> Result<Self> {
        let ca = TempDir::new()?;
        let authority = Authority::new(host)?;
        authority.write(&ca.path().join("ca.pem"))?;
        let login = Some(("tidings".to_owned(), "p@ss word".to_owned()));
        let settings = Settings { privacy, authority: Some(authority), login, ..Settings::default() };
        Ok(Self { relay: Relay::with(settings).await?, ca })
    }

    fn mailer(&self, privacy: Privacy, login: &str) -> Result<SmtpMailer> {
        let scheme = if privacy == Privacy::Implicit { "smtps" } else { "smtp" };
        let tls = if privacy == Privacy::StartTls { "tls=required&" } else { "" };
        let ca = self.ca.path().join("ca.pem");
        let port = self.relay.address().port();
        mailer(&format!("{scheme}://{login}localhost:{port}?{tls}ca={}", ca.display()))
    }
}

const LOGIN: &str = "tidings:p%40ss%20word@";

#[tokio::test]
async fn messages_are_sent_over_starttls_and_implicit_tls_with_a_login() -> Result<()> {
    for privacy in [Privacy::StartTls, Privacy::Implicit] {
        let guarded = Guarded::start(privacy, "localhost").await?;
        let mailer = guarded.mailer(privacy, LOGIN)?;
        for _ in 0..3 {
            let delivery = deliver(&mailer, ANN).await;
            assert_eq!(delivery.class, AttemptClass::Sent, "{privacy:?}: {delivery:?}");
        }
        assert_eq!((guarded.relay.mails().len(), guarded.relay.connections()), (3, 1));
    }
    Ok(())
}

#[tokio::test]
async fn auth_login_is_used_when_plain_is_not_offered() -> Result<()> {
    let login = Some(("tidings".to_owned(), "secret".to_owned()));
    let relay = Relay::with(Settings { login, ..Settings::default() }).await?;
    relay.fault(Fault::new(At::Ehlo, Act::Reply("250-relay.test\r\n250 AUTH LOGIN".into())));
    let url = relay.url().replace("smtp://", "smtp://tidings:secret@");
    assert_eq!(deliver(&mailer(&url)?, ANN).await.class, AttemptClass::Sent);
    Ok(())
}

/// A mailer that logs in as `tidings` by the token that a command prints.
fn mailer_by_token(relay: &Relay, script: &str) -> Result<SmtpMailer> {
    let source = TokenSource::Command(["/bin/sh", "-c", script].map(str::to_owned).into());
    let url = relay.url().replace("smtp://", "smtp://tidings@");
    Ok(SmtpMailer::new(RelayUrl::with_token(&url, source)?, PoolLimits::default(), SmtpTimeouts::default())?)
}

#[tokio::test]
async fn a_refused_access_token_is_renewed_once_and_then_a_configuration_error() -> Result<()> {
    let login = Some(("tidings".to_owned(), "new-token".to_owned()));
    let relay = Relay::with(Settings { login, ..Settings::default() }).await?;
    let folder = TempDir::new()?;
    let run_before = folder.path().join("run-before");
    let expired_first =
        format!("if [ -e {0} ]; then echo new-token; else touch {0}; echo old-token; fi", run_before.display());
    let mailer = mailer_by_token(&relay, &expired_first)?;
    for _ in 0..2 {
        let delivery = deliver(&mailer, ANN).await;
        assert_eq!(delivery.class, AttemptClass::Sent, "{delivery:?}");
    }
    assert_eq!((relay.mails().len(), relay.connections()), (2, 2));

    let delivery = deliver(&mailer_by_token(&relay, "echo wrong-token")?, ANN).await;
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Configuration, AttemptPhase::Auth), "{delivery:?}");
    assert_eq!(delivery.reply.map(|reply| reply.code), Some(535), "the reply behind the challenge");
    let delivery = deliver(&mailer_by_token(&relay, "echo secret words; exit 3")?, ANN).await;
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Configuration, AttemptPhase::Auth), "{delivery:?}");
    assert!(
        delivery.detail.contains("token_command /bin/sh failed") && !delivery.detail.contains("secret"),
        "{delivery:?}"
    );
    let plain = Relay::start().await?;
    let delivery = deliver(&mailer_by_token(&plain, "echo new-token")?, ANN).await;
    assert!(delivery.detail.contains("does not offer AUTH XOAUTH2"), "{delivery:?}");
    Ok(())
}

#[tokio::test]
async fn wrong_or_missing_credentials_are_a_configuration_error() -> Result<()> {
    let guarded = Guarded::start(Privacy::Implicit, "localhost").await?;
    for (login, phase, code) in [("tidings:wrong@", AttemptPhase::Auth, 535), ("", AttemptPhase::Mail, 530)] {
        let delivery = deliver(&guarded.mailer(Privacy::Implicit, login)?, ANN).await;
        assert_eq!((delivery.class, delivery.phase), (AttemptClass::Configuration, phase), "{delivery:?}");
        assert_eq!(delivery.reply.map(|reply| reply.code), Some(code));
    }
    let plain = Relay::start().await?;
    let url = plain.url().replace("smtp://", "smtp://tidings:secret@");
    let delivery = deliver(&mailer(&url)?, ANN).await;
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Configuration, AttemptPhase::Auth), "no AUTH offered");
    Ok(())
}

#[tokio::test]
async fn a_temporary_auth_failure_throttles_the_relay() -> Result<()> {
    for (text, class) in [
        ("454 4.7.0 Temporary authentication failure", AttemptClass::Throttled),
        ("421 4.3.2 shutting down", AttemptClass::Deferred),
        ("534 5.7.9 mechanism too weak", AttemptClass::Configuration),
    ] {
        let guarded = Guarded::start(Privacy::StartTls, "localhost").await?;
        guarded.relay.fault(Fault::new(At::Auth, Act::Reply(text.into())));
        let delivery = deliver(&guarded.mailer(Privacy::StartTls, LOGIN)?, ANN).await;
        assert_eq!((delivery.class, delivery.phase), (class, AttemptPhase::Auth), "{text}: {delivery:?}");
    }
    Ok(())
}

#[tokio::test]
async fn without_an_offer_of_starttls_nothing_is_sent_in_the_clear() -> Result<()> {
    let relay = Relay::start().await?;
    let url = format!("smtp://tidings:secret@localhost:{}?tls=required", relay.address().port());
    let delivery = deliver(&mailer(&url)?, ANN).await;
    assert_eq!((delivery.class, delivery.phase), (AttemptClass::Deferred, AttemptPhase::Tls));
    assert!(delivery.detail.contains("does not offer STARTTLS"), "{}", delivery.detail);
    assert_eq!(relay.commands(), ["EHLO"]);
    Ok(())
}

#[tokio::test]
async fn after_a_failed_starttls_nothing_is_sent_in_the_clear() -> Result<()> {
    for act in [Act::Reply("454 4.7.0 TLS not available".into()), Act::Reply("502 5.5.1 no".into()), Act::Close] {
        let guarded = Guarded::start(Privacy::StartTls, "localhost").await?;
        guarded.relay.fault(Fault::new(At::StartTls, act.clone()));
        let delivery = deliver(&guarded.mailer(Privacy::StartTls, LOGIN)?, ANN).await;
        assert_eq!(
            (delivery.class, delivery.phase),
            (AttemptClass::Deferred, AttemptPhase::Tls),
            "{act:?}: {delivery:?}"
        );
        assert!(!guarded.relay.commands().contains(&"AUTH".to_owned()), "{act:?}");
    }
    Ok(())
}

#[tokio::test]
async fn replies_injected_before_tls_are_ignored() -> Result<()> {
    let guarded = Guarded::start(Privacy::StartTls, "localhost").await?;
    // In one segment with the go-ahead: replies that would be read as those to EHLO, had they come over TLS.
    let act = Act::Slip("220 2.0.0 go ahead\r\n220 evil\r\n250-evil\r\n250 SIZE 1".into());
    guarded.relay.fault(Fault::new(At::StartTls, act));
    let delivery = deliver(&guarded.mailer(Privacy::StartTls, LOGIN)?, ANN).await;
    assert_eq!(delivery.class, AttemptClass::Sent, "{delivery:?}");
    Ok(())
}

#[tokio::test]
async fn a_certificate_of_another_name_or_authority_is_not_trusted() -> Result<()> {
    for privacy in [Privacy::StartTls, Privacy::Implicit] {
        let other_name = Guarded::start(privacy, "mail.example.com").await?;
        let delivery = deliver(&other_name.mailer(privacy, LOGIN)?, ANN).await;
        assert_eq!(
            (delivery.class, delivery.phase),
            (AttemptClass::Deferred, AttemptPhase::Tls),
            "{privacy:?}: {delivery:?}"
        );

        let right = Guarded::start(privacy, "localhost").await?;
        let wrong_ca = Guarded { relay: right.relay, ca: other_name.ca };
        let delivery = deliver(&wrong_ca.mailer(privacy, LOGIN)?, ANN).await;
        assert_eq!(
            (delivery.class, delivery.phase),
            (AttemptClass::Deferred, AttemptPhase::Tls),
            "{privacy:?}: {delivery:?}"
        );
        assert!(!wrong_ca.relay.commands().contains(&"AUTH".to_owned()));
    }
    Ok(())
}

#[tokio::test]
async fn opportunistic_tls_is_used_only_where_offered() -> Result<()> {
    let guarded = Guarded::start(Privacy::StartTls, "localhost").await?;
    let ca = guarded.ca.path().join("ca.pem");
    for relay in [&guarded.relay, &Relay::start().await?] {
        let login = if std::ptr::eq(relay, &raw const guarded.relay) { LOGIN } else { "" };
        let url = format!("smtp://{login}localhost:{}?tls=opportunistic&ca={}", relay.address().port(), ca.display());
        assert_eq!(deliver(&mailer(&url)?, ANN).await.class, AttemptClass::Sent);
    }
    assert!(guarded.relay.commands().contains(&"STARTTLS".to_owned()));
    Ok(())
}
