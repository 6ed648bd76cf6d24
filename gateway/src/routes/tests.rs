//! Requests through the layers that all routes share.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    routing::post,
};
use tidings_mail::words::LocalizedWords;
use tidings_model::{
    process::{ProcessProfile, ProcessRecord, ProcessRole},
    settings::{DeliveryStreams, SenderIdentity, Settings, StreamSettings},
};
use tidings_store::{SqliteStore, Store};
use tokio::sync::{Notify, watch};
use tower::ServiceExt as _;

use super::*;
use crate::{
    BODY_COST, TrustedProxies,
    fetch::HttpFetcher,
    recorder::TrackingRecorder,
    request_body::{self, BodyLimit},
    webhooks::{WebhookContext, ses::CertificateCache},
};

/// Settings without digest types, relays and keys.
pub(crate) fn settings() -> Settings {
    let sender = SenderIdentity {
        name: String::new(),
        address: "a@b.example".parse().unwrap(),
        reply_to: None,
        domain: "b.example".into(),
    };
    Settings::new(DeliveryStreams {
        bulk: StreamSettings::new(&[], sender.clone()),
        transactional: StreamSettings::new(&[], sender),
    })
}

/// Without tables.
pub(crate) async fn sqlite(folder: &std::path::Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::connect(&format!("sqlite:{}", folder.join("tidings.db").display())).await.unwrap())
}

/// Temporal has not answered yet.
pub(crate) fn over(store: Arc<dyn Store>, settings: Settings) -> GatewayState {
    let settings = Arc::new(settings);
    let recorder = TrackingRecorder::start(store.clone(), settings.clone()).0;
    let words = Arc::new(LocalizedWords::new(None).unwrap());
    GatewayState { store, directory: None, recorder, settings, words, temporal: watch::channel(None).1 }
}

/// `link_key` is the fingerprint of its keys.
fn process(id: u128, link_key: &str, seen_at: jiff::Timestamp) -> ProcessRecord {
    let profile = ProcessProfile::new(ProcessRole::Worker, "a", 1, "tidings");
    let profile = ProcessProfile { link_keys: vec![link_key.into()], version: format!("0.{id}"), ..profile };
    ProcessRecord { id: uuid::Uuid::from_u128(id), seen_at, profile }
}

/// Every public route, without webhooks.
pub(crate) fn public(state: GatewayState) -> Router {
    let certificates = CertificateCache::new(HttpFetcher::new());
    let webhooks = WebhookContext { state: state.clone(), hooks: BTreeMap::new(), certificates };
    router(state, webhooks, AdmissionLimits::default())
}

async fn state(folder: &std::path::Path, migrated: bool) -> GatewayState {
    let store = sqlite(folder).await;
    if migrated {
        store.migrate().await.unwrap();
    }
    over(store, settings())
}

async fn answer(router: &Router, request: Request) -> (StatusCode, header::HeaderMap, String) {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 100_000).await.unwrap();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

fn get_of(path: &str) -> Request {
    Request::get(path).body(Body::empty()).unwrap()
}

async fn panics() -> StatusCode {
    panic!("secret")
}

/// Test routes behind the shared layers.
fn routes(concurrency: RequestQuotas, time: Duration) -> Router {
    let limit = BodyLimit { time: Duration::from_millis(100), decodes: true, ..BodyLimit::with_bytes(10) };
    let routes = Router::new()
        .route("/echo", post(async |body: String| body))
        .layer(from_fn_with_state(limit, request_body::buffer_body))
        .route("/items/{token}", get(async || "an item"))
        .route("/panic", get(panics))
        .route("/never", get(async || std::future::pending::<()>().await));
    with_shared_layers(with_limits(routes, concurrency, time))
}

fn usual() -> Router {
    routes(concurrency(10, 1000), Duration::from_millis(200))
}

fn concurrency(requests: usize, body_bytes: usize) -> RequestQuotas {
    RequestQuotas::new([requests; 2], [body_bytes; 2], TrustedProxies::default())
}

#[tokio::test]
async fn a_body_is_bounded_in_bytes_and_time() {
    let post = |body: Body| Request::post("/echo").body(body).unwrap();
    let (status, _, body) = answer(&usual(), post(Body::from("0123456789"))).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "0123456789"));
    let chunked = Body::from_stream(futures::stream::iter(vec![Ok::<_, std::io::Error>("012345"), Ok("67890")]));
    let declared = Request::post("/echo").header("content-length", "11").body(Body::empty()).unwrap();
    for long in [post(Body::from("01234567890")), post(chunked), declared] {
        let (status, headers, body) = answer(&usual(), long).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{body}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert!(body.contains("\"type\":\"/problems/too-large\""), "{body}");
    }
    let silent = Body::from_stream(futures::stream::pending::<Result<&str, std::io::Error>>());
    let (status, _, _) = answer(&usual(), post(silent)).await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
}

/// A body that stalls after these bytes.
fn half(sent: &'static str) -> Body {
    let sent = futures::stream::iter([Ok::<_, std::io::Error>(sent)]);
    Body::from_stream(futures::StreamExt::chain(sent, futures::stream::pending()))
}

