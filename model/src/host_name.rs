//! Host names in ASCII.

use std::net::{IpAddr, ToSocketAddrs};

/// Checks a host name, e.g. `lists.example.com`: labels of letters, digits, `-` and `_`, at most 253 bytes.
#[must_use]
pub fn is_host_name(name: &str) -> bool {
    let label =
        |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    name.len() <= 253 && name.split('.').all(label)
}

/// Without DNS: `localhost` (RFC 6761) or a loopback address.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let name = host.to_ascii_lowercase();
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    is_localhost || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns `true` if the host has addresses and all are loopback addresses. This blocks on DNS.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    if is_loopback(host) || host.parse::<IpAddr>().is_ok() {
        return is_loopback(host);
    }
    let mut addresses = (host, 0).to_socket_addrs().into_iter().flatten().peekable();
    addresses.peek().is_some() && addresses.all(|address| address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_localhost_and_loopback_addresses_are_this_machine_without_asking() {
        for host in ["localhost", "LocalHost", "app.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"] {
            assert!(is_loopback(host) && is_this_machine(host), "{host}");
        }
        for host in ["10.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1", "169.254.169.254"] {
            assert!(!is_loopback(host) && !is_this_machine(host), "{host}");
        }
        assert!(!is_loopback("localhost.example") && !is_loopback(""));
    }

    #[test]
    fn a_name_without_an_address_is_not_this_machine() {
        assert!(!is_this_machine("nobody.invalid"));
    }
}
