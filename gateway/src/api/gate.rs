//! The gate of the api: which token a request has, and whether the token allows the request now.

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

use super::{Class, Endpoint, caller::Caller, oidc::Issuer};
use crate::{Networks, problem::Problem, quota::network};

/// Age at which a token is read again: a revoked one is refused within this time.
const MEMORY: Duration = Duration::from_secs(10);
/// Entries of a memory at which old ones are forgotten.
const ENTRIES: usize = 10_000;

/// Lets requests in by their tokens. The clones share their memory.
#[derive(Clone)]
pub(super) struct Gate {
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    /// The issuer whose access tokens count, too.
    issuer: Option<Arc<Issuer>>,
    /// The proxies whose headers name a client.
    trusted: Networks,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    /// Tokens by id, each with the time of its reading.
    tokens: HashMap<String, (Instant, Arc<StoredToken>)>,
    /// States of [`Rate`] by caller and class.
    rates: HashMap<(String, Class), Instant>,
    /// States of [`Rate::UNKNOWN_TOKENS`] by client. `None`: no connection brought the request.
    unknown: HashMap<Option<IpAddr>, Instant>,
}

/// The middleware: runs the request with its [`Caller`], or refuses it.
pub(super) async fn check(
    State((gate, endpoint)): State<(Gate, Endpoint)>,
    mut request: Request,
    next: Next,
) -> Response {
    let client = gate.trusted.client_of(&request).map(network);
    match gate.admit(request.headers(), client, endpoint).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

impl Gate {
    pub fn new(state: &crate::State, issuer: Option<Arc<Issuer>>, trusted: Networks) -> Self {
        let (store, settings) = (state.store.clone(), state.settings.clone());
        Self { store, settings, issuer, trusted, memory: Arc::default() }
    }

    async fn admit(&self, headers: &HeaderMap, client: Option<IpAddr>, endpoint: Endpoint) -> Result<Caller, Problem> {
        let token = bearer(headers).ok_or(Problem::NoToken)?;
        let caller = match &self.issuer {
            Some(issuer) if !token.starts_with(PREFIX) => issuer.admit(token, Timestamp::now()).await?,
            _ => self.own(token, client).await?,
        };
        if !caller.scopes.contains(&endpoint.scope()) {
            return Err(Problem::MissingScope(endpoint.scope()));
        }
        self.pace(&caller.by, endpoint.class())?;
        Ok(caller.today(&self.settings.names))
    }

    /// The caller with one of Tidings' own tokens.
    async fn own(&self, token: &str, client: Option<IpAddr>) -> Result<Caller, Problem> {
        let token: ApiToken = token.parse().map_err(|_| Problem::WrongToken)?;
        let stored = self.read(&token, client).await?.ok_or(Problem::WrongToken)?;
        let is_right = bool::from(stored.hash.as_bytes().ct_eq(token.hash().as_bytes()));
        if !is_right || stored.record.state(Timestamp::now()) != TokenState::Valid {
            return Err(Problem::WrongToken);
        }
        self.used(&stored);
        Ok(Caller::from(&stored.record))
    }

    /// The token as the store has it, or had it at most ten seconds ago. Only a client that names few unknown tokens may ask the store
    /// about one that was not read before.
    async fn read(&self, token: &ApiToken, client: Option<IpAddr>) -> Result<Option<Arc<StoredToken>>, Problem> {
        let now = Instant::now();
        let known = self.memory().tokens.get(token.id()).cloned();
        match known {
            Some((at, stored)) if now.duration_since(at) < MEMORY => return Ok(Some(stored)),
            Some(_) => {}
            None => self.may_be_unknown(client, now)?,
        }
        let read = self.store.token(token.id()).await;
        let read = read.inspect_err(|error| tracing::warn!(%error, "a token cannot be read"));
        let Some(stored) = read.map_err(|_| Problem::Unavailable)?.map(Arc::new) else {
            self.was_unknown(client, now);
            return Ok(None);
        };
        let mut memory = self.memory();
        if memory.tokens.len() >= ENTRIES {
            memory.tokens.retain(|_, (at, _)| now.duration_since(*at) < MEMORY);
        }
        memory.tokens.insert(token.id().to_owned(), (now, stored.clone()));
        Ok(Some(stored))
    }

    /// Records the day of the use, once for each day, in the background.
    fn used(&self, stored: &Arc<StoredToken>) {
        let now = Timestamp::now();
        let today = now.to_zoned(TimeZone::UTC).date();
        if stored.record.last_used_on.is_some_and(|day| day >= today) {
            return;
        }
        let mut used = StoredToken::clone(stored);
        used.record.last_used_on = Some(today);
        let id = used.record.id.clone();
        if let Some((_, known)) = self.memory().tokens.get_mut(&id) {
            *known = Arc::new(used);
        }
        let store = self.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.token_used(&id, now).await {
                tracing::warn!(%error, "the use of a token is not recorded");
            }
        });
    }

    /// Refuses a client that named too many unknown tokens: each of them is a query.
    fn may_be_unknown(&self, client: Option<IpAddr>, now: Instant) -> Result<(), Problem> {
        let state = self.memory().unknown.get(&client).copied();
        let admitted = Rate::UNKNOWN_TOKENS.admit(state, now);
        admitted.map(drop).map_err(|wait| Problem::UnknownTokens(wait.as_secs() + 1))
    }

    fn was_unknown(&self, client: Option<IpAddr>, now: Instant) {
        let mut memory = self.memory();
        if memory.unknown.len() >= ENTRIES {
            memory.unknown.retain(|_, state| *state > now);
        }
        let state = memory.unknown.get(&client).copied();
        memory.unknown.insert(client, Rate::UNKNOWN_TOKENS.next(state, now));
    }

    fn pace(&self, by: &str, class: Class) -> Result<(), Problem> {
        let now = Instant::now();
        let mut memory = self.memory();
        let key = (by.to_owned(), class);
        match Rate::of(class).admit(memory.rates.get(&key).copied(), now) {
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

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        // Nothing that runs under the lock leaves the memory half-changed.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of `Authorization: Bearer` (RFC 6750). The scheme's name has any case.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A rate by the generic cell rate algorithm, as a pure function of the state and the time: `burst` requests at once, and one more after each `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub interval: Duration,
    pub burst: u32,
}

impl Rate {
    /// The rate at which a client may name tokens that there are not, in each process.
    pub const UNKNOWN_TOKENS: Self = Self { interval: Duration::from_millis(100), burst: 50 };

    /// The rate of a token, in each process.
    pub const fn of(class: Class) -> Self {
        let (a_second, burst) = match class {
            Class::Events => (10_000, 10_000),
            Class::Reads => (100, 200),
            Class::Operate => (20, 100),
        };
        Self { interval: Duration::from_nanos(1_000_000_000 / a_second), burst }
    }

    /// Admits a request, and returns the next state, or refuses the request and returns the wait. The state is the time at which all
    /// requests so far would have come at an even pace. `None`: there was none lately.
    pub fn admit(self, state: Option<Instant>, now: Instant) -> Result<Instant, Duration> {
        let even = state.map_or(now, |state| state.max(now));
        let ahead = even.duration_since(now);
        let tolerance = self.interval * self.burst.saturating_sub(1);
        match ahead.checked_sub(tolerance) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(self.next(state, now)),
        }
    }

    /// The state after one more request.
    pub fn next(self, state: Option<Instant>, now: Instant) -> Instant {
        state.map_or(now, |state| state.max(now)) + self.interval
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_burst_passes_at_once_and_the_next_request_waits_an_interval() {
        let (rate, now) = (Rate { interval: MS(100), burst: 3 }, Instant::now());
        let mut state = None;
        for _ in 0..3 {
            state = Some(rate.admit(state, now).unwrap());
        }
        assert_eq!(rate.admit(state, now), Err(MS(100)));
        assert_eq!(rate.admit(state, now + MS(40)), Err(MS(60)));
        assert!(rate.admit(state, now + MS(100)).is_ok());
    }

    proptest! {
        #[test]
        fn no_span_exceeds_burst_and_rate_and_the_named_wait_suffices(
            gaps in proptest::collection::vec(0_u64..300, 1..80), burst in 1_u32..6,
        ) {
            let (rate, start) = (Rate { interval: MS(100), burst }, Instant::now());
            let (mut state, mut now, mut admitted) = (None, start, Vec::new());
            for gap in gaps {
                now += MS(gap);
                match rate.admit(state, now) {
                    Ok(next) => {
                        state = Some(next);
                        admitted.push(now);
                    }
                    Err(wait) => {
                        prop_assert!(rate.admit(state, now + wait).is_ok());
                        prop_assert!(rate.admit(state, now + wait - Duration::from_nanos(1)).is_err());
                    }
                }
            }
            for (n, from) in admitted.iter().enumerate() {
                for (m, until) in admitted.iter().enumerate().skip(n) {
                    let most = u128::from(burst) + until.duration_since(*from).as_millis() / 100;
                    prop_assert!((m - n + 1) as u128 <= most);
                }
            }
        }
    }
}
