//! Finds the client's address. Behind a proxy this is in a header, which we use only if the proxy is trusted.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, header::FORWARDED},
};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Most addresses read from the end of this header; real chains are short.
const HOPS: usize = 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub IpAddr);

/// Networks of trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(pub Vec<IpNet>);

impl TrustedProxies {
    pub(crate) fn is_trusted(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the last address that is not a trusted proxy.
    ///
    /// We prefer `X-Forwarded-For` to `Forwarded` (RFC 7239), because proxies that set the former pass on the
    /// latter unchecked.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        for named in forwarded_hops(headers).into_iter().rev().take(HOPS) {
            if !self.is_trusted(client) {
                break;
            }
            let Some(named) = named else { break };
            client = named.to_canonical();
        }
        client
    }

    /// Like [`Self::client`], or `None` if the request did not come over a connection.
    pub(crate) fn client_of(&self, request: &Request) -> Option<IpAddr> {
        let PeerAddress(peer) = request.extensions().get()?;
        Some(self.client(*peer, request.headers()))
    }
}

/// Nearest proxy last. An unreadable entry is `None`.
fn forwarded_hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let values = |name: &HeaderName| {
        let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default().to_owned());
        values.collect::<Vec<_>>().join(",")
    };
    if headers.contains_key(X_FORWARDED_FOR) {
        return values(&X_FORWARDED_FOR).split(',').map(address).collect();
    }
    let forwarded = values(&FORWARDED);
    if forwarded.is_empty() {
        return Vec::new();
    }
    let named = |element: &str| {
        let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("for")).and_then(|(_, value)| address(value))
    };
    forwarded.split(',').map(named).collect()
}

/// Accepts brackets, quotes and a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|text| text.split_once(']')).map_or(text, |(address, _)| address);
    bare.parse().ok().or_else(|| bare.rsplit_once(':')?.0.parse().ok())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn client(peer: &str, headers: &[(&'static str, &'static str)]) -> String {
        let trusted = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        trusted.client(peer.parse().unwrap(), &map).to_string()
    }

    #[test]
    fn headers_count_from_configured_networks_only() {
        let (xff, forwarded) = ("x-forwarded-for", "forwarded");
        for (peer, headers, expected) in [
            ("198.51.100.1", &[(xff, "203.0.113.9")][..], "198.51.100.1"),
            ("198.51.100.1", &[(forwarded, "for=203.0.113.9")], "198.51.100.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[(xff, "203.0.113.9")], "203.0.113.9"),
            ("::ffff:10.0.0.1", &[(xff, "203.0.113.9")], "203.0.113.9"),
            // What the client itself wrote stands before what the first proxy wrote.
            ("10.0.0.1", &[(xff, "1.1.1.1, 203.0.113.9, 10.9.9.9")], "203.0.113.9"),
            ("10.0.0.1", &[(xff, "1.1.1.1"), (xff, "203.0.113.9")], "203.0.113.9"),
            ("10.0.0.1", &[(xff, "203.0.113.9:4711")], "203.0.113.9"),
            ("10.0.0.1", &[(xff, "203.0.113.9, unknown")], "10.0.0.1"),
            ("10.0.0.1", &[(xff, "203.0.113.9"), (forwarded, "for=1.1.1.1")], "203.0.113.9"),
            ("10.0.0.1", &[(forwarded, "for=203.0.113.9;proto=https, for=10.2.2.2")], "203.0.113.9"),
            ("fd00::1", &[(forwarded, "proto=https; For=\"[2001:db8::7]:4711\"")], "2001:db8::7"),
            ("10.0.0.1", &[(forwarded, "for=_hidden")], "10.0.0.1"),
            ("10.0.0.1", &[(forwarded, "")], "10.0.0.1"),
        ] {
            assert_eq!(client(peer, headers), expected, "{peer} {headers:?}");
        }
    }
}
