//! The page through its route and a real store. `tests/it` has the open windows.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, Method, StatusCode, header},
};
use tempfile::TempDir;
use tidings_mail::words::LocalizedWords;
use tidings_model::{
    PersonId, UnsubscribeLink,
    link_keys::LinkKeys,
    records::{AuditActor, AuditEntry, KeyFacts, PageRequest, PersonRowKind, Preferences, Recipient},
    settings::{DigestSettings, Settings, TenantBrand, TenantSettings},
};
use tidings_store::{SqliteStore, Store, prelude::*};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::*;
use crate::routes::tests::{over, public, settings, sqlite};

mod changes;
mod offered;

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

struct Bench {
    _folder: TempDir,
    store: Arc<SqliteStore>,
    router: Router,
}

fn configured() -> Settings {
    let digest = |template: &str, words: &str| DigestSettings {
        zone: Some("Europe/Berlin".into()),
        ..DigestSettings::new(template, words.parse().unwrap())
    };
    let activity = DigestSettings {
        title: Some("Activity <&> more".into()),
        description: Some("What your team did.".into()),
        categories: [("comment".to_owned(), "Comments".to_owned()), ("share".to_owned(), "Shares".to_owned())].into(),
        ..digest("activity", "daily 08:00")
    };
    let brand = TenantBrand {
        name: Some("Acme".into()),
        logo_url: Some("https://cdn.acme.example/logo.png".into()),
        colour: Some("#8a1c4a".parse().unwrap()),
        ..TenantBrand::default()
    };
    let general = settings();
    let acme = TenantSettings { brand, ..TenantSettings::new(general.streams.clone()) };
    Settings {
        digests: [("activity".to_owned(), activity), ("alerts".to_owned(), digest("alerts", "instant"))].into(),
        tenants: [("acme".to_owned(), acme)].into(),
        link_keys: Some(KEY.parse().unwrap()),
        ..general
    }
}

fn serving(store: Arc<dyn Store>) -> Router {
    public(over(store, configured()))
}

async fn bench(locale: &str) -> Bench {
    bench_with(locale, configured()).await
}

async fn bench_with(locale: &str, settings: Settings) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(folder.path()).await;
    store.migrate().await.unwrap();
    let recipient = Recipient {
        tenant: "acme".into(),
        user: "ann".into(),
        address: "ann@example.net".into(),
        name: "Ann".into(),
        zone: String::new(),
        locale: locale.into(),
    };
    store.put_recipients(&[recipient], Timestamp::now()).await.unwrap();
    Bench { router: public(over(store.clone(), settings)), store, _folder: folder }
}

fn ann(digest_type: &str) -> Key {
    Key::new("acme".into(), digest_type.into(), "ann".into()).unwrap()
}

fn token() -> String {
    let link = PreferencesLink { key: ann("activity"), message: Uuid::from_u128(7), generation: 0 };
    link.token(&KEY.parse::<LinkKeys>().unwrap()).unwrap()
}

fn entry(action: &str) -> AuditEntry {
    AuditEntry { at: Timestamp::now(), actor: AuditActor::Recipient, action: action.into(), why: "one click".into() }
}

/// Without direction marks, and with plain spaces.
fn plain(text: &str) -> String {
    text.replace(['\u{2068}', '\u{2069}'], "").replace('\u{a0}', " ")
}

/// Value of the hidden field `undo`.
fn undo_of(page: &str) -> Option<String> {
    let value = page.split("name=\"undo\" value=\"").nth(1)?.split('"').next()?;
    Some(value.replace("&quot;", "\"").replace("&#34;", "\"").replace("&amp;", "&"))
}

impl Bench {
    async fn send(&self, method: Method, token: &str, fields: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = Request::builder().method(method).uri(format!("/p/{token}"));
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let response = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 4 << 20).await.unwrap();
        (parts.status, parts.headers, plain(std::str::from_utf8(&body).unwrap()))
    }

    async fn post(&self, fields: &[(&str, &str)]) -> (StatusCode, String) {
        let (status, _, page) = self.send(Method::POST, &token(), fields).await;
        (status, page)
    }

    async fn page(&self) -> String {
        self.send(Method::GET, &token(), &[]).await.2
    }

    async fn facts(&self, digest_type: &str) -> KeyFacts {
        self.store.facts(&ann(digest_type)).await.unwrap()
    }

    /// Actor, action and reason of Ann's entries.
    async fn audit(&self) -> Vec<String> {
        let page = PageRequest { limit: 50, after: None };
        let held = self
            .store
            .person_rows(
                &Key { digest_type: String::new(), ..ann("activity") },
                &BTreeSet::new(),
                PersonRowKind::Audit,
                &page,
            )
            .await
            .unwrap();
        let words = |row: &serde_json::Value| {
            ["actor", "action", "why"].map(|name| row[name].as_str().unwrap_or_default().to_owned()).join(": ")
        };
        held.rows.iter().map(words).collect()
    }
}

/// Fields of the page at revision 0, with these replaced.
fn fields<'a>(changed: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [
        ("activity:seen", "0 on"),
        ("activity:on", "1"),
        ("activity:often", "default"),
        ("activity:day", "mon"),
        ("activity:time", "08:00"),
        ("activity:pause", ""),
        ("alerts:seen", "0 on"),
        ("alerts:on", "1"),
        ("alerts:often", "default"),
        ("alerts:pause", ""),
        ("zone", "Europe/Berlin"),
        ("zone_was", "Europe/Berlin"),
        ("action", "save"),
    ];
    let kept = usual.into_iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    // A value of `-` stands for a box that is not ticked.
    kept.chain(changed.iter().copied().filter(|(_, value)| *value != "-")).collect()
}

