//! The email of a careless or hostile producer's event, as an independent parser reads it.

use std::time::Duration;

use anyhow::{Context, Result};
use mail_parser::MessageParser;
use tidings_harness::{
    env::{Env, event, key, settings},
    wait::wait_for_emails,
};
use tidings_needs::needs;

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_event_makes_a_well_formed_email() -> Result<()> {
    let env = Env::start(settings("after 1s", "after 1s")).await?;
    let key = key("activity", "ann");
    let mut hostile = event(&key, "e1");
    hostile.entity_id = "<script>alert(1)</script> 🦀 שלום".to_owned();
    hostile.payload = serde_json::from_value(serde_json::json!({
        "title": "Bob\r\nBcc: everybody@example.org\r\n\r\n<script>alert(2)</script> 🎉 مرحبا",
        "url": "javascript:alert(3)",
        "excerpt": "x".repeat(15_000),
    }))?;
    env.events.emit(hostile).await?;
    wait_for_emails(&env.relay, 1, Duration::from_mins(1)).await?;

    let bytes = env.relay.mails()[0].bytes();
    let mail = MessageParser::default().parse(&bytes).context("no mail")?;
    let (html, text) = (mail.body_html(0).context("no HTML")?, mail.body_text(0).context("no text")?);
    assert!(mail.bcc().is_none(), "a header was smuggled in");
    assert_eq!(mail.to().and_then(|to| to.first()).and_then(|to| to.address()), Some("ann@dev.invalid"));
    assert!(!html.contains("<script") && html.contains("&lt;script"), "markup was not escaped");
    assert!(!html.contains("javascript:") && !text.contains("javascript:"), "the link survived");
    assert!(html.contains('🎉') && text.contains('🎉') && text.contains("مرحبا"), "the text lost its characters");
    assert!(html.len() < 90_000);
    Ok(())
}
