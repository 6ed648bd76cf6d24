//! The gateway, as `[gateway]` describes it.
//!
//! Workers need its public address for links. Only `tidings gateway` needs the rest.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::Deserialize;
use tidings_gateway::{
    Networks,
    api::{LEAST_BODY_BYTES, Trust},
};
use tidings_model::{
    host_name::is_loopback,
    link_keys::VARIABLE,
    settings::{PageUrl, Pages, UnknownPlaceholder},
};
use toml::Spanned;
use url::Url;

use super::{
    door::{Door, ListenerKeys},
    list::{SpannedList, parse_each},
    oidc::{self, RawOidc},
    problem::{Checks, Problem},
};

/// The default address of the public listener. A proxy with TLS stands in front of it.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
/// Without words it is a warning only: in front of it is the proxy of `public_url`, which must have TLS.
const PUBLIC: ListenerKeys = ListenerKeys { listen: "gateway.listen", tls: "gateway.tls", is_refused: false };
const API: ListenerKeys = ListenerKeys { listen: "gateway.api_listen", tls: "gateway.api_tls", is_refused: true };
const METRICS: ListenerKeys =
    ListenerKeys { listen: "gateway.metrics_listen", tls: "gateway.metrics_tls", is_refused: true };
/// Characters of an address. With a token behind it, a line of a header stays below the 998 octets of RFC 5322.
const URL_CHARS: usize = 200;
const MEBIBYTE: usize = 1 << 20;

/// The keys of `[gateway]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGateway {
    listen: Option<Spanned<String>>,
    tls: Option<Spanned<String>>,
    public_url: Option<Spanned<String>>,
    unsubscribe_url: Option<Spanned<String>>,
    preferences_url: Option<Spanned<String>>,
    trusted_proxies: Option<SpannedList>,
    metrics_listen: Option<Spanned<String>>,
    metrics_tls: Option<Spanned<String>>,
    api_listen: Option<Spanned<String>>,
    api_tls: Option<Spanned<String>>,
    body_mebibytes: Option<Spanned<i64>>,
    oidc: Option<Spanned<RawOidc>>,
}

/// The settings of the gateway.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// The address of the public listener.
    pub listen: SocketAddr,
    /// The address under which recipients and providers reach the public listener, and pages of the team's own.
    pub pages: Pages,
    /// The networks of proxies whose `X-Forwarded-For` and `Forwarded` count.
    pub trusted_proxies: Networks,
    /// The address on which the gateway answers `GET /metrics`, if any.
    pub metrics_listen: Option<SocketAddr>,
    /// The address of the api's listener. `None`: the api is off.
    pub api_listen: Option<SocketAddr>,
    /// Memory for the bodies in progress of each listener, in bytes. `None`: a part of what the process may have.
    pub body_bytes: Option<usize>,
    /// The issuer whose access tokens the api takes, if any.
    pub oidc: Option<Trust>,
    /// The line of `listen`.
    place: Option<String>,
    /// The problems of addresses if there is no key that signs tokens.
    unsigned: Vec<Problem>,
}

impl RawGateway {
    pub fn check(&self, checks: &mut Checks<'_>, listeners: &mut Vec<Door>) -> Option<Gateway> {
        let listen_on = PUBLIC.check(checks, listeners, self.listen.as_ref(), self.tls.as_ref());
        let public_url = checks.value("gateway.public_url", self.public_url.as_ref(), public_url);
        let proxies = self.trusted_proxies.as_ref();
        let proxies = proxies.map(|raw| parse_each("gateway.trusted_proxies", raw, checks, network));
        let metrics_listen = METRICS.check(checks, listeners, self.metrics_listen.as_ref(), self.metrics_tls.as_ref());
        let api_listen = API.check(checks, listeners, self.api_listen.as_ref(), self.api_tls.as_ref());
        let mebibytes = self.body_mebibytes.as_ref().map(|raw| Spanned::new(raw.span(), raw.as_ref().to_string()));
        let body_bytes = checks.value("gateway.body_mebibytes", mebibytes.as_ref(), body_bytes);
        let unsubscribe = checks.value("gateway.unsubscribe_url", self.unsubscribe_url.as_ref(), unsubscribe_url);
        let preferences = checks.value("gateway.preferences_url", self.preferences_url.as_ref(), page_url);
        Some(Gateway {
            listen: listen_on.unwrap_or(LISTEN),
            pages: Pages { public_url, unsubscribe, preferences },
            trusted_proxies: Networks(proxies.unwrap_or_else(|| Some(Vec::new()))?),
            metrics_listen,
            api_listen,
            body_bytes,
            oidc: self.oidc.as_ref().and_then(|raw| oidc::check(raw, checks)),
            place: self.listen.as_ref().map(|value| checks.place_of(value)),
            unsigned: self.unsigned(checks),
        })
    }
}

impl RawGateway {
    fn unsigned(&self, checks: &Checks<'_>) -> Vec<Problem> {
        let urls = [
            ("gateway.public_url", &self.public_url),
            ("gateway.unsubscribe_url", &self.unsubscribe_url),
            ("gateway.preferences_url", &self.preferences_url),
        ];
        let problem = |key: &str, url: &Spanned<String>| Problem {
            place: checks.place_of(url),
            key: key.to_owned(),
            value: url.as_ref().clone(),
            problem: format!("needs a key that signs its links; set {VARIABLE} to what `tidings keys new` prints"),
        };
        urls.into_iter().filter_map(|(key, url)| Some(problem(key, url.as_ref()?))).collect()
    }
}