#[tokio::test]
async fn bodies_over_the_memory_for_all_of_them_are_refused_and_half_of_one_counts() {
    let post = |body: Body| Request::post("/echo").body(body).unwrap();
    let long = |length: &str| Request::post("/echo").header("content-length", length);
    // Memory for one body of ten bytes.
    let router = routes(concurrency(10, 10 * BODY_COST), Duration::from_mins(1));
    let declared = || long("6").body(half("012")).unwrap();
    let encoded = || Request::post("/echo").header("content-encoding", "gzip").body(half("")).unwrap();
    for waiting in [post(half("012345")), declared(), encoded()] {
        let waiting = tokio::spawn(router.clone().oneshot(waiting));
        let busy = async || {
            let (status, headers, body) = answer(&router, post(Body::from("012345"))).await;
            (status == StatusCode::SERVICE_UNAVAILABLE).then(|| (headers[header::RETRY_AFTER].clone(), body))
        };
        let (retry, body) = loop {
            match busy().await {
                Some(refused) => break refused,
                // The body that waits has not begun.
                None => tokio::task::yield_now().await,
            }
        };
        assert!(retry == "5" && body.contains("/problems/busy"), "{body}");
        assert_eq!(answer(&router, get_of("/items/t0ken")).await.0, StatusCode::OK, "requests without a body pass");
        assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::REQUEST_TIMEOUT);
        let (status, _, body) = answer(&router, post(Body::from("0123456789"))).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "0123456789"), "the memory is free again");
    }
}

#[tokio::test]
async fn a_handler_that_takes_too_long_or_panics_is_answered_without_details() {
    for path in ["/never", "/panic"] {
        let (status, headers, body) = answer(&usual(), get_of(path)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(headers[header::RETRY_AFTER], "5");
        assert!(body.contains("/problems/failed") && !body.contains("secret"), "{body}");
    }
}

#[tokio::test]
async fn a_full_gateway_refuses_at_once_and_says_when_to_come_again() {
    let (begun, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits = {
        let (begun, finish) = (begun.clone(), finish.clone());
        async move || {
            begun.notify_one();
            finish.notified().await;
        }
    };
    let concurrency = concurrency(1, 0);
    let router =
        with_shared_layers(with_limits(Router::new().route("/wait", get(waits)), concurrency, Duration::from_mins(1)));
    let first = tokio::spawn(router.clone().oneshot(get_of("/wait")));
    begun.notified().await;
    let (status, headers, body) = answer(&router, get_of("/wait")).await;
    assert_eq!(
        (status, &headers[header::RETRY_AFTER]),
        (StatusCode::SERVICE_UNAVAILABLE, &HeaderValue::from_static("5"))
    );
    assert!(body.contains("/problems/busy"), "{body}");
    finish.notify_one();
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::OK);
    finish.notify_one();
    assert_eq!(answer(&router, get_of("/wait")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn every_answer_has_the_headers_of_a_private_page() {
    for path in ["/items/t0ken", "/nothing", "/panic"] {
        let (_, headers, _) = answer(&usual(), get_of(path)).await;
        for (name, value) in [
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-robots-tag", "noindex"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(headers[name], value, "{path}");
        }
    }
}

#[tokio::test]
async fn metrics_have_the_route_and_never_the_path() {
    answer(&usual(), get_of("/items/t0ken-of-somebody")).await;
    answer(&usual(), get_of("/t0ken-of-somebody")).await;
    let text = metrics::export_text();
    assert!(
        text.contains("tidings_http_requests_total{route=\"/items/{token}\",method=\"GET\",status=\"200\"}"),
        "{text}"
    );
    assert!(text.contains("{route=\"other\",method=\"GET\",status=\"404\"}"), "{text}");
    assert!(text.contains("tidings_http_request_duration_seconds_count{route=\"/items/{token}\"}"), "{text}");
    assert!(!text.contains("t0ken"), "{text}");
}

#[tokio::test]
async fn readiness_names_what_processes_differ_in_and_not_who_does() {
    let folder = tempfile::tempdir().unwrap();
    for (key, named) in [("aa", None), ("bb", Some("[\"link_keys\"]"))] {
        let state = state(folder.path(), true).await;
        let now = state.store.database_clock().await.unwrap();
        for process in [process(1, "aa", now), process(2, key, now)] {
            state.store.put_process(&process).await.unwrap();
        }
        let (.., body) = answer(&public(state), get_of("/readyz")).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body.get("differences").map(ToString::to_string).as_deref(), named);
    }
}

#[tokio::test]
async fn a_process_that_begins_without_its_dependencies_lives_and_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    for (migrated, store) in [(false, "no_answer"), (true, "ok")] {
        let router = public(state(folder.path(), migrated).await);
        assert_eq!(answer(&router, get_of("/livez")).await.0, StatusCode::OK);
        let (status, _, body) = answer(&router, get_of("/readyz")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        let zone_data = tidings_model::zone_data();
        let expected = serde_json::json!({"store": store, "temporal": "no_answer", "zone_data": zone_data});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), expected);
    }
}
