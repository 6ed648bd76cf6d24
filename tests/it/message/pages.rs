//! The pages of a real digest through the real gateway: the recipient's choices, and the message in the browser.

use std::{env, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use mail_parser::MessageParser;
use tidings_harness::{
    env::{Env, event, key, settings},
    gateway::{footer, form, undo_of},
    wait::wait_for_emails,
};
use tidings_model::{Key, ViewLink};
use tidings_needs::needs;
use tidings_store::prelude::*;
use uuid::Uuid;

use super::{
    looks::{browser, finds_nothing},
    one_click::{Served, skipped},
};

const MINUTE: Duration = Duration::from_mins(1);

/// The HTML of a digest that was sent, while another window is open.
async fn sent(env: &Env, key: &Key) -> Result<String> {
    env.events.emit(event(key, "e1")).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    env.events.emit(event(key, "e2")).await?;
    env.status_when(key, "planned", |status| status.due_at.is_some()).await?;
    let mail = env.relay.mails().pop().context("no mail")?.bytes();
    let parsed = MessageParser::default().parse(&mail).context("no message")?;
    Ok(parsed.body_html(0).context("no HTML")?.into_owned())
}

/// Without the marks that isolate directions.
fn plain(page: &str) -> String {
    page.replace(['\u{2068}', '\u{2069}'], "")
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_choice_on_the_page_moves_the_open_window_and_is_undone() -> Result<()> {
    let served = Served::start(|_| ()).await?;
    let Served { env, address, .. } = &served;
    let ann = key("activity", "ann");
    let url = footer(&sent(env, &ann).await?, address, "p")?;
    let before = env.status(&ann).await?.due_at.context("no window")?;

    let page = plain(&served.request("GET", &url, "").await?);
    ensure!(page.starts_with("HTTP/1.1 200 ") && page.contains("Next digest: "), "{page}");
    assert!(served.request("HEAD", &url, "").await?.starts_with("HTTP/1.1 200 "));
    assert_eq!(env.store.facts(&ann).await?.revision, 0);

    let chosen =
        [("activity:seen", "0 on"), ("activity:on", "1"), ("activity:often", "daily"), ("activity:time", "08:00")];
    let page = plain(&served.request("POST", &url, &form(&chosen)).await?);
    ensure!(page.starts_with("HTTP/1.1 200 ") && page.contains("Your choices are saved."), "{page}");
    let moved = env.status_when(&ann, "moved", |status| status.due_at != Some(before)).await?;
    let due_at = moved.due_at.context("no window")?;
    // The page said at once what the workflow makes of the choice.
    let said = due_at.strftime("%-I:%M\u{a0}%p (UTC).").to_string();
    ensure!(page.contains(&format!(" {said}")) && due_at > Timestamp::now(), "{due_at}: {page}");
    assert_eq!(env.count("SELECT COUNT(*) FROM audit WHERE actor = 'recipient' AND action = 'preferences'").await?, 1);

    let undo = undo_of(&page).context("no undo")?;
    let page = served.request("POST", &url, &form(&[("undo", &undo)])).await?;
    ensure!(page.contains("The change is undone."), "{page}");
    env.status_when(&ann, "moved back", |status| status.due_at == Some(before)).await?;

    let none = [("activity:seen", "2 on"), ("alerts:seen", "0 on"), ("action", "none")];
    let page = served.request("POST", &url, &form(&none)).await?;
    ensure!(page.contains("You get no more digests."), "{page}");
    skipped(env, &ann).await?;
    served.stop().await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_choice_without_temporal_is_stored_and_the_due_window_knows() -> Result<()> {
    let short = settings("after 12s", "after 1d").digests["activity"].cadence.clone();
    let served = Served::without_temporal(|settings| {
        settings.digests.entry("activity".to_owned()).and_modify(|activity| activity.cadence = short);
    })
    .await?;
    let Served { env, address, .. } = &served;
    let ann = key("activity", "ann");
    let url = footer(&sent(env, &ann).await?, address, "p")?;
    let chosen = [("activity:seen", "0 on"), ("activity:often", "default")];
    let page = served.request("POST", &url, &form(&chosen)).await?;
    ensure!(page.starts_with("HTTP/1.1 200 ") && page.contains("Your choices are saved."), "{page}");
    assert!(!env.store.facts(&ann).await?.consent);
    skipped(env, &ann).await?;
    served.stop().await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_shown_as_it_was_sent_until_it_is_purged() -> Result<()> {
    let served = Served::without_temporal(|_| ()).await?;
    let Served { env, address, .. } = &served;
    let purged = ViewLink { tenant: "acme".into(), message: Uuid::nil() };
    let purged = purged.token(env.settings.link_keys.as_ref().context("no keys")?).context("no key")?;
    let ann = key("activity", "ann");
    let html = sent(env, &ann).await?;
    let url = footer(&html, address, "v")?;
    let page = served.request("GET", &url, "").await?;
    let (head, body) = page.split_once("\r\n\r\n").context("no body")?;
    ensure!(head.starts_with("HTTP/1.1 200 ") && body == html, "{page}");
    ensure!(
        head.contains("content-security-policy: sandbox allow-popups ") && !head.contains("allow-scripts"),
        "{head}"
    );
    for other in
        [url.replace("/v/", "/p/"), url.replace("/v/", "/u/"), footer(&html, address, "p")?.replace("/p/", "/v/")]
    {
        assert!(served.request("GET", &other, "").await?.starts_with("HTTP/1.1 404 "), "{other}");
    }
    let page = served.request("GET", &format!("http://{address}/v/{purged}"), "").await?;
    ensure!(page.starts_with("HTTP/1.1 410 ") && page.contains("This message is no longer kept"), "{page}");
    served.stop().await
}

/// Each state at each width, in light and dark, with large text, by keyboard alone.
#[needs(temporal, python, chromium, page_checkers)]
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_finds_no_fault_in_any_state_of_the_pages() -> Result<()> {
    let served = Served::start(|settings| {
        for digest in settings.digests.values_mut() {
            digest.categories.insert("comment".into(), "Comments".into());
        }
    })
    .await?;
    let Served { env, address, .. } = &served;
    let purged = ViewLink { tenant: "acme".into(), message: Uuid::nil() };
    let purged = purged.token(env.settings.link_keys.as_ref().context("no keys")?).context("no key")?;
    let html = sent(env, &key("activity", "ann")).await?;
    let mut check = browser("browser.py")?;
    if let Some(folder) = env::var_os("TIDINGS_TEST_SHOTS") {
        check.arg("--shots").arg(folder);
    }
    check.args([footer(&html, address, "p")?, footer(&html, address, "u")?, format!("http://{address}/v/{purged}")]);
    tokio::task::spawn_blocking(move || finds_nothing(&mut check)).await??;
    served.stop().await
}
