//! Fetches and caches the issuer's keys, so we can still verify tokens while it is down.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use tidings_model::foreign_text::{cut_text, skip_bom};
use tokio::{sync, time::Instant};
use url::Url;

use super::{
    IssuerTrust, TokenError, UnverifiedJwt,
    key::{self, SignatureAlgorithm, VerifyingKey},
};
use crate::{
    api::caller::ApiCaller,
    fetch::{FetchError, HttpFetcher},
    problem::Problem,
};

/// Discovery path (`OpenID` Connect Discovery 1.0, section 4).
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// Longest response in bytes.
const ANSWER_BYTES: usize = 256 * 1024;
/// Characters of a wrong issuer name in the log.
const NAME_CHARS: usize = 200;
/// Age at which we refresh keys in the background. A key the issuer removed will then stop working.
const STALE: Duration = Duration::from_mins(10);
/// Minimum time between two fetches caused by an unknown key.
const PAUSE: Duration = Duration::from_mins(1);
/// Minimum time between two fetches while we have no key at all.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);

pub struct OidcIssuer {
    trust: IssuerTrust,
    fetcher: HttpFetcher,
    known: Mutex<KeyCache>,
    reading: sync::Mutex<()>,
}

#[derive(Default)]
pub(super) struct KeyCache {
    keys: Vec<Arc<VerifyingKey>>,
    pub asked: Option<Instant>,
    /// End of the last fetch, successful or not.
    pub answered: Option<Instant>,
    /// Start of the last successful fetch.
    read: Option<Instant>,
}

impl KeyCache {
    fn find(&self, kid: &str, algorithm: SignatureAlgorithm) -> Option<Arc<VerifyingKey>> {
        self.keys.iter().find(|key| key.kid == kid && key.is_for(algorithm)).cloned()
    }

    /// Returns `true` if the pause since the last fetch is over.
    fn may_ask(&self, now: Instant) -> bool {
        let pause = if self.keys.is_empty() { PAUSE_WITHOUT_KEYS } else { PAUSE };
        // Counts from the end, because this fetch can take as long as the pause.
        self.asked.max(self.answered).is_none_or(|last| now.duration_since(last) >= pause)
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.asked.is_none_or(|asked| now.duration_since(asked) >= STALE)
    }
}

#[derive(Debug, thiserror::Error)]
enum KeyFetchError {
    #[error("{0}: {1}")]
    Fetch(String, FetchError),
    #[error("unexpected JSON in {0}")]
    Form(String),
    #[error("issuer identifies itself as {0:?}: set gateway.oidc.issuer to exactly this")]
    Name(String),
    #[error("jwks_uri in {0} is not https")]
    Insecure(String),
    #[error("no usable key in {0}: expected RS256 or PS256 with at least 2048 bits, ES256, ES384 or EdDSA")]
    NoKey(String),
}

#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: String,
}

impl OidcIssuer {
    /// Fetches nothing yet: the keys are loaded when the first token arrives.
    #[must_use]
    pub fn new(trust: IssuerTrust, fetcher: HttpFetcher) -> Self {
        Self { trust, fetcher, known: Mutex::default(), reading: sync::Mutex::default() }
    }

    pub(crate) async fn admit_token(self: &Arc<Self>, token: &str, now: Timestamp) -> Result<ApiCaller, Problem> {
        let caller = self.verify_token(token, now).await;
        caller.map_err(|refused| refused.into_problem(&self.trust))
    }

    pub(super) async fn verify_token(self: &Arc<Self>, token: &str, now: Timestamp) -> Result<ApiCaller, TokenError> {
        let jwt = UnverifiedJwt::parse(token, self.trust.token_type)?;
        let key = self.verifying_key(&jwt.kid, jwt.algorithm).await?;
        super::decide_caller(&jwt.verify_claims(&key)?, &self.trust, now)
    }

    async fn verifying_key(
        self: &Arc<Self>,
        kid: &str,
        algorithm: SignatureAlgorithm,
    ) -> Result<Arc<VerifyingKey>, TokenError> {
        let now = Instant::now();
        let (found, stale) = {
            let known = self.lock_keys();
            (known.find(kid, algorithm), known.is_stale(now))
        };
        // Spawned, so the fetch continues even if this client disconnects.
        let reading = (found.is_none() || stale).then(|| tokio::spawn(self.clone().refresh_keys()));
        if let Some(key) = found {
            return Ok(key);
        }
        if let Some(reading) = reading {
            let _ = reading.await;
        }
        let known = self.lock_keys();
        let unknown = match known.read {
            None => TokenError::Away,
            Some(read) if read < now => TokenError::Unread,
            Some(_) => TokenError::Key,
        };
        known.find(kid, algorithm).ok_or(unknown)
    }

    /// Fetches the keys unless we did so very recently. Callers waiting for this fetch share its result.
    async fn refresh_keys(self: Arc<Self>) {
        let came = Instant::now();
        let _reading = self.reading.lock().await;
        let now = Instant::now();
        {
            let mut known = self.lock_keys();
            if known.answered.is_some_and(|answered| answered >= came) || !known.may_ask(now) {
                return;
            }
            known.asked = Some(now);
        }
        match self.fetch().await {
            Ok(keys) => {
                let mut known = self.lock_keys();
                known.keys = keys.into_iter().map(Arc::new).collect();
                known.read = Some(now);
            }
            Err(error) => {
                tracing::warn!(%error, issuer = self.trust.issuer, "cannot fetch the issuer's keys");
            }
        }
        self.lock_keys().answered = Some(Instant::now());
    }

    async fn fetch(&self) -> Result<Vec<VerifyingKey>, KeyFetchError> {
        let described = format!("{}{DISCOVERY}", self.trust.issuer.trim_end_matches('/'));
        let DiscoveryDocument { issuer, jwks_uri } = self.fetch_json(&described).await?;
        if issuer != self.trust.issuer {
            return Err(KeyFetchError::Name(cut_text(&issuer, NAME_CHARS).to_owned()));
        }
        if !self.may_have_keys_at(&jwks_uri) {
            return Err(KeyFetchError::Insecure(described));
        }
        let set = self.fetch_bytes(&jwks_uri).await?;
        let keys = key::parse_set(&set).ok_or_else(|| KeyFetchError::Form(jwks_uri.clone()))?;
        if keys.is_empty() { Err(KeyFetchError::NoKey(jwks_uri)) } else { Ok(keys) }
    }

    /// Returns `true` for https. An issuer over http, which is allowed on the same machine only, must serve
    /// its keys from the same origin.
    fn may_have_keys_at(&self, jwks_uri: &str) -> bool {
        let (Ok(keys), Ok(issuer)) = (Url::parse(jwks_uri), Url::parse(&self.trust.issuer)) else { return false };
        keys.scheme() == "https" || keys.origin() == issuer.origin()
    }

    async fn fetch_json<T: DeserializeOwned>(&self, url: &str) -> Result<T, KeyFetchError> {
        serde_json::from_slice(skip_bom(&self.fetch_bytes(url).await?)).map_err(|_| KeyFetchError::Form(url.to_owned()))
    }

    async fn fetch_bytes(&self, url: &str) -> Result<hyper::body::Bytes, KeyFetchError> {
        let fetched = self.fetcher.get(url, ANSWER_BYTES).await;
        fetched.map_err(|error| KeyFetchError::Fetch(url.to_owned(), error))
    }

    pub(super) fn lock_keys(&self) -> MutexGuard<'_, KeyCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
