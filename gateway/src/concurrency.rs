//! Requests in progress, and the memory of their bodies: bounded over all clients of a listener, and for each client.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::{
    client_address::Networks,
    problem::Problem,
    quota::{Exceeded, Portion, Quota},
};

/// Bytes of memory that a request may need for each byte of its body, until it is answered. The largest need is that of events:
/// 4.8 bytes were measured.
pub const BODY_COST: usize = 5;

/// What a listener takes from its clients.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The proxies whose headers name the client.
    pub trusted: Networks,
    /// Memory for all bodies in progress, in bytes. It must be [`BODY_COST`] times the largest body or more.
    pub body_bytes: usize,
}

impl Admission {
    /// The memory for bodies where nothing else is known.
    pub const BODY_BYTES: usize = 128 << 20;
}

impl Default for Admission {
    fn default() -> Self {
        Self { trusted: Networks::default(), body_bytes: Self::BODY_BYTES }
    }
}

/// The places of requests in progress.
#[derive(Clone)]
pub(crate) struct Concurrency {
    requests: Quota,
    bodies: Quota,
    trusted: Networks,
}

/// The memory for bodies, for a request of this client.
#[derive(Clone)]
pub(crate) struct BodyShare {
    bodies: Quota,
    client: Option<IpAddr>,
}

impl Concurrency {
    /// `requests` and `body_bytes` are limits over all clients and for each client.
    pub fn new(requests: [usize; 2], body_bytes: [usize; 2], trusted: Networks) -> Self {
        let [requests, bodies] = [requests, body_bytes].map(|[all, of_client]| Quota::new(all, of_client));
        Self { requests, bodies, trusted }
    }
}

impl BodyShare {
    /// Takes the memory for a body of this length.
    pub fn take(&self, bytes: usize) -> Result<Portion, Problem> {
        // The answer is the same for all limits: the request may come again.
        self.bodies.take(self.client, bytes.saturating_mul(BODY_COST)).map_err(|_| Problem::Busy)
    }
}

/// The middleware: runs the request if there is a place, or refuses the request at once.
pub(crate) async fn bound(State(concurrency): State<Concurrency>, mut request: Request, next: Next) -> Response {
    let Concurrency { requests, bodies, trusted } = concurrency;
    let client = trusted.client_of(&request);
    match requests.take(client, 1) {
        Ok(_place) => {
            request.extensions_mut().insert(BodyShare { bodies, client });
            next.run(request).await
        }
        Err(Exceeded::All) => Problem::Busy.into_response(),
        Err(Exceeded::Client) => Problem::TooMany.into_response(),
    }
}
