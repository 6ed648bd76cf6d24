//! An issuer on a socket, and its signing keys.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
        RsaPublicKeyComponents,
    },
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// Made for these tests.
const RSA: &[u8] = include_bytes!("../../../../tests/data/oidc_rsa.pem");

pub(super) enum Pair {
    Rsa(RsaKeyPair),
    /// The same key, with the other padding.
    Pss(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Pair {
    pub fn rsa() -> Self {
        Self::Rsa(rsa())
    }

    pub fn pss() -> Self {
        Self::Pss(rsa())
    }

    pub fn p256() -> Self {
        Self::P256(ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING))
    }

    pub fn p384() -> Self {
        Self::P384(ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING))
    }

    pub fn ed25519() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    pub const fn alg(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::Pss(_) => "PS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    pub fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(key) | Self::Pss(key) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": kid, "use": "sig", "alg": self.alg(), "n": text(&n), "e": text(&e)})
            }
            Self::P256(key) | Self::P384(key) => {
                let point = &key.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let crv = if matches!(self, Self::P256(_)) { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": crv, "kid": kid, "x": text(x), "y": text(y)})
            }
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": text(key.public_key().as_ref())})
            }
        }
    }

    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let message = signed.as_bytes();
        let signature = match self {
            Self::Rsa(key) | Self::Pss(key) => {
                let padding: &dyn RsaEncoding =
                    if matches!(self, Self::Rsa(_)) { &RSA_PKCS1_SHA256 } else { &RSA_PSS_SHA256 };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Self::P256(key) | Self::P384(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        };
        format!("{signed}.{}", text(&signature))
    }
}

fn rsa() -> RsaKeyPair {
    let key = PrivatePkcs8KeyDer::from_pem_slice(RSA).unwrap();
    RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap()
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap()
}

pub(super) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", text(header.to_string().as_bytes()), text(claims.to_string().as_bytes()))
}

pub(super) fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// `None` for the normal response.
#[derive(Default)]
struct Answers {
    discovery: Option<Response>,
    keys: Value,
}

pub(super) struct Desk {
    pub url: String,
    asked: Arc<AtomicUsize>,
    answers: Arc<Mutex<Answers>>,
    serving: JoinHandle<()>,
}

type Shared = (String, Arc<AtomicUsize>, Arc<Mutex<Answers>>);

impl Desk {
    pub async fn open(keys: &[Value]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, answers) = (Arc::default(), Arc::default());
        let shared: Shared = (url.clone(), Arc::clone(&asked), Arc::clone(&answers));
        let router = Router::new().fallback(answer).with_state(shared);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let desk = Self { url, asked, answers, serving };
        desk.rotate(keys);
        desk
    }

    /// Publishes only these keys.
    pub fn rotate(&self, keys: &[Value]) {
        self.answers.lock().unwrap().keys = json!({"keys": keys});
    }

    /// Replaces the discovery response.
    pub fn describe(&self, answer: Response) {
        self.answers.lock().unwrap().discovery = Some(answer);
    }

    /// Number of fetches.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// From now on connections are refused.
    pub async fn close(&mut self) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
    }
}

async fn answer(State((url, asked, answers)): State<Shared>, request: Request) -> Response {
    let mut answers = answers.lock().unwrap();
    match request.uri().path() {
        "/.well-known/openid-configuration" => answers
            .discovery
            .take()
            .unwrap_or_else(|| described(&json!({"issuer": url, "jwks_uri": format!("{url}/keys")}))),
        "/keys" => {
            asked.fetch_add(1, Ordering::SeqCst);
            described(&answers.keys)
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(super) fn described(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

pub(super) fn bytes(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}
