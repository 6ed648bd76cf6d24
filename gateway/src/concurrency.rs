//! The number of requests in progress: bounded over all clients, and for each client.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{client_address::Networks, problem::Problem};

/// Requests in progress over all clients.
pub(crate) const REQUESTS: usize = 256;
/// Requests in progress of one client.
pub(crate) const OF_CLIENT: usize = 64;

/// Requests in progress by client.
type Clients = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The places of requests in progress.
#[derive(Clone)]
pub(crate) struct Concurrency {
    all: Arc<Semaphore>,
    most_of_client: usize,
    clients: Clients,
    trusted: Networks,
}

/// The places of one request. They are free again when this is dropped.
struct Place {
    _one_of_all: OwnedSemaphorePermit,
    client: Option<(IpAddr, Clients)>,
}

impl Concurrency {
    pub fn new(requests: usize, most_of_client: usize, trusted: Networks) -> Self {
        Self { all: Arc::new(Semaphore::new(requests)), most_of_client, clients: Arc::default(), trusted }
    }

    fn enter(&self, client: Option<IpAddr>) -> Result<Place, Problem> {
        let one_of_all = self.all.clone().try_acquire_owned().map_err(|_| Problem::Busy)?;
        let client = client.map(network);
        if let Some(client) = client {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            let in_progress = clients.entry(client).or_default();
            if *in_progress >= self.most_of_client {
                return Err(Problem::TooMany);
            }
            *in_progress += 1;
        }
        Ok(Place { _one_of_all: one_of_all, client: client.map(|client| (client, self.clients.clone())) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((client, clients)) = &self.client else { return };
        let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(in_progress) = clients.get_mut(client) {
            *in_progress -= 1;
            if *in_progress == 0 {
                clients.remove(client);
            }
        }
    }
}

/// Returns the address of the network that one client has: the whole address, or the first half of an IPv6 address.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// The middleware: runs the request if there is a place, or refuses the request at once.
pub(crate) async fn bound(State(concurrency): State<Concurrency>, request: Request, next: Next) -> Response {
    match concurrency.enter(concurrency.trusted.client_of(&request)) {
        Ok(_place) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn requests_over_the_limits_are_refused_until_others_end() {
        let concurrency = Concurrency::new(3, 2, Networks::default());
        let enter = |client| concurrency.enter(Some(address(client)));
        let first = enter("192.0.2.1").ok();
        let second = enter("192.0.2.1").ok();
        assert_eq!(enter("192.0.2.1").err(), Some(Problem::TooMany));
        let third = enter("192.0.2.2").ok();
        assert_eq!(enter("192.0.2.3").err(), Some(Problem::Busy));
        drop(first);
        let again = enter("192.0.2.1").ok();
        assert!(again.is_some());
        drop((second, third, again));
        assert!(concurrency.clients.lock().unwrap().is_empty());
    }

    #[test]
    fn a_client_has_half_of_an_ipv6_address() {
        let concurrency = Concurrency::new(3, 1, Networks::default());
        let _first = concurrency.enter(Some(address("2001:db8::1"))).ok();
        assert_eq!(concurrency.enter(Some(address("2001:db8::2"))).err(), Some(Problem::TooMany));
        assert!(concurrency.enter(Some(address("2001:db8:0:1::2"))).is_ok());
    }
}
