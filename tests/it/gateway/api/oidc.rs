//! Operators who come with access tokens of an issuer have their own names in the audit trail.

use std::{collections::BTreeSet, future::ready};

use anyhow::{Result, anyhow};
use axum::{Json, Router, routing::get};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tidings_harness::{env::key, wait::eventually};
use tidings_needs::needs;
use tokio::{net::TcpListener, task::JoinHandle};

use super::{Api, MINUTE};

/// An issuer on a socket, with one key. It ends when it is dropped.
struct Issuer {
    url: String,
    key: Ed25519KeyPair,
    serving: JoinHandle<()>,
}

impl Issuer {
    async fn start() -> Result<Self> {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|error| anyhow!("{error}"))?;
        let key = Ed25519KeyPair::from_pkcs8(pair.as_ref()).map_err(|error| anyhow!("{error}"))?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let about = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": encoded(key.public_key().as_ref())});
        let keys = json!({"keys": [jwk]});
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(move || ready(Json(about))))
            .route("/keys", get(move || ready(Json(keys))));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Ok(Self { url, key, serving })
    }

    /// The tables of `tidings.toml` that trust the issuer.
    fn trust(&self) -> String {
        format!("[gateway.oidc]\nissuer = \"{}\"\naudience = \"tidings\"\n", self.url)
    }

    /// An access token of `acme` for a person (RFC 9068).
    fn token(&self, person: &str, scopes: &str) -> String {
        let now = Timestamp::now().as_second();
        let header = json!({"typ": "at+jwt", "alg": "EdDSA", "kid": "k1"});
        let claims = json!({
            "iss": self.url, "aud": "tidings", "sub": person, "client_id": "desk", "jti": person, "iat": now,
            "exp": now + 600, "tenant": "acme", "scope": scopes,
        });
        let [header, claims] = [header, claims].map(|part| encoded(part.to_string().as_bytes()));
        let signed = format!("{header}.{claims}");
        let signature = encoded(self.key.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Waits until `tidings audit` has these actions of an actor, and no others.
async fn acted(api: &Api, actor: &str, actions: &[&str]) -> Result<()> {
    let acted = async || {
        let audit = api.cli.run(&["audit", "--tenant", "acme", "--actor", actor, "--json"]).await?;
        let entries = audit.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let found: BTreeSet<_> = entries.iter().filter_map(|entry| entry["action"].as_str()).collect();
        Ok((found == actions.iter().copied().collect()).then_some(()))
    };
    eventually(&format!("{actor} has done {actions:?}"), MINUTE, acted).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_the_issuer_has_an_own_name_in_the_audit() -> Result<()> {
    let issuer = Issuer::start().await?;
    let api = Api::start_with("after 1d", &issuer.trust()).await?;
    api.cli.import(&[key("activity", "bo")].into()).await?;
    let service = api.token("acme", &["events:write", "audit:read"]).await?;
    let ann = issuer.token("ann", "openid digests:operate digests:read preferences:write");
    let eve = issuer.token("eve@acme.example", "digests:operate");
    api.emit(&service, "bo", "e1").await?;
    let collecting = async || {
        let (_, answer) = api.ask(&ann, "GET", "/v1/digests/activity/bo", &Value::Null).await?;
        Ok((answer["state"] == "collecting").then_some(()))
    };
    eventually("the window is open", MINUTE, collecting).await?;

    let hold = json!({"why": "wrong prices", "until": "2h"});
    let (status, answer) = api.ask(&ann, "POST", "/v1/digests/activity/bo/hold", &hold).await?;
    assert_eq!((status, &answer["events"]), (200, &json!(1)), "{answer}");
    let release = json!({"why": "prices fixed"});
    let (status, answer) = api.ask(&eve, "POST", "/v1/digests/activity/bo/release", &release).await?;
    assert_eq!((status, &answer["held"]), (200, &json!(true)), "{answer}");
    let pause = json!({"filter": "digest_type=activity", "why": "wrong prices", "until": "2h"});
    let (status, answer) = api.ask(&ann, "POST", "/v1/pauses", &pause).await?;
    assert_eq!((status, &answer["pause"]["by"]), (201, &json!("oidc:ann")), "{answer}");
    let path = "/v1/recipients/bo/consent/activity";
    let (status, answer) = api.ask(&ann, "PUT", path, &json!({"consent": false})).await?;
    assert_eq!(status, 200, "{answer}");

    // The workflow records what it was ordered a moment after its answer.
    acted(&api, "oidc:ann", &["hold", "pause", "withdraw consent"]).await?;
    // A subject that may be an address is named by its hash: printf %s eve@acme.example | sha256sum
    let hash = "oidc:sha256:7d647c25cea710b6126ef791127d5a79";
    acted(&api, hash, &["release"]).await?;
    let (status, trail) = api.ask(&service, "GET", "/v1/audit?user=bo", &Value::Null).await?;
    assert_eq!(status, 200, "{trail}");
    let trail = trail.to_string();
    assert!(trail.contains("oidc:ann") && trail.contains(hash) && !trail.contains('@'), "{trail}");
    Ok(())
}
