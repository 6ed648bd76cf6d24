//! A tenant's looks and words in its messages and on the page of its recipients.

use std::{fs, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use mail_parser::MessageParser;
use tidings_harness::{
    env::{Env, event, settings},
    gateway::footer,
    wait::wait_for_emails,
    worker::Running,
};
use tidings_mail::render::TemplateRenderer;
use tidings_model::{
    Key, names,
    records::Recipient,
    settings::{Settings, TenantBrand, TenantSettings},
};
use tidings_needs::needs;
use tidings_services::StepServices;
use tidings_store::prelude::*;

use super::one_click::Served;

const MINUTE: Duration = Duration::from_mins(1);

/// The looks of the tenant acme. Recipients without a language read German.
fn branded(settings: &mut Settings) {
    let brand = TenantBrand {
        name: Some("Acme & Söhne".to_owned()),
        logo_url: Some("https://acme.example/logo.png".to_owned()),
        colour: "#8a1c4a".parse().ok(),
        address_line: Some("Acme GmbH, Hauptstraße 1, Berlin".to_owned()),
        locale: Some("de".to_owned()),
    };
    let acme = TenantSettings { brand, ..TenantSettings::new(settings.streams.clone()) };
    settings.tenants.insert("acme".to_owned(), acme);
}

/// HTML and text of the latest message.
fn latest(env: &Env) -> Result<(String, String)> {
    let mail = env.relay.mails().pop().context("no mail")?.bytes();
    let parsed = MessageParser::default().parse(&mail).context("no message")?;
    let (html, text) = (parsed.body_html(0).context("no HTML")?, parsed.body_text(0).context("no text")?);
    Ok((html.into_owned(), text.into_owned()))
}

async fn sent(env: &Env, tenant: &str, already: usize) -> Result<(String, String)> {
    let ann = Key::new(tenant.to_owned(), "activity".to_owned(), "ann".to_owned())?;
    env.store
        .put_recipients(
            &[Recipient { locale: String::new(), ..Recipient::for_development(&ann) }],
            jiff::Timestamp::now(),
        )
        .await?;
    env.events.emit(event(&ann, "e1")).await?;
    wait_for_emails(&env.relay, already + 1, MINUTE).await?;
    latest(env)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_digest_has_its_looks_and_its_words() -> Result<()> {
    let mut settings = settings("instant", "instant");
    branded(&mut settings);
    let mut env = Env::without_worker(settings).await?;
    let words = env.folder.path().join("words/acme");
    fs::create_dir_all(&words)?;
    fs::write(words.join("de.ftl"), "times_zone = Zeiten wie in { $zone }, meint Acme.\n")?;
    let renderer = Arc::new(TemplateRenderer::new(Some(env.folder.path()))?);
    let deps = StepServices { renderer, ..env.activities()? };
    env.worker =
        Some(Running::start(env.temporal.clone(), tidings::registration::digest_worker(names::TASK_QUEUE, deps)?)?);

    let (html, text) = sent(&env, "acme", 0).await?;
    for part in [
        "src=\"https://acme.example/logo.png\" alt=\"Acme &amp; Söhne\"",
        "border-top:4px solid #8a1c4a",
        "Acme GmbH, Hauptstraße 1, Berlin",
        ", meint Acme.",
        "lang=\"de\"",
    ] {
        ensure!(html.contains(part), "{part}: {html}");
    }
    for part in ["Acme & Söhne", "Acme GmbH, Hauptstraße 1, Berlin", "meint"] {
        ensure!(text.contains(part), "{part}: {text}");
    }
    let (html, text) = sent(&env, "bolt", 1).await?;
    for foreign in ["Acme", "acme.example"] {
        ensure!(!html.contains(foreign) && !text.contains(foreign), "{html}\n{text}");
    }
    ensure!(html.contains("lang=\"en\""), "{html}");
    env.stop_worker()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_recipient_shows_the_tenants_looks() -> Result<()> {
    let served = Served::start(branded).await?;
    let Served { env, address, .. } = &served;
    let (html, _) = sent(env, "acme", 0).await?;
    let page = served.request("GET", &footer(&html, address, "p")?, "").await?;
    for part in ["<img src=\"https://acme.example/logo.png\"", "Acme &amp; Söhne", "page.css?8a1c4a", "lang=\"de\""] {
        ensure!(page.contains(part), "{part}: {page}");
    }
    served.stop().await
}
