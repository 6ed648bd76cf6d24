//! Access tokens of an issuer on a real socket: which are accepted, and when its keys are fetched.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{StatusCode, header},
    response::IntoResponse as _,
};
use jiff::Timestamp;
use ring::hmac;
use serde_json::{Value, json};
use tidings_model::{api_token::TokenScope, inbox::InboxLimits};
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::{TokenError, UnverifiedJwt, decide_caller, *};
use crate::{
    AdmissionLimits,
    api::{ApiState, caller::ApiCaller, router},
    fetch::HttpFetcher,
    inbox::EventInbox,
    routes::tests::{over, settings, sqlite},
};

mod desk;
mod keys;
mod reading;

use desk::{Desk, Pair, described, text, unsigned};

/// An issuer with one key, and an API that trusts it.
struct Env {
    desk: Desk,
    pair: Pair,
    issuer: Arc<OidcIssuer>,
    router: Router,
    _folder: tempfile::TempDir,
}

impl Env {
    async fn start(pair: Pair) -> Self {
        let desk = Desk::open(&[pair.jwk("k1")]).await;
        let trust = trust(&desk.url);
        Self::over(desk, pair, trust).await
    }

    async fn over(desk: Desk, pair: Pair, trust: IssuerTrust) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite(folder.path()).await;
        store.migrate().await.unwrap();
        let inbox = EventInbox::new(store.clone(), InboxLimits::default());
        let api = ApiState {
            state: over(store, settings()),
            task_queue: "tidings".into(),
            inbox,
            archive: None,
            making: None,
        };
        let issuer = Arc::new(OidcIssuer::new(trust, HttpFetcher::new()));
        let router = router(api, Some(issuer.clone()), AdmissionLimits::default());
        Self { desk, pair, issuer, router, _folder: folder }
    }

    fn header(&self) -> Value {
        json!({"typ": "at+jwt", "alg": self.pair.alg(), "kid": "k1"})
    }

    fn claims(&self) -> Value {
        claims(&self.desk.url)
    }

    /// A valid token with these fields of header and claims merged in; null removes a field.
    fn token(&self, header: &Value, claims: &Value) -> String {
        self.pair.sign(&edited(self.header(), header), &edited(self.claims(), claims))
    }

    fn right(&self) -> String {
        self.token(&json!({}), &json!({}))
    }

    async fn verify(&self, token: &str) -> Result<ApiCaller, TokenError> {
        self.issuer.verify_token(token, Timestamp::now()).await
    }

    async fn post(&self, token: &str, tenant: &str) -> (StatusCode, String) {
        let event = json!({"event_id": "e1", "tenant": tenant, "digest": "activity", "user": "ann",
                           "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"});
        answer(&self.router, Request::post("/v1/events"), token, event.to_string()).await
    }

    async fn get(&self, token: &str, path: &str) -> (StatusCode, String) {
        answer(&self.router, Request::get(path), token, String::new()).await
    }

    /// Ages the last fetch of the keys.
    fn pass(&self, time: Duration) {
        let mut known = self.issuer.lock_keys();
        known.asked = known.asked.map(|asked| asked.checked_sub(time).unwrap());
        known.answered = known.answered.map(|answered| answered.checked_sub(time).unwrap());
    }
}

fn trust(issuer: &str) -> IssuerTrust {
    let token_type = TokenType::AccessToken;
    IssuerTrust {
        issuer: issuer.into(),
        audience: "tidings".into(),
        tenant_claim: "tenant".into(),
        all_tenants: false,
        token_type,
    }
}

fn claims(issuer: &str) -> Value {
    let now = Timestamp::now().as_second();
    json!({"iss": issuer, "aud": "tidings", "sub": "ann", "client_id": "desk", "jti": "1", "iat": now, "exp": now + 60,
           "tenant": "acme", "scope": "openid events:write digests:read"})
}

