//! A shared quota, e.g. of requests or bytes, limited in total and per client.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Clones share the usage.
#[derive(Clone, Debug)]
pub(crate) struct ClientQuota {
    most: usize,
    most_of_client: usize,
    taken: Arc<Mutex<QuotaUsage>>,
}

#[derive(Debug, Default)]
struct QuotaUsage {
    all: usize,
    clients: HashMap<IpAddr, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaExceeded {
    All,
    Client,
}

/// Dropping this returns the amount.
#[derive(Debug)]
pub(crate) struct QuotaPortion {
    quota: ClientQuota,
    client: Option<IpAddr>,
    amount: usize,
}

impl ClientQuota {
    pub fn new(most: usize, most_of_client: usize) -> Self {
        Self { most, most_of_client, taken: Arc::default() }
    }

    /// Takes the full amount or nothing. Without a client only the total limit applies.
    pub fn take(&self, client: Option<IpAddr>, amount: usize) -> Result<QuotaPortion, QuotaExceeded> {
        let mut portion = QuotaPortion { quota: self.clone(), client: client.map(client_network), amount: 0 };
        portion.grow(amount)?;
        Ok(portion)
    }

    fn lock_usage(&self) -> MutexGuard<'_, QuotaUsage> {
        // Ignores poisoning: this code never leaves the numbers half-changed.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaPortion {
    /// Takes all or nothing. One portion may exceed the client's limit, because we could otherwise never
    /// serve the largest.
    pub fn grow(&mut self, more: usize) -> Result<(), QuotaExceeded> {
        let ClientQuota { most, most_of_client, .. } = self.quota;
        let mut taken = self.quota.lock_usage();
        if more > most.saturating_sub(taken.all) {
            return Err(QuotaExceeded::All);
        }
        if let Some(client) = self.client {
            let of_client = taken.clients.entry(client).or_default();
            if *of_client > self.amount && of_client.saturating_add(more) > most_of_client {
                return Err(QuotaExceeded::Client);
            }
            *of_client += more;
        }
        taken.all += more;
        drop(taken);
        self.amount += more;
        Ok(())
    }
}

impl Drop for QuotaPortion {
    fn drop(&mut self) {
        let mut taken = self.quota.lock_usage();
        taken.all -= self.amount;
        let Some(client) = self.client else { return };
        if let Some(of_client) = taken.clients.get_mut(&client) {
            *of_client -= self.amount;
            if *of_client == 0 {
                taken.clients.remove(&client);
            }
        }
    }
}

/// We assume one client has an IPv4 address, or an IPv6 /64.
pub(crate) fn client_network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(quota: &ClientQuota, client: &str, amount: usize) -> Result<QuotaPortion, QuotaExceeded> {
        quota.take(Some(client.parse().unwrap()), amount)
    }

    #[test]
    fn what_is_over_a_limit_is_refused_until_other_portions_are_free() {
        let quota = ClientQuota::new(3, 2);
        let first = take(&quota, "192.0.2.1", 1).unwrap();
        let second = take(&quota, "192.0.2.1", 1).unwrap();
        assert_eq!(take(&quota, "192.0.2.1", 1).err(), Some(QuotaExceeded::Client));
        let third = take(&quota, "192.0.2.2", 1).unwrap();
        assert_eq!(take(&quota, "192.0.2.3", 1).err(), Some(QuotaExceeded::All));
        drop(first);
        let again = take(&quota, "192.0.2.1", 1).unwrap();
        drop((second, third, again));
        let taken = quota.lock_usage();
        assert!(taken.all == 0 && taken.clients.is_empty(), "{taken:?}");
    }

    #[test]
    fn one_portion_may_exceed_the_share_of_a_client_but_never_the_whole() {
        let quota = ClientQuota::new(100, 10);
        let mut large = take(&quota, "192.0.2.1", 8).unwrap();
        assert_eq!(large.grow(50), Ok(()));
        assert_eq!(take(&quota, "192.0.2.1", 1).err(), Some(QuotaExceeded::Client));
        assert_eq!(large.grow(50), Err(QuotaExceeded::All));
        assert!(take(&quota, "192.0.2.2", 42).is_ok(), "a refused portion takes nothing");
        drop(large);
        assert_eq!(quota.lock_usage().all, 0);
    }

    #[test]
    fn a_client_that_was_refused_leaves_no_trace() {
        let quota = ClientQuota::new(10, 10);
        assert_eq!(take(&quota, "192.0.2.1", 11).err(), Some(QuotaExceeded::All));
        let none = take(&quota, "192.0.2.1", 0).unwrap();
        drop(none);
        assert!(quota.lock_usage().clients.is_empty());
    }

    #[test]
    fn a_client_has_half_of_an_ipv6_address() {
        let quota = ClientQuota::new(3, 1);
        let _first = take(&quota, "2001:db8::1", 1).unwrap();
        assert_eq!(take(&quota, "2001:db8::2", 1).err(), Some(QuotaExceeded::Client));
        assert!(take(&quota, "2001:db8:0:1::2", 1).is_ok());
        let _fourth = take(&quota, "192.0.2.4", 1).unwrap();
        assert_eq!(take(&quota, "::ffff:192.0.2.4", 1).err(), Some(QuotaExceeded::Client));
    }
}
