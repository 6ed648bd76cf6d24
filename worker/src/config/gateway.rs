//! The gateway: the table `[gateway]`.
//!
//! Workers need its public address for links. Only `tidings gateway` needs the rest.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tidings_gateway::{
    TrustedProxies,
    api::{IssuerTrust, LEAST_BODY_BYTES, TokenType},
};
use tidings_model::{
    host_name::is_loopback,
    limits,
    link_keys::VARIABLE,
    settings::{PageUrl, RecipientPages, UnknownPlaceholder},
};
use toml::Spanned;
use url::Url;

use super::{
    checks::Checks,
    keys::{ConfigTable, ConfigValue, RawFlag, RawText, ToConfigValue as _, ToTable, table, text_list, unless_empty},
    problem::ConfigProblem,
};

/// Loopback, because a proxy with TLS should stand in front.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
/// With a token added, a header line should stay below the 998 octets of RFC 5322.
const URL_CHARS: usize = 200;
const MEBIBYTE: usize = 1 << 20;

const TENANT_CLAIM: &str = "tenant";
const ISSUER: &str = "the issuer's URL as the claim iss has it, for example \"https://login.acme.example\"";
const AUDIENCE: &str =
    "the name of this API in the claim aud of access tokens, for example \"https://tidings.acme.example\"";

table! {
    /// The keys of `[gateway]`.
    pub(super) struct RawGateway for gateway: GatewayConfig, read() {
        listen: listener(tls, has_proxy: true);
        tls: raw(RawText);
        public_url: text(public_url) in pages.public_url;
        unsubscribe_url: apart(RawText) in pages.unsubscribe;
        preferences_url: apart(RawText) in pages.preferences;
        trusted_proxies: each(parse_network) in trusted_proxies.0, shown unless_empty(text_list(&gateway.trusted_proxies.0));
        metrics_listen: listener(metrics_tls, has_proxy: false);
        metrics_tls: raw(RawText);
        api_listen: listener(api_tls, has_proxy: false), shown None;
        api_tls: raw(RawText);
        body_mebibytes: number(body_bytes) in body_bytes, shown gateway.body_bytes.map(|bytes| bytes / MEBIBYTE).show();
        oidc: raw(Option<Spanned<RawOidc>>);
    }
}

table! {
    /// The keys of `[gateway.oidc]`: the issuer whose access tokens the API accepts.
    pub(super) struct RawOidc for trust: IssuerTrust, read() {
        issuer: secret(issuer_url);
        audience: text(|text| parse_id(text, AUDIENCE));
        tenant_claim: text(|text| parse_id(text, "the name of a claim, for example \"tenant\""));
        all_tenants: apart(RawFlag), shown Some(ConfigValue::Flag(trust.all_tenants));
        token_type: text(named_type);
    }
}

#[derive(Clone, Debug)]
pub struct GatewayConfig {
    pub listen: SocketAddr,
    pub pages: RecipientPages,
    /// Proxies from these networks may set `X-Forwarded-For` and `Forwarded`.
    pub trusted_proxies: TrustedProxies,
    pub metrics_listen: Option<SocketAddr>,
    /// `None` if the API is off.
    pub api_listen: Option<SocketAddr>,
    /// For request bodies in progress, per listener. `None` uses a share of the memory limit.
    pub body_bytes: Option<usize>,
    pub oidc: Option<IssuerTrust>,
    place: Option<String>,
    /// Problems to report if there is no key for signing links.
    unsigned: Vec<ConfigProblem>,
}

impl RawGateway {
    pub fn check(&self, checks: &mut Checks<'_>) -> GatewayConfig {
        let mut gateway = GatewayConfig {
            listen: LISTEN,
            pages: RecipientPages::default(),
            trusted_proxies: TrustedProxies::default(),
            metrics_listen: None,
            api_listen: None,
            body_bytes: None,
            oidc: None,
            place: self.listen.as_ref().map(|value| checks.place_of(value)),
            unsigned: self.unsigned(checks),
        };
        self.read("gateway", &mut gateway, checks);
        let (unsubscribe, preferences) = (self.unsubscribe_url.as_ref(), self.preferences_url.as_ref());
        gateway.pages.unsubscribe = checks.text("gateway.unsubscribe_url", unsubscribe, unsubscribe_url);
        gateway.pages.preferences = checks.text("gateway.preferences_url", preferences, page_url);
        gateway.oidc = self.oidc.as_ref().map(|raw| check_issuer(raw, checks));
        gateway
    }

    fn unsigned(&self, checks: &Checks<'_>) -> Vec<ConfigProblem> {
        let urls = [
            ("gateway.public_url", &self.public_url),
            ("gateway.unsubscribe_url", &self.unsubscribe_url),
            ("gateway.preferences_url", &self.preferences_url),
        ];
        let fault = format!("needs a key that signs its links; set {VARIABLE} to what `tidings keys new` prints");
        let problem = |(key, url): (&str, &Option<Spanned<String>>)| {
            let url = url.as_ref()?;
            Some(ConfigProblem::new(checks.place_of(url), key, fault.as_str()).with_value(url.as_ref()))
        };
        urls.into_iter().filter_map(problem).collect()
    }
}

impl GatewayConfig {
    pub(super) fn listen_on_this_machine(&mut self, listen: SocketAddr, api: SocketAddr, public_url: String) {
        self.listen = listen;
        self.api_listen = Some(api);
        self.metrics_listen = None;
        self.pages.public_url = Some(public_url);
    }

    /// Without keys we cannot sign links, so each configured URL is a problem.
    pub(super) fn key_problems(&self, has_keys: bool) -> Vec<ConfigProblem> {
        if has_keys { Vec::new() } else { self.unsigned.clone() }
    }

