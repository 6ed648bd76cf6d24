//! One click on real links, with a real store. Links need neither a configured digest type nor a stored message.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, Method, header},
};
use tempfile::TempDir;
use tidings_model::{
    Cadence, Key, PersonId,
    api_token::TokenRecord,
    link_keys::LinkKeys,
    records::{AuditEntry, PageRequest, PersonRowKind, Recipient, SuppressionReason},
    settings::{DigestSettings, FormerNames, Settings, TenantSettings},
};
use tidings_store::{SqliteStore, Store, StoredToken, prelude::*};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::*;
use crate::routes::tests::{over, public, settings, sqlite};

const OLD: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const NEW: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
const FORM: (&str, &str) = ("application/x-www-form-urlencoded", "List-Unsubscribe=One-Click");
const MULTIPART: (&str, &str) = (
    "multipart/form-data; boundary=b",
    "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n",
);

struct Bench {
    _folder: TempDir,
    store: Arc<SqliteStore>,
    router: Router,
}

fn serving(store: Arc<dyn Store>) -> Router {
    let settings = Settings { link_keys: Some(format!("{NEW} {OLD}").parse().unwrap()), ..settings() };
    public(over(store, settings))
}

async fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(folder.path()).await;
    store.migrate().await.unwrap();
    Bench { router: serving(store.clone()), store, _folder: folder }
}

fn ann() -> Key {
    Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()
}

fn token(link: &UnsubscribeLink, keys: &str) -> String {
    link.token(&keys.parse::<LinkKeys>().unwrap()).unwrap()
}

fn digest() -> UnsubscribeLink {
    UnsubscribeLink::Unsubscribe { key: ann(), message: Uuid::from_u128(7), generation: 0 }
}

fn single() -> UnsubscribeLink {
    UnsubscribeLink::Suppress { tenant: "acme".into(), address: "Ann@example.net".into(), message: Uuid::from_u128(7) }
}

impl Bench {
    async fn send(&self, method: Method, token: &str, (kind, body): (&str, &str)) -> (StatusCode, HeaderMap, String) {
        let request = Request::builder().method(method).uri(format!("/u/{token}")).header(header::CONTENT_TYPE, kind);
        let response = self.router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 100_000).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn wanted(&self) -> bool {
        self.store.facts(&ann()).await.unwrap().consent
    }

    /// Actor, action and reason of Ann's entries.
    async fn audit(&self) -> Vec<String> {
        let key = Key { digest_type: String::new(), ..ann() };
        let page = PageRequest { limit: 10, after: None };
        let held = self.store.person_rows(&key, &BTreeSet::new(), PersonRowKind::Audit, &page).await.unwrap();
        let words = |row: &serde_json::Value| {
            ["actor", "action", "why"].map(|name| row[name].as_str().unwrap_or_default().to_owned()).join(": ")
        };
        held.rows.iter().map(words).collect()
    }
}

/// With only this digest type.
fn of_type(name: &str, store: Arc<dyn Store>, names: FormerNames) -> Router {
    let digests = [(name.to_owned(), DigestSettings::new(name, Cadence::Never))].into();
    let link_keys = Some(NEW.parse().unwrap());
    public(over(store, Settings { digests, names, link_keys, ..settings() }))
}

#[tokio::test]
async fn a_link_of_a_type_that_no_table_has_withdraws_consent_and_says_that_the_name_is_gone() {
    let first = bench().await;
    let gone = "Emails no longer go out under this name";
    let was = FormerNames { digests: [("activity".to_owned(), "news".to_owned())].into(), ..FormerNames::default() };
    for (name, names, says_gone) in
        [("news", FormerNames::default(), true), ("news", was, false), ("activity", FormerNames::default(), false)]
    {
        let bench = Bench {
            router: of_type(name, first.store.clone(), names),
            store: first.store.clone(),
            _folder: tempfile::tempdir().unwrap(),
        };
        let (status, _, body) = bench.send(Method::POST, &token(&digest(), NEW), FORM).await;
        assert_eq!((status, body.contains(gone)), (StatusCode::OK, says_gone), "{body}");
        assert!(!bench.wanted().await);
    }
}

