//! The address of a client. Behind a proxy it stands in a header, which counts only if the proxy is configured.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, header::FORWARDED},
};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Addresses that are read from the end of a header. Proxies are few.
const HOPS: usize = 20;

/// The address of the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub IpAddr);

/// Networks of proxies whose headers count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<IpNet>);

impl Networks {
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the client's address: the last one that a trusted proxy named and that is not such a proxy itself.
    ///
    /// `X-Forwarded-For` counts before `Forwarded` (RFC 7239): proxies that write the former let the latter pass.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        for named in hops(headers).into_iter().rev().take(HOPS) {
            if !self.contain(client) {
                break;
            }
            let Some(named) = named else { break };
            client = named.to_canonical();
        }
        client
    }

    /// Returns the client's address; `None` if no connection brought the request.
    pub(crate) fn client_of(&self, request: &Request) -> Option<IpAddr> {
        let Peer(peer) = request.extensions().get()?;
        Some(self.client(*peer, request.headers()))
    }
}

/// Returns the addresses that proxies named, the nearest proxy's last. `None` stands for anything else.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
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

/// Reads an address, in brackets and quotes or not, with a port or not.
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
        let trusted = Networks(vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
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
