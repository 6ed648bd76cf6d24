//! Unsubscribing from a real digest: by its link through the real gateway, and by mail.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use mail_parser::MessageParser;
use temporalio_client::Client;
use tidings_gateway::server;
use tidings_harness::{
    env::{Env, event, key, settings},
    gateway::public_routes,
    wait::wait_for_emails,
};
use tidings_mail::bounce;
use tidings_model::{
    Key,
    report::ReportQuery,
    settings::{ReturnPath, Settings},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_operations::bounces::{self, BounceOutcome};
use tidings_services::choices;
use tidings_store::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_mins(1);

/// A key's first event goes out at once, and later ones wait for a day. Links lead to this address.
pub(super) fn with_links(address: &str) -> Result<Settings> {
    let mut settings = settings("after 1d", "after 1d");
    for digest in settings.digests.values_mut() {
        digest.send_first = Some(Duration::from_hours(1));
    }
    settings.link_keys = Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse()?);
    settings.pages.public_url = Some(format!("http://{address}"));
    let (local, domain) = ("bounce".to_owned(), "mail.tidings.example".to_owned());
    settings.streams.bulk.return_path = Some(ReturnPath { local, domain });
    Ok(settings)
}

/// A key with a digest that was sent and a window that is open, and the URIs of the digest's `List-Unsubscribe`.
async fn opened(env: &Env, key: &Key) -> Result<(String, String)> {
    env.events.emit(event(key, "e1")).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    env.events.emit(event(key, "e2")).await?;
    env.status_when(key, "planned", |status| status.due_at.is_some()).await?;
    let mail = env.relay.mails().pop().context("no mail")?.bytes();
    let parsed = MessageParser::default().parse(&mail).context("no message")?;
    ensure!(parsed.header_raw("List-Unsubscribe-Post").map(str::trim) == Some("List-Unsubscribe=One-Click"));
    let header = parsed.header_raw("List-Unsubscribe").context("no List-Unsubscribe")?;
    let uris: Vec<_> = header.split(',').map(|uri| uri.trim().trim_matches(['<', '>']).to_owned()).collect();
    let [url, mailto] = <[String; 2]>::try_from(uris).ok().context("not two URIs")?;
    let html = parsed.body_html(0).context("no HTML")?;
    ensure!(html.contains(&format!("href=\"{url}\"")), "the footer has no link");
    Ok((url, mailto))
}

/// An environment with a gateway over its store.
pub(super) struct Served {
    pub env: Env,
    pub address: String,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl Served {
    /// Starts both with links that lead to the gateway.
    pub async fn start(edit: impl FnOnce(&mut Settings)) -> Result<Self> {
        Self::start_with(edit, |env| Some(env.temporal.clone())).await
    }

    /// Starts both. The gateway has no answer of Temporal.
    pub async fn without_temporal(edit: impl FnOnce(&mut Settings)) -> Result<Self> {
        Self::start_with(edit, |_| None).await
    }

    async fn start_with(
        edit: impl FnOnce(&mut Settings),
        temporal: impl FnOnce(&Env) -> Option<Client>,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let mut settings = with_links(&address)?;
        edit(&mut settings);
        let env = Env::start(settings.clone()).await?;
        let router = public_routes(env.store.clone(), settings, temporal(&env))?;
        let shutdown = CancellationToken::new();
        let serving =
            tokio::spawn(server::serve(listener, router, server::ConnectionLimits::default(), shutdown.clone()));
        Ok(Self { env, address, shutdown, serving })
    }

    /// Sends a form, and returns the whole answer.
    pub async fn request(&self, method: &str, url: &str, body: &str) -> Result<String> {
        self.send(method, url, "Content-Type: application/x-www-form-urlencoded\r\n", body).await
    }

    /// Sends a request with these headers, and returns the whole answer.
    pub async fn send(&self, method: &str, url: &str, headers: &str, body: &str) -> Result<String> {
        let address = &self.address;
        let path = url.strip_prefix(&format!("http://{address}")).context("another address")?;
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Ends the gateway.
    pub async fn stop(self) -> Result<()> {
        self.shutdown.cancel();
        Ok(self.serving.await?)
    }
}

pub(super) async fn skipped(env: &Env, key: &Key) -> Result<()> {
    env.completed(key).await?;
    let closed = env.store.digests(key, 1).await?.pop().and_then(|digest| digest.closed).context("no digest")?;
    assert_eq!((closed.outcome, closed.why.as_str()), (DigestOutcome::Skipped, "the recipient opted out"));
    Ok(())
}

/// The messages that the report counts as unsubscribed.
async fn unsubscribed(env: &Env) -> Result<u64> {
    let now = Timestamp::now();
    let counts =
        env.store.message_report(&ReportQuery::new(None, now - SignedDuration::from_hours(24), now, None)).await?;
    Ok(counts.iter().map(|(_, counts)| counts.unsubscribed).sum())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn one_click_ends_the_open_window_and_a_scanner_changes_nothing() -> Result<()> {
    let served = Served::start(|_| ()).await?;
    let Served { env, address, .. } = &served;
    let ready = served.request("GET", &format!("http://{address}/readyz"), "").await?;
    assert!(ready.contains("{\"store\":\"ok\",\"temporal\":\"ok\","), "{ready}");

    let ann = key("activity", "ann");
    let (url, _) = opened(env, &ann).await?;
    for method in ["GET", "HEAD"] {
        assert!(served.request(method, &url, "").await?.starts_with("HTTP/1.1 200 "));
    }
    assert!(env.store.facts(&ann).await?.consent);
    assert_eq!(unsubscribed(env).await?, 0);
    for _ in 0..2 {
        let answer = served.request("POST", &url, "List-Unsubscribe=One-Click").await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!env.store.facts(&ann).await?.consent);
        assert_eq!(unsubscribed(env).await?, 1);
    }
    skipped(env, &ann).await?;
    served.stop().await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_the_address_of_list_unsubscribe_unsubscribes() -> Result<()> {
    let settings = with_links("127.0.0.1:1")?;
    let env = Env::start(settings.clone()).await?;
    let ann = key("activity", "ann");
    let (_, mailto) = opened(&env, &ann).await?;
    let address = mailto.strip_prefix("mailto:").and_then(|uri| uri.split('?').next()).context("no mailto")?;
    let now = Timestamp::now();
    let reply = format!("From: ann@example.net\r\nTo: <{address}>\r\nSubject: unsubscribe\r\n\r\n\r\n");
    let away = format!("Auto-Submitted: auto-replied\r\n{reply}");
    let taken = bounces::record_bounce(&*env.store, &settings, bounce::parse_bounce(away.as_bytes()), now).await?;
    assert_eq!(taken, BounceOutcome::AutoReply);
    assert!(env.store.facts(&ann).await?.consent, "an automatic reply is no wish");
    let taken = bounces::record_bounce(&*env.store, &settings, bounce::parse_bounce(reply.as_bytes()), now).await?;
    assert_eq!(taken, BounceOutcome::Recorded { new: 1, again: 0, withdrawn: Some(ann.clone()) });
    assert_eq!(unsubscribed(&env).await?, 1);
    choices::signal_key(&env.temporal, &ann).await?;
    skipped(&env, &ann).await
}
