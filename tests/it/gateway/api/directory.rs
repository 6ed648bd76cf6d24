//! Recipients of a team's own directory: their page of choices works with the last answer, and without one.

use anyhow::{Context, Result, ensure};
use jiff::{Timestamp, tz::TimeZone};
use mail_parser::MessageParser;
use serde_json::{Value, json};
use tidings_harness::{
    env::count,
    gateway::{footer, form},
    http,
    notice_receiver::SECRET_ENV,
    team_service::{Says, TeamService},
    wait::eventually,
};
use tidings_needs::needs;

use super::{Api, MINUTE};

const WHY: &str = "a test";
/// Makes the last answers older than those that need no question.
const AGED: &str = "UPDATE recipients SET answered_at = answered_at - 61000 RETURNING 1";

/// Tidings with the team's directory at the service.
async fn start(service: &TeamService) -> Result<Api> {
    let url = service.url().replace("/seen?of=acme", "/recipients/{tenant}/{user}");
    Api::start_with("after 3h", &format!("[directory]\nurl = \"{url}\"\nsecret_env = \"{SECRET_ENV}\"\n")).await
}

impl Api {
    /// The path of the page of choices that an email links to.
    fn page_path(&self, email: usize) -> Result<String> {
        let bytes = self.cli.relay.mail(email).context("no email")?.bytes();
        let parsed = MessageParser::default().parse(&bytes).context("no message")?;
        let html = parsed.body_html(0).context("no HTML")?.into_owned();
        let address = format!("localhost:{}", self.public.number);
        Ok(footer(&html, &address, "p")?.replace(&format!("http://{address}"), ""))
    }

    async fn page(&self, path: &str) -> Result<String> {
        let (status, page) = http::request(self.public.number, &format!("GET {path} HTTP/1.1\r\n"), "").await?;
        ensure!(status == 200, "{status}: {page}");
        Ok(page)
    }

    /// Sends the form of the page.
    async fn choose(&self, path: &str, fields: &[(&str, &str)]) -> Result<String> {
        let head = format!("POST {path} HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n");
        let (status, page) = http::request(self.public.number, &head, &form(fields)).await?;
        ensure!(status == 200, "{status}: {page}");
        Ok(page)
    }

    /// Waits until the key's status is as wanted.
    async fn window(&self, token: &str, is_wanted: impl Fn(u16, &Value) -> bool) -> Result<Value> {
        eventually("the window is as wanted", MINUTE, async || {
            let (status, answer) = self.ask(token, "GET", "/v1/digests/activity/ann", &Value::Null).await?;
            Ok(is_wanted(status, &answer).then_some(answer))
        })
        .await
    }

    async fn flush(&self, token: &str) -> Result<()> {
        let path = "/v1/digests/activity/ann/flush";
        let (status, answer) = self.ask(token, "POST", path, &json!({"why": WHY})).await?;
        ensure!(status == 200, "{answer}");
        Ok(())
    }
}

/// The version of the choices that a page shows.
fn seen(page: &str) -> Result<String> {
    let value = page.split("name=\"activity:seen\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    Ok(value.context("no version")?.to_owned())
}

/// A time of day in Tokyo that is hours away, and the same in UTC.
fn far_away(now: Timestamp) -> (&'static str, &'static str) {
    let morning = (20..24).contains(&now.to_zoned(TimeZone::UTC).hour());
    if morning { ("20:00", "T11:00:00Z") } else { ("08:00", "T23:00:00Z") }
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn someone_whom_only_the_directory_knows_chooses_on_the_page() -> Result<()> {
    let ann = json!({"email": "ann@acme.example", "name": "Ann", "zone": "Asia/Tokyo", "locale": "de"});
    let service = TeamService::start(Says::Json(ann.clone())).await?;
    let api = start(&service).await?;
    let scopes = ["events:write", "digests:read", "digests:operate", "preferences:read"];
    let token = api.token("acme", &scopes).await?;
    let collecting = |_: u16, answer: &Value| answer["state"] == "collecting" && answer["due_at"].is_string();
    api.emit(&token, "ann", "e1").await?;
    api.window(&token, collecting).await?;
    api.flush(&token).await?;
    api.until_mails(1).await?;
    assert_eq!(service.asked()[0].path, "/recipients/acme/ann");
    api.window(&token, |status, _| status == 404).await?;

    // Language, zone and address are those of the answer.
    let path = api.page_path(0)?;
    let page = api.page(&path).await?;
    for part in ["<html lang=\"de\"", "a…@acme.example", "<option selected>Asia/Tokyo</option>", "activity:seen"] {
        ensure!(page.contains(part), "{part}: {page}");
    }
    api.emit(&token, "ann", "e2").await?;
    let before = api.window(&token, collecting).await?;
    let (time, utc) = far_away(Timestamp::now());
    let version = seen(&page)?;
    let chosen = [
        ("activity:seen", version.as_str()),
        ("activity:on", "1"),
        ("activity:often", "daily"),
        ("activity:time", time),
        ("zone", "Asia/Tokyo"),
        ("zone_was", "Asia/Tokyo"),
        ("action", "save"),
    ];
    let page = api.choose(&path, &chosen).await?;
    ensure!(page.contains("name=\"undo\""), "{page}");
    let moved = api.window(&token, |_, answer| collecting(200, answer) && answer["due_at"] != before["due_at"]).await?;
    ensure!(moved["due_at"].as_str().is_some_and(|due| due.ends_with(utc)), "{moved}");
    let preferences = "/v1/recipients/ann/preferences/activity";
    let (_, kept) = api.ask(&token, "GET", preferences, &Value::Null).await?;
    ensure!(kept.to_string().contains(&format!("daily {time}")), "{kept}");

    // The directory forgets ann: the link still works, and the choices hold.
    service.says(Says::Raw("HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n".to_owned()));
    assert_eq!(count(api.cli.folder.path(), AGED).await?, 1);
    api.flush(&token).await?;
    let forgotten =
        async || Ok((count(api.cli.folder.path(), "SELECT COUNT(*) FROM recipients").await? == 0).then_some(()));
    eventually("the last answer is gone", MINUTE, forgotten).await?;
    let page = api.page(&path).await?;
    ensure!(page.contains("value=\"daily\" selected"), "{page}");
    ensure!(!page.contains("@acme.example"), "{page}");
    let version = seen(&page)?;
    let page = api.choose(&path, &[("activity:seen", &version), ("action", "none")]).await?;
    ensure!(page.contains("name=\"undo\""), "{page}");
    api.window(&token, |status, answer| status == 404 || answer["pending"] == 0).await?;

    // The directory knows ann again: the wish not to get digests holds.
    service.says(Says::Json(ann));
    api.emit(&token, "ann", "e3").await?;
    let skipped = "SELECT COUNT(*) FROM digests WHERE outcome = 'skipped'";
    let skipped = async || Ok((count(api.cli.folder.path(), skipped).await? == 2).then_some(()));
    eventually("both windows end without an email", MINUTE, skipped).await?;
    assert_eq!(api.cli.relay.count(), 1, "{}", api.log());
    Ok(())
}
