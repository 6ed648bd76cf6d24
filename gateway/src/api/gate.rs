//! Authenticates API requests and applies scopes and rate limits.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header::AUTHORIZATION},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use jiff::{Timestamp, tz::TimeZone};
use subtle::ConstantTimeEq as _;
use tidings_model::{
    api_token::{ApiToken, PREFIX, TokenState},
    settings::Settings,
};
use tidings_store::{Store, StoredToken};
use tokio::time::Instant;

use super::{Endpoint, RateClass, caller::ApiCaller, oidc::OidcIssuer, rate_limit::RequestRate};
use crate::{TrustedProxies, client_quota::client_network, problem::Problem};

/// How long we cache a token. A revoked one is rejected within this time.
const MEMORY: Duration = Duration::from_secs(10);
/// Cache size at which expired entries are purged.
const ENTRIES: usize = 10_000;

/// Clones share one cache.
#[derive(Clone)]
pub(super) struct TokenGate {
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    issuer: Option<Arc<OidcIssuer>>,
    trusted: TrustedProxies,
    memory: Arc<Mutex<GateCache>>,
}

#[derive(Default)]
struct GateCache {
    tokens: HashMap<String, (Instant, Arc<StoredToken>)>,
    rates: HashMap<(String, RateClass), Instant>,
    /// [`RequestRate::UNKNOWN_TOKENS`] states by client, or `None` if the client address is unknown.
    unknown: HashMap<Option<IpAddr>, Instant>,
}

/// Middleware: adds the [`ApiCaller`] to the request, or rejects it.
pub(super) async fn check_token(
    State((gate, endpoint)): State<(TokenGate, Endpoint)>,
    mut request: Request,
    next: Next,
) -> Response {
    let client = gate.trusted.client_of(&request).map(client_network);
    match gate.admit(request.headers(), client, endpoint).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

impl TokenGate {
    pub fn new(state: &crate::GatewayState, issuer: Option<Arc<OidcIssuer>>, trusted: TrustedProxies) -> Self {
        let (store, settings) = (state.store.clone(), state.settings.clone());
        Self { store, settings, issuer, trusted, memory: Arc::default() }
    }

    async fn admit(
        &self,
        headers: &HeaderMap,
        client: Option<IpAddr>,
        endpoint: Endpoint,
    ) -> Result<ApiCaller, Problem> {
        let token = bearer(headers).ok_or(Problem::NoToken)?;
        let caller = match &self.issuer {
            Some(issuer) if !token.starts_with(PREFIX) => issuer.admit_token(token, Timestamp::now()).await?,
            _ => self.verify_own_token(token, client).await?,
        };
        if !caller.scopes.contains(&endpoint.scope()) {
            return Err(Problem::MissingScope(endpoint.scope()));
        }
        self.rate_limit(&caller.by, endpoint.class())?;
        Ok(caller.with_current_names(&self.settings.names))
    }

    async fn verify_own_token(&self, token: &str, client: Option<IpAddr>) -> Result<ApiCaller, Problem> {
        let token: ApiToken = token.parse().map_err(|_| Problem::WrongToken)?;
        let stored = self.load_token(&token, client).await?.ok_or(Problem::WrongToken)?;
        let is_right = bool::from(stored.hash.as_bytes().ct_eq(token.hash().as_bytes()));
        if !is_right || stored.record.state(Timestamp::now()) != TokenState::Valid {
            return Err(Problem::WrongToken);
        }
        self.record_use(&stored);
        Ok(ApiCaller::from(&stored.record))
    }

    /// Cached for [`MEMORY`].
    async fn load_token(&self, token: &ApiToken, client: Option<IpAddr>) -> Result<Option<Arc<StoredToken>>, Problem> {
        let now = Instant::now();
        let known = self.lock_cache().tokens.get(token.id()).cloned();
        match known {
            Some((at, stored)) if now.duration_since(at) < MEMORY => return Ok(Some(stored)),
            Some(_) => {}
            None => self.may_be_unknown(client, now)?,
        }
        let read = self.store.token(token.id()).await;
        let read = read.inspect_err(|error| tracing::warn!(%error, "cannot read token"));
        let Some(stored) = read.map_err(|_| Problem::Unavailable)?.map(Arc::new) else {
            self.was_unknown(client, now);
            return Ok(None);
        };
        let mut memory = self.lock_cache();
        if memory.tokens.len() >= ENTRIES {
            memory.tokens.retain(|_, (at, _)| now.duration_since(*at) < MEMORY);
        }
        memory.tokens.insert(token.id().to_owned(), (now, stored.clone()));
        Ok(Some(stored))
    }

    /// Records the day of use in the background, once a day.
    fn record_use(&self, stored: &Arc<StoredToken>) {
        let now = Timestamp::now();
        let today = now.to_zoned(TimeZone::UTC).date();
        if stored.record.last_used_on.is_some_and(|day| day >= today) {
            return;
        }
        let mut used = StoredToken::clone(stored);
        used.record.last_used_on = Some(today);
        let id = used.record.id.clone();
        if let Some((_, known)) = self.lock_cache().tokens.get_mut(&id) {
            *known = Arc::new(used);
        }
        let store = self.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.token_used(&id, now).await {
                tracing::warn!(%error, "cannot record use of token");
            }
        });
    }

    /// Rejects a client after too many unknown tokens, because each one costs a query.
    fn may_be_unknown(&self, client: Option<IpAddr>, now: Instant) -> Result<(), Problem> {
        let state = self.lock_cache().unknown.get(&client).copied();
        let admitted = RequestRate::UNKNOWN_TOKENS.admit(state, now);
        admitted.map(drop).map_err(|wait| Problem::UnknownTokens(wait.as_secs() + 1))
    }

    fn was_unknown(&self, client: Option<IpAddr>, now: Instant) {
        let mut memory = self.lock_cache();
        if memory.unknown.len() >= ENTRIES {
            memory.unknown.retain(|_, state| *state > now);
        }
        let state = memory.unknown.get(&client).copied();
        memory.unknown.insert(client, RequestRate::UNKNOWN_TOKENS.next(state, now));
    }

    fn rate_limit(&self, by: &str, class: RateClass) -> Result<(), Problem> {
        let now = Instant::now();
        let mut memory = self.lock_cache();
        let key = (by.to_owned(), class);
        match RequestRate::for_class(class).admit(memory.rates.get(&key).copied(), now) {
            Ok(state) => {
                if memory.rates.len() >= ENTRIES {
                    memory.rates.retain(|_, state| *state > now);
                }
                memory.rates.insert(key, state);
                Ok(())
            }
            Err(wait) => Err(Problem::TooFast(wait.as_secs() + 1)),
        }
    }

    fn lock_cache(&self) -> std::sync::MutexGuard<'_, GateCache> {
        // Ignores poisoning: this code never leaves the cache half-changed.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads `Authorization: Bearer` (RFC 6750). The scheme is case-insensitive.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