#[tokio::test]
async fn a_link_of_a_tenant_that_the_file_lacks_says_that_the_name_is_gone() {
    let first = bench().await;
    let gone = "Emails no longer go out under this name";
    let table = |name: &str| (name.to_owned(), TenantSettings::new(settings().streams));
    let was = FormerNames { tenants: [("acme".to_owned(), "initech".to_owned())].into(), ..FormerNames::default() };
    let none = FormerNames::default;
    let says_gone = async |tenants: &[&str], names: FormerNames| {
        let tenants = tenants.iter().map(|name| table(name)).collect();
        let link_keys = Some(NEW.parse().unwrap());
        let settings = Settings { tenants, names, link_keys, ..settings() };
        let router = public(over(first.store.clone(), settings));
        let bench = Bench { router, store: first.store.clone(), _folder: tempfile::tempdir().unwrap() };
        let mut said = Vec::new();
        for link in [digest(), single()] {
            let (status, _, body) = bench.send(Method::POST, &token(&link, NEW), FORM).await;
            assert_eq!(status, StatusCode::OK, "{body}");
            said.push(body.contains(gone));
        }
        said
    };
    assert_eq!(says_gone(&["initech"], none()).await, [true, true]);
    assert_eq!(says_gone(&["initech"], was).await, [false, false]);
    assert_eq!(says_gone(&["initech", "acme"], none()).await, [false, false]);
    assert_eq!(says_gone(&[], none()).await, [false, false], "tenants need no table");
    let record = TokenRecord {
        id: "t1".to_owned(),
        tenant: Some("acme".to_owned()),
        scopes: Vec::new(),
        note: String::new(),
        created_at: Timestamp::now(),
        created_by: "carol".to_owned(),
        expires_at: None,
        revoked_at: None,
        last_used_on: None,
    };
    let entry = AuditEntry {
        at: Timestamp::now(),
        actor: "carol".to_owned().into(),
        action: "token".to_owned(),
        why: "a test".to_owned(),
    };
    first.store.put_token(&StoredToken { record, hash: String::new() }, &entry).await.unwrap();
    assert_eq!(says_gone(&["initech"], none()).await, [false, false], "its producers are let in");
}

#[tokio::test]
async fn one_click_withdraws_consent_once_in_both_encodings() {
    for request in [FORM, MULTIPART] {
        let bench = bench().await;
        assert!(bench.wanted().await);
        for keys in [OLD, NEW, OLD] {
            let (status, headers, body) = bench.send(Method::POST, &token(&digest(), keys), request).await;
            assert_eq!(status, StatusCode::OK, "{body}");
            assert!(!headers.contains_key(header::SET_COOKIE) && !headers.contains_key(header::LOCATION));
            assert!(body.contains("You are unsubscribed") && body.contains("activity"), "{body}");
            assert!(!bench.wanted().await);
        }
        let expected =
            format!("recipient: withdraw consent: unsubscribed by one click from message {}", digest().message());
        assert_eq!(bench.audit().await, [expected]);
    }
}

#[tokio::test]
async fn one_click_of_a_single_message_suppresses_its_address_for_bulk_messages() {
    let bench = bench().await;
    for _ in 0..2 {
        let (status, _, body) = bench.send(Method::POST, &token(&single(), OLD), FORM).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert!(body.contains("A…@example.net") && !body.contains("Ann@"), "{body}");
    }
    assert_eq!(
        bench.store.suppression_reasons("acme", "ann@example.net").await.unwrap(),
        [SuppressionReason::Unsubscribed]
    );
    assert_eq!(bench.store.suppression_reasons("other", "ann@example.net").await.unwrap(), []);
}

#[tokio::test]
async fn a_link_of_an_erased_person_is_not_ours_and_unsubscribes_nobody() {
    let bench = bench().await;
    bench.store.raise_generation(&PersonId::from_key(&ann())).await.unwrap();
    for method in [Method::GET, Method::POST] {
        let (status, _, body) = bench.send(method, &token(&digest(), OLD), FORM).await;
        assert_eq!((status, body.as_str()), (StatusCode::NOT_FOUND, ""));
    }
    assert!(bench.wanted().await);
    let next = UnsubscribeLink::Unsubscribe { key: ann(), message: Uuid::from_u128(8), generation: 1 };
    assert_eq!(bench.send(Method::POST, &token(&next, OLD), FORM).await.0, StatusCode::OK);
    assert!(!bench.wanted().await);
}

