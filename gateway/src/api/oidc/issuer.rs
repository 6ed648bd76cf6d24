//! The issuer with its keys: read from the issuer, and kept while the issuer is away.

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
    Jwt, Refused, Trust,
    key::{self, Algorithm, Key},
};
use crate::{
    api::caller::Caller,
    fetch::{FetchError, Fetcher},
    problem::Problem,
};

/// The path at which an issuer describes itself, by the standard of discovery of `OpenID` Connect 1.0, section 4.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// Bytes of an answer of the issuer.
const ANSWER_BYTES: usize = 256 * 1024;
/// Characters of a wrong name that the log shows.
const NAME_CHARS: usize = 200;
/// Age at which keys that are in use are read again, in the background: a key that the issuer removed counts no longer.
const STALE: Duration = Duration::from_mins(10);
/// Time between two readings because of an unknown key.
const PAUSE: Duration = Duration::from_mins(1);
/// Time between two readings while there is no key at all.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);

/// An issuer of access tokens.
pub struct Issuer {
    trust: Trust,
    fetcher: Fetcher,
    known: Mutex<Known>,
    reading: sync::Mutex<()>,
}

/// The keys, and when they were last asked for.
#[derive(Default)]
pub(super) struct Known {
    keys: Vec<Arc<Key>>,
    pub asked: Option<Instant>,
    /// When the last question was answered, or given up.
    pub answered: Option<Instant>,
    /// When the question was asked whose answer the keys are.
    read: Option<Instant>,
}

impl Known {
    fn find(&self, kid: &str, algorithm: Algorithm) -> Option<Arc<Key>> {
        self.keys.iter().find(|key| key.kid == kid && key.is_for(algorithm)).cloned()
    }

    /// Decides if the issuer may be asked now.
    fn may_ask(&self, now: Instant) -> bool {
        let pause = if self.keys.is_empty() { PAUSE_WITHOUT_KEYS } else { PAUSE };
        // The question itself may take as long as the pause.
        self.asked.max(self.answered).is_none_or(|last| now.duration_since(last) >= pause)
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.asked.is_none_or(|asked| now.duration_since(asked) >= STALE)
    }
}

/// The reason why the keys cannot be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("{0}: {1}")]
    Fetch(String, FetchError),
    #[error("{0} is not the JSON that it should be")]
    Form(String),
    #[error("the issuer calls itself {0:?}: write exactly that in gateway.oidc.issuer")]
    Name(String),
    #[error("jwks_uri in {0} is not https")]
    Insecure(String),
    #[error("{0} has no key for RS256 or PS256 of at least 2048 bits, ES256, ES384 or EdDSA")]
    NoKey(String),
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Issuer {
    /// The issuer is asked for its keys when the first token comes.
    #[must_use]
    pub fn new(trust: Trust, fetcher: Fetcher) -> Self {
        Self { trust, fetcher, known: Mutex::default(), reading: sync::Mutex::default() }
    }

    /// The caller whom an access token names at `now`.
    pub(crate) async fn admit(self: &Arc<Self>, token: &str, now: Timestamp) -> Result<Caller, Problem> {
        let caller = self.verify(token, now).await;
        caller.map_err(|refused| refused.problem(&self.trust))
    }

    pub(super) async fn verify(self: &Arc<Self>, token: &str, now: Timestamp) -> Result<Caller, Refused> {
        let jwt = Jwt::parse(token, self.trust.token_type)?;
        let key = self.key(&jwt.kid, jwt.algorithm).await?;
        super::decide(&jwt.claims(&key)?, &self.trust, now)
    }

    async fn key(self: &Arc<Self>, kid: &str, algorithm: Algorithm) -> Result<Arc<Key>, Refused> {
        let now = Instant::now();
        let (found, stale) = {
            let known = self.known();
            (known.find(kid, algorithm), known.is_stale(now))
        };
        // A client that goes away does not end the reading.
        let reading = (found.is_none() || stale).then(|| tokio::spawn(self.clone().read()));
        if let Some(key) = found {
            return Ok(key);
        }
        if let Some(reading) = reading {
            let _ = reading.await;
        }
        let known = self.known();
        let unknown = match known.read {
            None => Refused::Away,
            Some(read) if read < now => Refused::Unread,
            Some(_) => Refused::Key,
        };
        known.find(kid, algorithm).ok_or(unknown)
    }

    /// Reads the keys, unless they were asked for just now. Those who came while another reading was under way share its answer.
    async fn read(self: Arc<Self>) {
        let came = Instant::now();
        let _reading = self.reading.lock().await;
        let now = Instant::now();
        {
            let mut known = self.known();
            if known.answered.is_some_and(|answered| answered >= came) || !known.may_ask(now) {
                return;
            }
            known.asked = Some(now);
        }
        match self.fetch().await {
            Ok(keys) => {
                let mut known = self.known();
                known.keys = keys.into_iter().map(Arc::new).collect();
                known.read = Some(now);
            }
            Err(error) => {
                tracing::warn!(%error, issuer = self.trust.issuer, "the keys of the issuer cannot be read");
            }
        }
        self.known().answered = Some(Instant::now());
    }

    async fn fetch(&self) -> Result<Vec<Key>, Unreadable> {
        let described = format!("{}{DISCOVERY}", self.trust.issuer.trim_end_matches('/'));
        let Discovery { issuer, jwks_uri } = self.get(&described).await?;
        if issuer != self.trust.issuer {
            return Err(Unreadable::Name(cut_text(&issuer, NAME_CHARS).to_owned()));
        }
        if !self.may_have_keys_at(&jwks_uri) {
            return Err(Unreadable::Insecure(described));
        }
        let set = self.fetched(&jwks_uri).await?;
        let keys = key::read(&set).ok_or_else(|| Unreadable::Form(jwks_uri.clone()))?;
        if keys.is_empty() { Err(Unreadable::NoKey(jwks_uri)) } else { Ok(keys) }
    }

    /// Accepts https. An issuer over http, which the configuration allows on this machine only, has its keys on the same server.
    fn may_have_keys_at(&self, jwks_uri: &str) -> bool {
        let (Ok(keys), Ok(issuer)) = (Url::parse(jwks_uri), Url::parse(&self.trust.issuer)) else { return false };
        keys.scheme() == "https" || keys.origin() == issuer.origin()
    }

    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, Unreadable> {
        serde_json::from_slice(skip_bom(&self.fetched(url).await?)).map_err(|_| Unreadable::Form(url.to_owned()))
    }

    async fn fetched(&self, url: &str) -> Result<hyper::body::Bytes, Unreadable> {
        let fetched = self.fetcher.get(url, ANSWER_BYTES).await;
        fetched.map_err(|error| Unreadable::Fetch(url.to_owned(), error))
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