fn edited(mut whole: Value, edit: &Value) -> Value {
    let fields = whole.as_object_mut().unwrap();
    fields.extend(edit.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    whole
}

async fn answer(
    router: &Router,
    request: axum::http::request::Builder,
    token: &str,
    body: String,
) -> (StatusCode, String) {
    let request = request.header("x-request-id", "1").header(header::AUTHORIZATION, format!("Bearer {token}"));
    let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    (parts.status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_token_of_each_algorithm_lets_its_subject_in() {
    for pair in [Pair::rsa(), Pair::pss(), Pair::p256(), Pair::p384(), Pair::ed25519()] {
        let env = Env::start(pair).await;
        let scopes = vec![TokenScope::EventsWrite, TokenScope::DigestsRead];
        let issuer = Some(env.desk.url.clone());
        let ann = ApiCaller {
            by: "oidc:ann".into(),
            issuer,
            own_tenant: Some("acme".into()),
            former_tenants: vec![],
            scopes,
        };
        assert_eq!(env.verify(&env.right()).await, Ok(ann), "{}", env.pair.alg());
        assert_eq!(env.post(&env.right(), "acme").await.0, StatusCode::ACCEPTED, "{}", env.pair.alg());
        assert_eq!(env.desk.asked(), 1);
    }
}

#[tokio::test]
async fn a_token_within_the_rules_of_rfc_9068_is_let_in() {
    let env = Env::start(Pair::ed25519()).await;
    let now = Timestamp::now().as_second();
    for (header, claims) in [
        (json!({"typ": "application/AT+JWT"}), json!({})),
        (json!({"alg": "Ed25519"}), json!({})),
        (json!({}), json!({"aud": ["others", "tidings"]})),
        (json!({}), json!({"exp": now - 20})),
        (json!({}), json!({"exp": 0.5 + 60.0 + f64::from(i32::try_from(now).unwrap())})),
        (json!({}), json!({"nbf": now + 20})),
        (json!({}), json!({"client_id": null, "jti": null, "iat": null})),
    ] {
        assert!(env.verify(&env.token(&header, &claims)).await.is_ok(), "{header} {claims}");
    }
}

fn wrong_tokens(env: &Env) -> Vec<(TokenError, String)> {
    let now = Timestamp::now().as_second();
    let header = |refused, header: Value| (refused, env.token(&header, &json!({})));
    let claims = |refused, claims: Value| (refused, env.token(&json!({}), &claims));
    let right = env.right();
    let (signed, signature) = right.rsplit_once('.').unwrap();
    let (head, _) = signed.split_once('.').unwrap();
    let other = unsigned(&env.header(), &edited(env.claims(), &json!({"tenant": "zeta"})));
    let key = env.pair.jwk("k1")["x"].as_str().unwrap().to_owned();
    let shared = unsigned(&edited(env.header(), &json!({"alg": "HS256"})), &env.claims());
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), shared.as_bytes());
    let none = unsigned(&edited(env.header(), &json!({"alg": "none"})), &env.claims());
    let forged = Pair::ed25519().sign(&env.header(), &env.claims());
    vec![
        (TokenError::TooLong(8192), format!("{right}{}", "A".repeat(8192))),
        (TokenError::Form, ".".to_owned()),
        (TokenError::Form, signed.to_owned()),
        (TokenError::Opaque, "hunter2".to_owned()),
        (TokenError::Encrypted, "a.b.c.d.e".to_owned()),
        (TokenError::Form, format!("{right}.")),
        (TokenError::Form, format!("{right}=")),
        (TokenError::Header, format!("{}.{}.", text(b"[]"), text(b"{}"))),
        header(TokenError::Header, json!({"kid": null})),
        header(TokenError::Header, json!({"kid": 7})),
        header(TokenError::Critical, json!({"crit": ["exp"]})),
        header(TokenError::Type, json!({"typ": null})),
        header(TokenError::Type, json!({"typ": "JWT"})),
        header(TokenError::Type, json!({"typ": "id+jwt"})),
        header(TokenError::Algorithm, json!({"alg": "ES512"})),
        (TokenError::Algorithm, format!("{none}.")),
        (TokenError::Algorithm, format!("{shared}.{}", text(mac.as_ref()))),
        (TokenError::Signature, format!("{other}.{signature}")),
        (TokenError::Signature, format!("{signed}.")),
        (TokenError::Signature, format!("{signed}.{}", text(&[0; 64]))),
        (TokenError::Signature, forged),
        (TokenError::Signature, format!("{head}.{}.{signature}", text(b"{}"))),
        claims(TokenError::Issuer, json!({"iss": null})),
        claims(TokenError::Issuer, json!({"iss": "https://other.example"})),
        claims(TokenError::Issuer, json!({"iss": format!("{}/", env.desk.url)})),
        claims(TokenError::Audience, json!({"aud": null})),
        claims(TokenError::Audience, json!({"aud": "others"})),
        claims(TokenError::Audience, json!({"aud": ["others", 7]})),
        claims(TokenError::Audience, json!({"aud": {"tidings": "tidings"}})),
        claims(TokenError::Expired, json!({"exp": null})),
        claims(TokenError::Expired, json!({"exp": now - 31})),
        claims(TokenError::Expired, json!({"exp": "tomorrow"})),
        claims(TokenError::Expired, json!({"exp": 1e300})),
        claims(TokenError::NotYet, json!({"nbf": now + 60})),
        claims(TokenError::NotYet, json!({"nbf": "now"})),
        claims(TokenError::NotYet, json!({"nbf": -1e300})),
        claims(TokenError::Subject, json!({"sub": null})),
        claims(TokenError::Subject, json!({"sub": ""})),
        claims(TokenError::Subject, json!({"sub": "ann\n"})),
        claims(TokenError::Subject, json!({"sub": "a".repeat(256)})),
        claims(TokenError::Tenant, json!({"tenant": null})),
        claims(TokenError::Tenant, json!({"tenant": ""})),
        claims(TokenError::Tenant, json!({"tenant": ["acme"]})),
        claims(TokenError::EveryTenant, json!({"tenant": "*"})),
    ]
}

#[tokio::test]
async fn each_wrong_token_is_refused_and_the_answer_does_not_tell_why() {
    let env = Env::start(Pair::ed25519()).await;
    assert_eq!(env.post(&env.right(), "acme").await.0, StatusCode::ACCEPTED);
    let own = env.post("tdg_hunter2", "acme").await;
    assert_eq!(own.0, StatusCode::UNAUTHORIZED);
    for (refused, token) in wrong_tokens(&env) {
        assert_eq!(env.verify(&token).await, Err(refused), "{token}");
        assert_eq!(env.post(&token, "acme").await, own, "{refused}");
    }
}

/// Keycloak 26, Hydra and Zitadel do this by default.
#[tokio::test]
async fn a_jwt_of_any_type_counts_where_it_is_configured_and_no_id_token() {
    let pair = Pair::rsa();
    let desk = Desk::open(&[pair.jwk("k1")]).await;
    let trust = IssuerTrust { token_type: TokenType::Jwt, ..trust(&desk.url) };
    let env = Env::over(desk, pair, trust).await;
    for header in [json!({"typ": "JWT"}), json!({"typ": null}), json!({"typ": "at+jwt"})] {
        assert!(env.verify(&env.token(&header, &json!({"azp": "desk", "typ": "Bearer"}))).await.is_ok(), "{header}");
    }
    assert_eq!(env.verify(&env.token(&json!({"typ": "logout+jwt"}), &json!({}))).await, Err(TokenError::Type));
    for claims in [
        json!({"nonce": "n"}),
        json!({"at_hash": "h"}),
        json!({"c_hash": "h"}),
        json!({"azp": "tidings"}),
        json!({"client_id": "tidings"}),
        json!({"typ": "ID"}),
    ] {
        let token = env.token(&json!({"typ": "JWT"}), &claims);
        assert_eq!(env.verify(&token).await, Err(TokenError::IdToken), "{claims}");
    }
}

#[tokio::test]
async fn a_token_counts_for_its_tenant_and_its_scopes_only() {
    let env = Env::start(Pair::ed25519()).await;
    let (status, said) = env.post(&env.right(), "zeta").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(said.contains("/problems/nothing-accepted") && said.contains("is not the token's tenant"), "{said}");
    let foreign = env.get(&env.right(), "/v1/digests/activity/ann?tenant=zeta").await;
    let nothing = env.get(&env.right(), "/v1/ledger/digests/00000000-0000-0000-0000-000000000000").await;
    assert_eq!((foreign.0, &foreign), (StatusCode::NOT_FOUND, &nothing));
    for scope in [json!(null), json!("digests:read openid"), json!(["events:write"]), json!("events:write,x")] {
        let (status, said) = env.post(&env.token(&json!({}), &json!({"scope": scope})), "acme").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{scope}");
        assert!(said.contains("/problems/missing-scope"), "{said}");
    }
}

#[tokio::test]
async fn every_tenant_and_another_claim_count_where_they_are_configured() {
    let pair = Pair::ed25519();
    let desk = Desk::open(&[pair.jwk("k1")]).await;
    let trust = IssuerTrust { tenant_claim: "https://acme.example/team".into(), all_tenants: true, ..trust(&desk.url) };
    let env = Env::over(desk, pair, trust).await;
    let every = env.token(&json!({}), &json!({"https://acme.example/team": "*"}));
    assert_eq!(env.post(&every, "zeta").await.0, StatusCode::ACCEPTED);
    let one = env.token(&json!({}), &json!({"https://acme.example/team": "zeta", "tenant": "*"}));
    assert_eq!(env.post(&one, "zeta").await.0, StatusCode::ACCEPTED);
    assert_eq!(env.post(&one, "acme").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(env.verify(&env.right()).await, Err(TokenError::Tenant));
}

#[tokio::test]
async fn the_tokens_of_a_subject_share_a_rate() {
    let env = Env::start(Pair::ed25519()).await;
    let tokens = ["1", "2"].map(|jti| env.token(&json!({}), &json!({"jti": jti})));
    let bob = env.token(&json!({}), &json!({"sub": "bob"}));
    let path = "/v1/digests/activity/ann";
    let mut tries = 0;
    // A burst of 200, and some more while the loop runs.
    while env.get(&tokens[tries % 2], path).await.0 != StatusCode::TOO_MANY_REQUESTS {
        tries += 1;
    }
    assert!(tries >= 200, "{tries}");
    // No Temporal answers.
    assert_eq!(env.get(&bob, path).await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn a_subject_that_may_be_an_address_is_named_by_its_hash() {
    let by = |sub: &str| {
        let claims = edited(claims("https://login.example"), &json!({"sub": sub}));
        decide_caller(claims.as_object().unwrap(), &trust("https://login.example"), Timestamp::now()).unwrap().by
    };
    assert_eq!(by("auth0|507f1f77bcf86cd799439020"), "oidc:auth0|507f1f77bcf86cd799439020");
    // printf %s ann@acme.example | sha256sum
    assert_eq!(by("ann@acme.example"), "oidc:sha256:b759382850d65342f8994576b7d68f61");
    assert_eq!(by(&"a".repeat(59)).len(), 64);
    assert!(by(&"a".repeat(60)).starts_with("oidc:sha256:"));
}
