//! Single messages over HTTP, from the request to the mailbox.

use anyhow::{Context, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use mail_parser::{MessageParser, MimeHeaders as _};
use serde_json::{Value, json};
use tidings_harness::wait::eventually;
use tidings_needs::needs;

use super::{Api, MINUTE};

fn message(key: &str) -> Value {
    json!({"key": key, "to": {"address": "ann@example.net", "name": "Ann"}, "subject": "Your code",
           "text": "The code is 4711"})
}

impl Api {
    /// Waits until a message is in this state.
    async fn reaches(&self, token: &str, key: &str, state: &str) -> Result<Value> {
        eventually(state, MINUTE, async || {
            let (status, shown) = self.ask(token, "GET", &format!("/v1/messages/{key}"), &Value::Null).await?;
            anyhow::ensure!(status == 200, "{shown}");
            Ok((shown["message"]["state"] == state).then_some(shown))
        })
        .await
    }
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_posted_message_arrives_once_with_its_attachment() -> Result<()> {
    let api = Api::start("daily 08:00").await?;
    let token = api.token("acme", &["messages:write", "messages:read"]).await?;
    let foreign = api.token("zeta", &["messages:write", "messages:read"]).await?;
    let file: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut body = message("code/1");
    body["attachments"] =
        json!([{"name": "code.bin", "type": "application/octet-stream", "content": BASE64_STANDARD.encode(&file)}]);
    let (status, posted) = api.ask(&token, "POST", "/v1/messages", &body).await?;
    assert_eq!(
        (status, &posted["again"], &posted["message"]["url"]),
        (201, &json!(false), &json!("/v1/messages/code%2F1"))
    );
    let shown = api.reaches(&token, "code%2F1", "sent").await?;
    assert_eq!((&shown["attempts"][0]["class"], &shown["message"]["envelope_to"]), (&json!("sent"), &Value::Null));

    let (status, again) = api.ask(&token, "POST", "/v1/messages", &body).await?;
    assert_eq!((status, &again["again"], &again["message"]["state"]), (200, &json!(true), &json!("sent")));
    body["text"] = json!("The code is 4712");
    let (status, other) = api.ask(&token, "POST", "/v1/messages", &body).await?;
    assert_eq!((status, &other["type"]), (409, &json!("/problems/other-content")));
    let (status, nothing) = api.ask(&foreign, "GET", "/v1/messages/code%2F1", &Value::Null).await?;
    assert_eq!((status, &nothing["type"]), (404, &json!("/problems/not-found")));

    assert_eq!(api.cli.relay.count(), 1, "{}", api.log());
    let bytes = api.cli.relay.mail(0).context("no mail")?.bytes();
    let parsed = MessageParser::default().parse(&bytes).context("no message")?;
    assert_eq!(parsed.body_text(0).context("no text")?.trim_end(), "The code is 4711");
    let attached = parsed.attachment(0).context("no attachment")?;
    assert!(attached.attachment_name() == Some("code.bin") && attached.contents() == file);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_cancelled_before_its_time_arrives_only_after_a_retry() -> Result<()> {
    let api = Api::start("daily 08:00").await?;
    let token = api.token("acme", &["messages:write", "messages:read"]).await?;
    let why = ["--by", "carol", "--why", "ticket 812"];
    api.cli.run(&[&["pause", "--filter", "tenant=acme", "--messages"], &why[..]].concat()).await?;
    let (status, _) = api.ask(&token, "POST", "/v1/messages", &message("early")).await?;
    assert_eq!(status, 201);
    let order = json!({"why": "wrong code"});
    let (status, cancelled) = api.ask(&token, "POST", "/v1/messages/early/cancel", &order).await?;
    assert_eq!((status, &cancelled["message"]["state"]), (200, &json!("cancelled")));
    let (status, again) = api.ask(&token, "POST", "/v1/messages/early/cancel", &order).await?;
    assert_eq!((status, &again["message"]["state"]), (200, &json!("cancelled")), "a lost answer is asked for again");
    api.cli.run(&[&["resume", "--filter", "tenant=acme"], &why[..]].concat()).await?;

    let (status, _) = api.ask(&token, "POST", "/v1/messages", &message("late")).await?;
    assert_eq!(status, 201);
    api.reaches(&token, "late", "sent").await?;
    assert_eq!(api.cli.relay.count(), 1);
    let (status, refused) = api.ask(&token, "POST", "/v1/messages/late/cancel", &order).await?;
    assert_eq!((status, &refused["errors"][0]["problem"]), (409, &json!("the message is already sent")));
    let (status, refused) = api.ask(&token, "POST", "/v1/messages/late/retry", &order).await?;
    assert_eq!((status, &refused["type"]), (409, &json!("/problems/conflict")), "{refused}");

    let (status, _) = api.ask(&token, "POST", "/v1/messages/early/retry", &order).await?;
    assert_eq!(status, 200);
    api.reaches(&token, "early", "sent").await?;
    assert_eq!(api.cli.relay.count(), 2);
    let audit = api.cli.run(&["audit", "--tenant", "acme", "--json"]).await?;
    let by = format!("token:{}", &token[4..20]);
    let ours = audit.lines().filter(|entry| entry.contains(&by) && entry.contains("wrong code")).count();
    assert_eq!(ours, 2, "{audit}");
    Ok(())
}
