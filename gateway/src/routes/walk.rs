//! Calls every public route with credentials of another tenant, relay, purpose or key. Each should get the
//! same response as garbage and change nothing. A new route fails this test until it has a row here.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, Method},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use tidings_model::{
    AsBeforeLink, ClickLink, Key, OpenLink, PreferencesLink, Provider, UnsubscribeLink, ViewLink,
    link_keys::{LinkKeys, TokenPurpose},
    records::{PageRequest, WebhookLetterFilter},
    settings::Settings,
};
use tidings_store::{SqliteStore, prelude::*};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::{
    tests::{over, settings, sqlite},
    *,
};
use crate::{
    fetch::HttpFetcher,
    webhooks::{
        RelayWebhook,
        samples::{Sample, samples},
        ses::CertificateCache,
        tests::secret,
    },
};

const KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const OTHER_KEYS: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
const MESSAGE: Uuid = Uuid::from_u128(7);
/// Length in bytes of the signature at the end of a token.
const MAC_BYTES: usize = 16;
/// Index of the purpose in a token.
const PURPOSE: usize = 2;
/// Each relay has its own secret, and two have [`Provider::Other`]. We can make no sample without a secret.
fn relays() -> Vec<(&'static str, Provider, Option<String>)> {
    let of_provider = |provider: Provider| (provider.name(), provider, secret(provider, provider.name()));
    let own = ("own", Provider::Other, secret(Provider::Other, "own"));
    Provider::ALL.map(of_provider).into_iter().chain([own]).collect()
}

#[derive(Debug, PartialEq)]
struct WalkResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

struct WalkGateway {
    store: Arc<SqliteStore>,
    router: Router,
    _folder: tempfile::TempDir,
}

impl WalkGateway {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite(folder.path()).await;
        store.migrate().await.unwrap();
        let state = over(store.clone(), Settings { link_keys: Some(KEYS.parse().unwrap()), ..settings() });
        let hook = |(name, provider, secret): (&str, Provider, Option<String>)| {
            let mut hook = RelayWebhook::new(provider);
            if let Some(secret) = secret {
                hook.add_secret(&secret).unwrap();
            }
            (name.to_owned(), hook)
        };
        let certificates = CertificateCache::new(HttpFetcher::new());
        let webhooks =
            WebhookContext { state: state.clone(), hooks: relays().into_iter().map(hook).collect(), certificates };
        Self { store, router: router(state, webhooks, AdmissionLimits::default()), _folder: folder }
    }

    async fn answer(&self, request: Request) -> WalkResponse {
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap().to_vec();
        WalkResponse { status: parts.status, headers: parts.headers, body }
    }

    async fn of_token(&self, route: PublicRoute, method: Method, token: &str) -> WalkResponse {
        let request = Request::builder().method(method).uri(route.path().replace("{token}", token));
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.answer(request.body(Body::from("List-Unsubscribe=One-Click&action=none")).unwrap()).await
    }

    async fn of_sample(&self, relay: &str, sample: &Sample) -> WalkResponse {
        let mut request = Request::post(PublicRoute::Webhook.path().replace("{relay}", relay));
        for (name, value) in &sample.headers {
            request = request.header(*name, value);
        }
        self.answer(request.body(Body::from(sample.body.clone())).unwrap()).await
    }
}

fn keys(text: &str) -> LinkKeys {
    text.parse().unwrap()
}

fn ann(tenant: &str) -> Key {
    Key::new(tenant.into(), "activity".into(), "ann".into()).unwrap()
}

fn tokens(tenant: &str, keys: &LinkKeys) -> [(Option<PublicRoute>, String); 9] {
    let (tenant, key, message) = (tenant.to_owned(), ann(tenant), MESSAGE);
    let target = "https://app.example/".to_owned();
    let suppress = UnsubscribeLink::Suppress { tenant: tenant.clone(), address: "ann@example.net".into(), message };
    [
        (
            Some(PublicRoute::Unsubscribe),
            UnsubscribeLink::Unsubscribe { key: key.clone(), message, generation: 0 }.token(keys).unwrap(),
        ),
        (Some(PublicRoute::Unsubscribe), suppress.token(keys).unwrap()),
        (
            Some(PublicRoute::Preferences),
            PreferencesLink { key: key.clone(), message, generation: 0 }.token(keys).unwrap(),
        ),
        (Some(PublicRoute::AsBefore), AsBeforeLink { key, message, generation: 0 }.token(keys).unwrap()),
        (Some(PublicRoute::View), ViewLink { tenant: tenant.clone(), message }.token(keys).unwrap()),
        (Some(PublicRoute::Open), OpenLink { tenant: tenant.clone(), message }.token(keys).unwrap()),
        (Some(PublicRoute::Click), ClickLink { tenant: tenant.clone(), message, target }.token(keys).unwrap()),
        // Used in email addresses.
        (None, keys.sign(TokenPurpose::Report, &tenant, message)),
        (None, keys.sign(TokenPurpose::Leave, &tenant, message)),
    ]
}

fn bytes(token: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(token).unwrap()
}