    /// Reports a missing `public_url` if anything else is configured. The team's own pages do not need it.
    pub(super) fn address_problem(&self) -> Option<ConfigProblem> {
        let listens = self.metrics_listen.is_some() || self.api_listen.is_some() || self.oidc.is_some();
        let serves = self.place.is_some() || !self.trusted_proxies.0.is_empty() || listens;
        (serves && self.pages.public_url.is_none()).then(|| self.missing_address())
    }

    /// Warns if no proxy is trusted: all recipients behind it would count as one client and share its limits.
    pub(super) fn proxy_warning(&self) -> Option<ConfigProblem> {
        let public_url = self.pages.public_url.as_ref().filter(|url| url.starts_with("https:"))?;
        self.trusted_proxies.0.is_empty().then(|| {
            let problem = format!(
                "is empty, but a proxy serves {public_url}: all recipients count as one client and share its rate limit; write the \
                 proxy's network, for example [\"127.0.0.1\"]"
            );
            self.problem("gateway.trusted_proxies", problem)
        })
    }

    pub(crate) fn show(&self) -> Option<ConfigTable> {
        if self.address_problem().is_none() && self.pages == RecipientPages::default() {
            return None;
        }
        let mut shown = self.to_table();
        shown.insert_value("api_listen", self.api_listen.show());
        shown.insert_table("oidc", self.oidc.as_ref().map(ToTable::to_table));
        Some(shown)
    }

    pub(crate) fn missing_address(&self) -> ConfigProblem {
        let right =
            "write the address under which recipients reach the gateway, for example \"https://mail.acme.example\"";
        self.problem("gateway.public_url", format!("is missing; {right}"))
    }

    fn problem(&self, key: &str, problem: String) -> ConfigProblem {
        ConfigProblem::new(self.place.as_deref().unwrap_or("default"), key, problem)
    }
}

fn check_issuer(raw: &Spanned<RawOidc>, checks: &mut Checks<'_>) -> IssuerTrust {
    let keys = raw.as_ref();
    for (key, value, right) in [("issuer", &keys.issuer, ISSUER), ("audience", &keys.audience, AUDIENCE)] {
        if value.is_none() {
            checks.report_at(raw, format!("gateway.oidc.{key}"), format!("is missing; write {right}"));
        }
    }
    let (issuer, audience) = (String::new(), String::new());
    let (tenant_claim, token_type) = (TENANT_CLAIM.to_owned(), TokenType::default());
    let all_tenants = keys.all_tenants.as_ref().is_some_and(|all| *all.as_ref());
    let mut trust = IssuerTrust { issuer, audience, tenant_claim, all_tenants, token_type };
    keys.read("gateway.oidc", &mut trust, checks);
    trust
}

/// Parses the address for links. Requires https except on this machine, because the links carry tokens.
fn public_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://mail.acme.example\"";
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("has a user or password, which every recipient would see; {right}"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("has a query or fragment, but the links append their path to the address; {right}"));
    }
    secure(&url).map_err(|fault| format!("{fault}; {right}"))?;
    short(url.as_str().trim_end_matches('/'))
}

/// Requires a `{token}`. Without it, anybody could unsubscribe anybody.
fn unsubscribe_url(text: &str) -> Result<PageUrl, String> {
    let page = page_url(text)?;
    if page.has_token() {
        return Ok(page);
    }
    let right = "write for example \"https://app.acme.example/unsubscribe?token={token}\"";
    Err(format!("has no {{token}}, without which anybody could unsubscribe anybody; {right}"))
}

/// Parses a URL with placeholders, e.g. `https://app.acme.example/mail?user={user}&token={token}`.
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

fn secure(url: &Url) -> Result<(), String> {
    match url.scheme() {
        "https" => Ok(()),
        "http" if url.host_str().is_some_and(is_loopback) => Ok(()),
        "http" => Err("is not https, so anyone on the network path could read the links".to_owned()),
        other => Err(format!("{other:?} is not https")),
    }
}

fn short(url: &str) -> Result<String, String> {
    if url.len() <= URL_CHARS {
        return Ok(url.to_owned());
    }
    Err(format!("has {} characters, the limit is {URL_CHARS}", url.len()))
}

fn body_bytes(text: &str) -> Result<usize, String> {
    let least = LEAST_BODY_BYTES / MEBIBYTE;
    let mebibytes = text.parse().ok().filter(|mebibytes| *mebibytes >= least);
    let bytes = mebibytes.and_then(|mebibytes: usize| mebibytes.checked_mul(MEBIBYTE));
    bytes.ok_or_else(|| format!("write a whole number from {least}: the longest message needs that much"))
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let single = || Some(IpNet::from(text.parse::<IpAddr>().ok()?));
    let wrong = "is not a network; write for example \"10.0.0.0/8\" or \"127.0.0.1\"";
    text.parse().ok().or_else(single).ok_or_else(|| wrong.to_owned())
}

fn named_type(text: &str) -> Result<TokenType, String> {
    TokenType::from_name(text).ok_or_else(|| "is not a type of tokens; write \"at+jwt\" or \"JWT\"".to_owned())
}

/// Checks the URL but returns the text unchanged, because `iss` will be compared with it.
fn issuer_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); write {ISSUER}"))?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(format!("has a user, password, query or fragment; write {ISSUER}"));
    }
    match url.scheme() {
        "https" => parse_id(text, ISSUER),
        "http" if url.host_str().is_some_and(is_loopback) => parse_id(text, ISSUER),
        _ => Err(format!("is not https, so anyone on the network path could replace the keys; write {ISSUER}")),
    }
}

fn parse_id(text: &str, right: &str) -> Result<String, String> {
    limits::check_id("", text).map_err(|invalid| format!("{}; write {right}", invalid.problem))?;
    Ok(text.to_owned())
}
