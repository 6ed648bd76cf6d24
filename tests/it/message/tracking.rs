//! Openings and clicks of a real digest, from the mail through the gateway to the ledger.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mail_parser::MessageParser;
use serde_json::json;
use tidings_harness::env::{Env, event, eventually, key, wait_for_emails};
use tidings_model::{delivery_events::Kind, settings::Track};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::one_click::{serve, with_links};

const MINUTE: Duration = Duration::from_mins(1);
const TARGET: &str = "https://app.acme.example/pages/plans?from=mail&tab=1";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// The address under `/PAGE/` in the mail.
fn address_of<'a>(html: &'a str, address: &str, page: &str) -> Result<&'a str> {
    let start = html.find(&format!("http://{address}/{page}/")).with_context(|| format!("no /{page}/ in {html}"))?;
    html[start..].split('"').next().context("no end")
}

async fn fetch(address: &str, url: &str, headers: &str) -> Result<String> {
    let path = url.strip_prefix(&format!("http://{address}")).context("another address")?;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn openings_and_clicks_of_a_digest_are_counted_once() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let mut settings = with_links(&address)?;
    for digest in settings.digests.values_mut() {
        digest.track = Track { opens: true, clicks: true };
    }
    let env = Env::start(settings.clone()).await?;
    let (shutdown, serving) = serve(&env, listener, settings, None)?;
    let ann = key("activity", "ann");
    let payload = Some(serde_json::from_value(json!({"title": "Plans", "url": TARGET}))?);
    env.events.emit(tidings_proto::v1::Event { payload, ..event(&ann, "e1") }).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;

    let message = env.store.digests(&ann, 1).await?.pop().context("no digest")?.digest_id;
    let bytes = env.relay.mails().pop().context("no mail")?.bytes();
    let parsed = MessageParser::default().parse(&bytes).context("no message")?;
    let html = parsed.body_html(0).context("no HTML")?;
    ensure!(!html.contains("app.acme.example"), "a link is not counted: {html}");
    ensure!(parsed.body_text(0).is_some_and(|text| text.contains(TARGET)), "the text has another link");
    for untouched in ["u", "p", "v"] {
        address_of(&html, &address, untouched)?;
    }
    let (link, picture) = (address_of(&html, &address, "c")?, address_of(&html, &address, "o")?);

    let person = format!("User-Agent: {FIREFOX}\r\n");
    let answer = fetch(&address, link, &person).await?;
    ensure!(answer.starts_with("HTTP/1.1 302 ") && answer.contains(&format!("location: {TARGET}\r\n")), "{answer}");
    // A reader who objects is not counted, and Apple's proxy says nothing.
    fetch(&address, picture, &format!("{person}Sec-GPC: 1\r\n")).await?;
    let answer = fetch(&address, picture, "User-Agent: Mozilla/5.0\r\n").await?;
    ensure!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("image/gif"), "{answer}");

    let counted = async || {
        let events = env.store.delivery_events(message).await?;
        Ok((events.len() >= 2).then_some(events))
    };
    let mut counted: Vec<_> = eventually("two events", MINUTE, counted).await?.into_iter().map(|e| e.report).collect();
    counted.sort_by_key(|report| report.kind.name());
    let said: Vec<_> = counted.iter().map(|report| (report.kind, report.machine, report.url.as_deref())).collect();
    assert_eq!(said, [(Kind::Clicked, Some(false), Some(TARGET)), (Kind::Opened, None, None)]);
    shutdown.cancel();
    serving.await?;
    Ok(())
}