/// Tokens others could hold or make, with a description of their flaw.
fn foreign_tokens(route: PublicRoute) -> Vec<(&'static str, String)> {
    let own = tokens("acme", &keys(KEYS));
    let is_right = |(of, _): &&(Option<PublicRoute>, String)| *of == Some(route);
    let (right, others): (Vec<_>, Vec<_>) = own.iter().partition(is_right);
    let mut foreign: Vec<_> = others.iter().map(|(_, token)| ("another purpose", token.clone())).collect();
    let by_others = tokens("acme", &keys(OTHER_KEYS)).into_iter().filter(|token| is_right(&token));
    foreign.extend(by_others.map(|(_, token)| ("another key", token)));
    let of_zeta = tokens("zeta", &keys(KEYS)).into_iter().filter(|token| is_right(&token));
    for ((_, right), (_, zeta)) in right.iter().zip(of_zeta) {
        let (right, zeta) = (bytes(right), bytes(&zeta));
        let said = &zeta[..zeta.len() - MAC_BYTES];
        let spliced = [said, &right[right.len() - MAC_BYTES..]].concat();
        foreign.push(("another tenant", URL_SAFE_NO_PAD.encode(spliced)));
        for (_, other) in others.iter().filter(|(of, _)| of.is_some()) {
            let mut relabelled = bytes(other);
            relabelled[PURPOSE] = right[PURPOSE];
            foreign.push(("a changed purpose", URL_SAFE_NO_PAD.encode(relabelled)));
        }
        for place in 0..right.len() {
            let mut changed = right.clone();
            changed[place] ^= 1;
            foreign.push(("a changed byte", URL_SAFE_NO_PAD.encode(changed)));
        }
        foreign.push(("a cut", URL_SAFE_NO_PAD.encode(&right[..right.len() - 1])));
        foreign.push(("more", URL_SAFE_NO_PAD.encode([&right[..], &[0]].concat())));
    }
    foreign
}

async fn walk_tokens(gateway: &WalkGateway, route: PublicRoute) {
    for method in [Method::GET, Method::HEAD, Method::POST] {
        let nonsense = gateway.of_token(route, method.clone(), "nonsense").await;
        for (wrong, token) in foreign_tokens(route) {
            let answer = gateway.of_token(route, method.clone(), &token).await;
            assert_eq!(answer, nonsense, "{route:?} {method} with {wrong}");
        }
    }
    let nonsense = gateway.of_token(route, Method::GET, "nonsense").await;
    assert_eq!((nonsense.status, nonsense.body.len()), (StatusCode::NOT_FOUND, 0), "{route:?}");
    let right = tokens("acme", &keys(KEYS)).into_iter().filter(|(of, _)| *of == Some(route));
    for (_, token) in right {
        let answer = gateway.of_token(route, Method::GET, &token).await;
        assert_ne!(answer.status, StatusCode::NOT_FOUND, "{route:?} takes its own tokens");
    }
}

/// Tests webhooks: sends each relay's requests to all other relays, and to an unknown one.
async fn walk_webhooks(gateway: &WalkGateway) {
    let unsigned = Sample { headers: Vec::new(), ..make_sample(Provider::Other, None) };
    let nonsense = gateway.of_sample("own", &unsigned).await;
    assert_eq!((nonsense.status, nonsense.body.len()), (StatusCode::UNAUTHORIZED, 0));
    let relays = relays();
    let with_samples = relays.iter().filter(|(.., secret)| secret.is_some());
    for (from, provider, right) in with_samples.clone() {
        let sample = make_sample(*provider, right.as_deref());
        for to in relays.iter().map(|(to, ..)| *to).chain(["nobody"]).filter(|to| to != from) {
            assert_eq!(gateway.of_sample(to, &sample).await, nonsense, "from {from} to {to}");
        }
        let forged = make_sample(*provider, secret(*provider, "nobody").as_deref());
        assert_eq!(gateway.of_sample(from, &forged).await, nonsense, "{from} with another secret");
        assert_eq!(gateway.of_sample(from, &unsigned).await, nonsense, "{from} without a signature");
    }
    let filter = WebhookLetterFilter { since: None, until: None, page: PageRequest { limit: 1, after: None } };
    assert_eq!(gateway.store.webhook_letters(&filter).await.unwrap().rows, []);
    for (relay, provider, secret) in with_samples {
        let sample = make_sample(*provider, secret.as_deref());
        assert_eq!(gateway.of_sample(relay, &sample).await.status, StatusCode::OK, "{relay}");
    }
}

/// A request reporting an open. It is unsigned without a secret.
fn make_sample(provider: Provider, secret: Option<&str>) -> Sample {
    let name = if secret.is_some() { "opened" } else { "unsigned" };
    let samples = samples(provider, secret, MESSAGE, Timestamp::now());
    samples.into_iter().find(|sample| sample.name == name).unwrap()
}

#[tokio::test]
async fn foreign_credentials_get_the_bytes_of_nonsense_on_every_route() {
    let gateway = WalkGateway::start().await;
    for route in PublicRoute::ALL {
        match route {
            PublicRoute::Unsubscribe
            | PublicRoute::Preferences
            | PublicRoute::AsBefore
            | PublicRoute::View
            | PublicRoute::Open
            | PublicRoute::Click => {
                walk_tokens(&gateway, route).await;
            }
            PublicRoute::Webhook => walk_webhooks(&gateway).await,
            // Public: the same response for everyone.
            PublicRoute::Style | PublicRoute::Problem => {}
        }
    }
    for tenant in ["acme", "zeta"] {
        assert!(gateway.store.facts(&ann(tenant)).await.unwrap().consent, "{tenant}");
        assert_eq!(gateway.store.suppression_reasons(tenant, "ann@example.net").await.unwrap(), []);
    }
}
