//! Openings and clicks of a real digest, from the mail through the gateway to the ledger.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mail_parser::MessageParser;
use serde_json::json;
use tidings_harness::{
    env::{event, key},
    wait::{eventually, wait_for_emails},
};
use tidings_model::{delivery_events::ReportKind, settings::TrackingSettings};
use tidings_needs::needs;
use tidings_store::prelude::*;

use super::one_click::Served;

const MINUTE: Duration = Duration::from_mins(1);
const TARGET: &str = "https://app.acme.example/pages/plans?from=mail&tab=1";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// The address under `/PAGE/` in the mail.
fn address_of<'a>(html: &'a str, address: &str, page: &str) -> Result<&'a str> {
    let start = html.find(&format!("http://{address}/{page}/")).with_context(|| format!("no /{page}/ in {html}"))?;
    html[start..].split('"').next().context("no end")
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn openings_and_clicks_of_a_digest_are_counted_once() -> Result<()> {
    let served = Served::without_temporal(|settings| {
        for digest in settings.digests.values_mut() {
            digest.track = TrackingSettings { opens: true, clicks: true };
        }
    })
    .await?;
    let Served { env, address, .. } = &served;
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
        address_of(&html, address, untouched)?;
    }
    let (link, picture) = (address_of(&html, address, "c")?, address_of(&html, address, "o")?);

    let person = format!("User-Agent: {FIREFOX}\r\n");
    let answer = served.send("GET", link, &person, "").await?;
    ensure!(answer.starts_with("HTTP/1.1 302 ") && answer.contains(&format!("location: {TARGET}\r\n")), "{answer}");
    // A reader who objects is not counted, and Apple's proxy says nothing.
    served.send("GET", picture, &format!("{person}Sec-GPC: 1\r\n"), "").await?;
    let answer = served.send("GET", picture, "User-Agent: Mozilla/5.0\r\n", "").await?;
    ensure!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("image/gif"), "{answer}");

    let counted = async || {
        let events = env.store.delivery_events(message).await?;
        Ok((events.len() >= 2).then_some(events))
    };
    let mut counted: Vec<_> = eventually("two events", MINUTE, counted).await?.into_iter().map(|e| e.report).collect();
    counted.sort_by_key(|report| report.kind.name());
    let said: Vec<_> = counted.iter().map(|report| (report.kind, report.machine, report.url.as_deref())).collect();
    assert_eq!(said, [(ReportKind::Clicked, Some(false), Some(TARGET)), (ReportKind::Opened, None, None)]);

    // An objection deletes what is known of the reader, too.
    let read_at = async || anyhow::Ok(env.store.facts(&ann).await?.reading.read_at);
    served.send("GET", link, &person, "").await?;
    eventually("the click is known", MINUTE, async || read_at().await).await?;
    served.send("GET", picture, &format!("{person}DNT: 1\r\n"), "").await?;
    eventually("the click is forgotten", MINUTE, async || Ok(read_at().await?.is_none().then_some(()))).await?;
    served.stop().await
}
