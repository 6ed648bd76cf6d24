//! The directory over HTTP: who is put gets digests, and who is erased does not.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tidings_harness::{env::count, http, wait::eventually};
use tidings_needs::needs;

use super::{Api, MINUTE};

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_put_over_http_gets_digests_until_erased() -> Result<()> {
    let api = Api::start("after 1s").await?;
    let scopes = ["events:write", "recipients:write", "recipients:read"];
    let token = api.token("acme", &scopes).await?;
    let ann = json!({"address": "ann@example.net", "name": "Ann", "zone": "Europe/Berlin"});
    let (status, put) = api.ask(&token, "PUT", "/v1/recipients/ann", &ann).await?;
    assert_eq!((status, &put["address"], &put["tenant"]), (201, &json!("ann@example.net"), &json!("acme")));
    api.emit(&token, "ann", "e1").await?;
    api.until_mails(1).await?;
    assert_eq!(api.cli.relay.mail(0).context("no mail")?.to, ["ann@example.net"]);

    let (status, patched) =
        api.ask(&token, "PATCH", "/v1/recipients/ann", &json!({"address": "ann@example.org"})).await?;
    assert_eq!((status, &patched["name"]), (200, &json!("Ann")));
    api.emit(&token, "ann", "e2").await?;
    api.until_mails(2).await?;
    assert_eq!(api.cli.relay.mail(1).context("no mail")?.to, ["ann@example.org"]);

    let path = "/v1/recipients/ann?why=request+812";
    let erased = eventually("the erasure is complete", MINUTE, async || {
        let (status, answer) = api.ask(&token, "DELETE", path, &Value::Null).await?;
        anyhow::ensure!(status == 200 || status == 503, "{answer}");
        Ok((status == 200).then_some(answer))
    })
    .await?;
    assert!(erased["left"].as_object().context("no counts")?.values().all(|count| *count == 0), "{erased}");
    let left =
        "SELECT (SELECT COUNT(*) FROM recipients) + (SELECT COUNT(*) FROM messages WHERE envelope_to LIKE '%@%')";
    assert_eq!(count(api.cli.folder.path(), left).await?, 0);
    let (status, _) = api.ask(&token, "GET", "/v1/recipients/ann", &Value::Null).await?;
    assert_eq!(status, 404);

    // Another person's digest, which is due later, shows that the erased one's never came.
    api.emit(&token, "ann", "e3").await?;
    let (status, _) = api.ask(&token, "PUT", "/v1/recipients/bo", &json!({"address": "bo@example.net"})).await?;
    assert_eq!(status, 201);
    api.emit(&token, "bo", "e4").await?;
    api.until_mails(3).await?;
    assert_eq!(api.cli.relay.mail(2).context("no mail")?.to, ["bo@example.net"]);
    let by = format!("token:{}", &token[4..20]);
    let audit = api.cli.run(&["audit", "--tenant", "acme", "--json"]).await?;
    let of = |action: &str| audit.lines().filter(|line| line.contains(&by) && line.contains(action)).count();
    assert_eq!((of("recipient_put"), of("request 812") > 0), (3, true), "{audit}");
    assert!(!audit.contains("ann@example"), "{audit}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_choice_moves_the_open_window_and_withdrawn_consent_ends_it() -> Result<()> {
    let api = Api::start("after 3h").await?;
    let scopes = ["events:write", "recipients:write", "digests:read", "preferences:write"];
    let token = api.token("acme", &scopes).await?;
    api.ask(&token, "PUT", "/v1/recipients/ann", &json!({"address": "ann@example.net"})).await?;
    api.emit(&token, "ann", "e1").await?;
    let window = async |wanted: &dyn Fn(u16, &Value) -> bool| {
        eventually("the window is as wanted", MINUTE, async || {
            let (status, answer) = api.ask(&token, "GET", "/v1/digests/activity/ann", &Value::Null).await?;
            Ok(wanted(status, &answer).then_some(answer))
        })
        .await
    };
    let before = window(&|status, answer| status == 200 && answer["due_at"].is_string()).await?;
    let head = "If-Match: \"0\"\r\n";
    let put = |path: &str, head: &str| format!("PUT {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n{head}");
    // The window is due in three hours. The recipient wants nothing then, but at another time of the day.
    let due = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(3);
    let quiet = if due.to_zoned(jiff::tz::TimeZone::UTC).hour() < 12 { "22:00-21:00" } else { "06:00-05:00" };
    let wanted = json!({"quiet": [quiet]});
    let path = "/v1/recipients/ann/preferences/activity";
    let (status, answer) = http::api_request(api.port.number, &put(path, head), &wanted.to_string()).await?;
    assert_eq!(status, 200, "{answer}");
    window(&|_, answer| answer["due_at"].is_string() && answer["due_at"] != before["due_at"]).await?;
    let (status, answer) = http::api_request(api.port.number, &put(path, head), "{}").await?;
    assert_eq!(status, 412, "{answer}");

    let path = "/v1/recipients/ann/consent/activity";
    let (status, _) = api.ask(&token, "PUT", path, &json!({"consent": false})).await?;
    assert_eq!(status, 200);
    window(&|status, answer| status == 404 || answer["pending"] == 0).await?;
    assert_eq!(api.cli.relay.count(), 0);
    Ok(())
}