#[tokio::test]
async fn the_page_shows_every_digest_type_and_reading_changes_nothing() {
    let bench = bench("").await;
    for method in [Method::GET, Method::HEAD] {
        let (status, headers, _) = bench.send(method, &token(), &fields(&[("activity:on", "-")])).await;
        assert_eq!(status, StatusCode::OK);
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && policy.ends_with("; img-src https://cdn.acme.example"));
        for (name, value) in
            [("referrer-policy", "no-referrer"), ("cache-control", "no-store"), ("x-robots-tag", "noindex")]
        {
            assert_eq!(headers[name], value);
        }
        assert!(!headers.contains_key(header::SET_COOKIE));
    }
    let page = bench.page().await;
    for part in [
        "Your emails from Acme",
        "a…@example.net",
        "Activity &lt;&amp;&gt; more",
        "What your team did.",
        "alerts",
        "Comments",
        "As usual: every day at 8:00 AM",
        "8:00 AM (Europe/Berlin), if there is something new.",
        "Next digest: as soon as there is something new.",
        "page.css?8a1c4a",
        "https:&#x2F;&#x2F;cdn.acme.example",
    ] {
        let part = part.replace("&#x2F;", "/");
        assert!(page.replace("&#x2F;", "/").contains(&part), "{part}: {page}");
    }
    assert!(!page.contains("nn@") && !page.contains("<script"), "{page}");
    assert!(bench.audit().await.is_empty() && bench.facts("activity").await.consent);
}

#[tokio::test]
async fn the_language_is_the_recipients() {
    let page = bench("de-AT").await.page().await;
    assert!(page.contains("<html lang=\"de-AT\" dir=\"ltr\">") && page.contains("Ihre E-Mails von Acme"), "{page}");
}

#[tokio::test]
async fn a_language_from_right_to_left_turns_the_page() {
    let page = bench("ar").await.page().await;
    assert!(page.contains("<html lang=\"ar\" dir=\"rtl\">") && page.contains("رسائلك الإلكترونية من Acme"), "{page}");
}

#[tokio::test]
async fn a_token_of_another_purpose_or_key_is_not_found() {
    let bench = bench("").await;
    let keys: LinkKeys = KEY.parse().unwrap();
    let unsubscribe = UnsubscribeLink::Unsubscribe { key: ann("activity"), message: Uuid::from_u128(7), generation: 0 }
        .token(&keys)
        .unwrap();
    let other: LinkKeys = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE".parse().unwrap();
    let other =
        PreferencesLink { key: ann("activity"), message: Uuid::from_u128(7), generation: 0 }.token(&other).unwrap();
    let good = token();
    for wrong in ["x", &unsubscribe, &other, &good[1..], &format!("{good}A")] {
        for method in [Method::GET, Method::POST] {
            let (status, _, body) = bench.send(method, wrong, &fields(&[("activity:on", "-")])).await;
            assert_eq!((status, body.as_str()), (StatusCode::NOT_FOUND, ""), "{wrong}");
        }
    }
    assert!(bench.facts("activity").await.consent);
}

#[tokio::test]
async fn a_link_of_an_erased_person_does_not_open_the_page_of_the_next_one() {
    let bench = bench("").await;
    bench.store.raise_generation(&PersonId::from_key(&ann("activity"))).await.unwrap();
    for method in [Method::GET, Method::POST] {
        let (status, _, body) = bench.send(method, &token(), &fields(&[("activity:on", "-")])).await;
        assert_eq!((status, body.as_str()), (StatusCode::NOT_FOUND, ""));
    }
    assert!(bench.facts("activity").await.consent);
    let next = PreferencesLink { key: ann("activity"), message: Uuid::from_u128(7), generation: 1 };
    let next = next.token(&KEY.parse().unwrap()).unwrap();
    assert_eq!(bench.send(Method::GET, &next, &[]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_link_follows_a_person_to_another_id() {
    let bench = bench("").await;
    let [ann, anna] = ["ann", "anna"].map(|user| PersonId { tenant: "acme".into(), user: user.into() });
    assert!(bench.store.begin_move(&ann, &anna, &entry("rename")).await.unwrap());
    bench.store.move_person(&ann, &anna, &BTreeSet::new(), Timestamp::now()).await.unwrap();
    let (status, _, page) = bench.send(Method::GET, &token(), &[]).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("…@example.net"), "{page}");
}

#[tokio::test]
async fn without_the_database_a_page_asks_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(folder.path()).await;
    let bench = Bench { router: serving(store.clone()), store, _folder: folder };
    for method in [Method::GET, Method::POST] {
        let (status, headers, page) = bench.send(method, &token(), &fields(&[])).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            headers.contains_key(header::RETRY_AFTER) && page.contains("This does not work at the moment"),
            "{page}"
        );
    }
}

#[tokio::test]
async fn the_recipients_language_says_the_names_of_digest_types_and_categories() {
    let bench = bench("de").await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("words")).unwrap();
    let own = "digest_activity = Aktivität\ndescription_activity = Was Ihr Team tat.\ncategory_comment = Kommentare\n";
    std::fs::write(folder.path().join("words/de.ftl"), own).unwrap();
    let words = Arc::new(LocalizedWords::new(Some(folder.path())).unwrap());
    let router = public(GatewayState { words, ..over(bench.store.clone(), configured()) });
    let bench = Bench { router, ..bench };
    let (_, _, page) = bench.send(Method::GET, &token(), &[]).await;
    for said in ["Aktivität", "Was Ihr Team tat.", "Kommentare", "Shares", "alerts"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("Activity") && !page.contains("Comments"), "{page}");
}
