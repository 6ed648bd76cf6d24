//! Limits concurrent requests and the memory for their bodies, per listener and per client.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::{
    client_address::TrustedProxies,
    client_quota::{ClientQuota, QuotaExceeded, QuotaPortion},
    problem::Problem,
};

/// Bytes of memory per byte of body. Events need the most: we measured 4.8.
pub const BODY_COST: usize = 5;

#[derive(Clone, Debug)]
pub struct AdmissionLimits {
    pub trusted: TrustedProxies,
    /// Bytes for all bodies together. This should be at least [`BODY_COST`] times the longest body.
    pub body_bytes: usize,
}

impl AdmissionLimits {
    pub const BODY_BYTES: usize = 128 << 20;
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self { trusted: TrustedProxies::default(), body_bytes: Self::BODY_BYTES }
    }
}

#[derive(Clone)]
pub(crate) struct RequestQuotas {
    requests: ClientQuota,
    bodies: ClientQuota,
    trusted: TrustedProxies,
}

#[derive(Clone)]
pub(crate) struct BodyShare {
    bodies: ClientQuota,
    client: Option<IpAddr>,
}

impl RequestQuotas {
    /// `requests` and `body_bytes` are each a limit for all clients and one per client.
    pub fn new(requests: [usize; 2], body_bytes: [usize; 2], trusted: TrustedProxies) -> Self {
        let [requests, bodies] = [requests, body_bytes].map(|[all, of_client]| ClientQuota::new(all, of_client));
        Self { requests, bodies, trusted }
    }
}

impl BodyShare {
    pub fn take(&self, bytes: usize) -> Result<QuotaPortion, Problem> {
        // Same problem for both limits: the client should retry.
        self.bodies.take(self.client, bytes.saturating_mul(BODY_COST)).map_err(|_| Problem::Busy)
    }
}

/// Middleware: rejects a request without waiting if the quota is used up.
pub(crate) async fn limit_requests(
    State(concurrency): State<RequestQuotas>,
    mut request: Request,
    next: Next,
) -> Response {
    let RequestQuotas { requests, bodies, trusted } = concurrency;
    let client = trusted.client_of(&request);
    match requests.take(client, 1) {
        Ok(_place) => {
            request.extensions_mut().insert(BodyShare { bodies, client });
            next.run(request).await
        }
        Err(QuotaExceeded::All) => Problem::Busy.into_response(),
        Err(QuotaExceeded::Client) => Problem::TooMany.into_response(),
    }
}