#[tokio::test]
async fn reading_a_link_changes_nothing() {
    let bench = bench().await;
    let recipient = Recipient {
        tenant: "acme".into(),
        user: "ann".into(),
        address: "ann@example.net".into(),
        name: "Ann".into(),
        zone: String::new(),
        locale: String::new(),
    };
    bench.store.put_recipients(&[recipient], Timestamp::now()).await.unwrap();
    for link in [digest(), single()] {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE] {
            let (status, headers, body) = bench.send(method.clone(), &token(&link, OLD), FORM).await;
            if [Method::GET, Method::HEAD].contains(&method) {
                assert_eq!(status, StatusCode::OK);
                assert!(headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'"));
            } else {
                assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
            }
            if method == Method::GET {
                assert!(body.contains("<form method=\"post\">") && body.contains("value=\"One-Click\""), "{body}");
                assert!(body.contains("…@example.net") && !body.contains("nn@"), "{body}");
            }
        }
    }
    assert!(bench.wanted().await);
    assert_eq!(bench.store.suppression_reasons("acme", "ann@example.net").await.unwrap(), []);
}

#[tokio::test]
async fn a_wrong_token_is_not_found_and_nothing_tells_why() {
    let bench = bench().await;
    let good = token(&digest(), OLD);
    let other_key = token(&digest(), "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI");
    for wrong in ["x", "%FF", &good[1..], &good[..good.len() - 1], &format!("{good}A"), &other_key] {
        for method in [Method::GET, Method::POST] {
            let (status, _, body) = bench.send(method, wrong, FORM).await;
            assert_eq!((status, body.as_str()), (StatusCode::NOT_FOUND, ""), "{wrong}");
        }
    }
    assert!(bench.wanted().await);
}

#[tokio::test]
async fn what_programs_put_behind_a_link_does_not_make_it_dead() {
    for behind in ["/", ".", ")", "%3E", "=", ",", "%20", "%E2%80%9D", "&gt;", "%2F", "?utm_source=x"] {
        let bench = bench().await;
        let token = format!("{}{behind}", token(&digest(), OLD));
        assert_eq!(bench.send(Method::GET, &token, FORM).await.0, StatusCode::OK, "{behind}");
        assert!(bench.wanted().await);
        assert_eq!(bench.send(Method::POST, &token, FORM).await.0, StatusCode::OK, "{behind}");
        assert!(!bench.wanted().await, "{behind}");
    }
}

#[tokio::test]
async fn a_person_with_a_dead_link_gets_a_page_that_is_always_the_same() {
    let bench = bench().await;
    let good = token(&digest(), OLD);
    let mut pages = BTreeSet::new();
    for path in
        ["/u/x".to_owned(), format!("/u/{good}A"), format!("/p/{good}"), "/U/x".to_owned(), "/no/such/page".to_owned()]
    {
        let request = Request::get(&path).header(header::ACCEPT, "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
        let response = bench.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        let body = to_bytes(response.into_body(), 100_000).await.unwrap();
        pages.insert(String::from_utf8(body.to_vec()).unwrap());
    }
    assert!(pages.len() == 1 && pages.iter().all(|page| page.contains("This link does not work")), "{pages:?}");
}

#[tokio::test]
async fn another_body_is_refused_and_changes_nothing() {
    let bench = bench().await;
    for body in ["", "List-Unsubscribe=No", "One-Click"] {
        let (status, headers, said) = bench.send(Method::POST, &token(&digest(), OLD), (FORM.0, body)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert!(said.contains("/problems/not-one-click"), "{said}");
    }
    let long = format!("{}&x={}", FORM.1, "x".repeat(5_000));
    let (status, _, _) = bench.send(Method::POST, &token(&digest(), OLD), (FORM.0, &long)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(bench.wanted().await);
}

#[tokio::test]
async fn without_the_database_nothing_is_promised() {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(folder.path()).await;
    let bench = Bench { router: serving(store.clone()), store, _folder: folder };
    let (status, headers, body) = bench.send(Method::POST, &token(&digest(), OLD), FORM).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(headers.contains_key(header::RETRY_AFTER) && body.contains("/problems/unavailable"), "{body}");
    // The page itself needs no database.
    assert_eq!(bench.send(Method::GET, &token(&digest(), OLD), FORM).await.0, StatusCode::OK);
}