impl Gateway {
    /// Serves this machine alone.
    pub(super) fn listen_on_this_machine(&mut self, listen: SocketAddr, api: SocketAddr, public_url: String) {
        self.listen = listen;
        self.api_listen = Some(api);
        self.metrics_listen = None;
        self.pages.public_url = Some(public_url);
    }

    /// Returns the problems of addresses without keys: no link could be signed.
    pub(super) fn key_problems(&self, has_keys: bool) -> Vec<Problem> {
        if has_keys { Vec::new() } else { self.unsigned.clone() }
    }

    /// Returns the problem of a gateway without an address of its own. Pages of the team's own need no gateway.
    pub(super) fn address_problem(&self) -> Option<Problem> {
        let listens = self.metrics_listen.is_some() || self.api_listen.is_some() || self.oidc.is_some();
        let serves = self.place.is_some() || !self.trusted_proxies.0.is_empty() || listens;
        (serves && self.pages.public_url.is_none()).then(|| self.missing_address())
    }

    /// Warns of a proxy that is not trusted: all recipients behind it would be one client, and share its limits.
    pub(super) fn proxy_warning(&self) -> Option<Problem> {
        let public_url = self.pages.public_url.as_ref().filter(|url| url.starts_with("https:"))?;
        self.trusted_proxies.0.is_empty().then(|| Problem {
            place: self.place.clone().unwrap_or_else(|| "default".to_owned()),
            key: "gateway.trusted_proxies".to_owned(),
            value: String::new(),
            problem: format!(
                "is empty, and a proxy serves {public_url}: all recipients are one client, and share its limit of requests; write the \
                 proxy's network, for example [\"127.0.0.1\"]"
            ),
        })
    }

    /// Reports if the table has a key.
    pub(crate) fn is_configured(&self) -> bool {
        self.address_problem().is_some() || self.pages != Pages::default()
    }

    /// Returns the problem that the public address is missing.
    pub(crate) fn missing_address(&self) -> Problem {
        Problem {
            place: self.place.clone().unwrap_or_else(|| "default".to_owned()),
            key: "gateway.public_url".to_owned(),
            value: String::new(),
            problem: "is missing; write the address under which recipients reach the gateway, for example \
                      \"https://mail.acme.example\""
                .to_owned(),
        }
    }
}

/// Parses an address for links. Tokens must not travel in the clear, except on this machine.
fn public_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://mail.acme.example\"";
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("has a user or password, which every recipient would see; {right}"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("has a query or fragment, and the links' paths come behind the address; {right}"));
    }
    secure(&url).map_err(|fault| format!("{fault}; {right}"))?;
    short(url.as_str().trim_end_matches('/'))
}

/// Parses the address of a page that unsubscribes. Without the token anybody could unsubscribe anybody.
fn unsubscribe_url(text: &str) -> Result<PageUrl, String> {
    let page = page_url(text)?;
    if page.has_token() {
        return Ok(page);
    }
    let right = "write for example \"https://app.acme.example/unsubscribe?token={token}\"";
    Err(format!("has no {{token}}, without which anybody could unsubscribe anybody; {right}"))
}

/// Parses the address of a page of the team's own, with placeholders.
fn page_url(text: &str) -> Result<PageUrl, String> {
    let right = "write for example \"https://app.acme.example/mail?user={user}&token={token}\"";
    let page: PageUrl = text.parse().map_err(|error: UnknownPlaceholder| error.to_string())?;
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,\"\\".contains(&byte)) {
        return Err(format!("has a character that must be percent-encoded; {right}"));
    }
    if url.host_str().is_some_and(|host| host.contains(['{', '}'])) {
        return Err(format!("has a placeholder in its host; {right}"));
    }
    secure(&url).map_err(|fault| format!("{fault}; {right}"))?;
    short(text)?;
    Ok(page)
}

/// Accepts https, and http on this machine.
fn secure(url: &Url) -> Result<(), String> {
    match url.scheme() {
        "https" => Ok(()),
        "http" if url.host_str().is_some_and(is_loopback) => Ok(()),
        "http" => Err("is not https, so that everyone on the way could read the links".to_owned()),
        other => Err(format!("{other:?} is not https")),
    }
}

fn short(url: &str) -> Result<String, String> {
    if url.len() <= URL_CHARS {
        return Ok(url.to_owned());
    }
    Err(format!("has {} characters, the limit is {URL_CHARS}", url.len()))
}

/// Parses a number of mebibytes.
fn body_bytes(text: &str) -> Result<usize, String> {
    let least = LEAST_BODY_BYTES / MEBIBYTE;
    let mebibytes = text.parse().ok().filter(|mebibytes| *mebibytes >= least);
    let bytes = mebibytes.and_then(|mebibytes: usize| mebibytes.checked_mul(MEBIBYTE));
    bytes.ok_or_else(|| format!("write a whole number from {least}: the longest message needs that much"))
}

/// Parses a network or a single address.
fn network(text: &str) -> Result<IpNet, String> {
    let single = || Some(IpNet::from(text.parse::<IpAddr>().ok()?));
    let wrong = "is not a network; write for example \"10.0.0.0/8\" or \"127.0.0.1\"";
    text.parse().ok().or_else(single).ok_or_else(|| wrong.to_owned())
}
