//! The gateway, as `tidings.toml` would say it.

use std::net::SocketAddr;

use serde::Serialize;
use tidings_gateway::api::Trust;

use crate::config::Gateway;

#[derive(Serialize)]
pub(super) struct GatewayView<'a> {
    listen: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsubscribe_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferences_url: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trusted_proxies: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics_listen: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_mebibytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_listen: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oidc: Option<OidcView<'a>>,
}

#[derive(Serialize)]
struct OidcView<'a> {
    issuer: &'a str,
    audience: &'a str,
    tenant_claim: &'a str,
    all_tenants: bool,
    token_type: &'static str,
}

impl<'a> GatewayView<'a> {
    /// Returns `None` where nothing is configured.
    pub fn new(gateway: &'a Gateway) -> Option<Self> {
        gateway.is_configured().then(|| Self {
            listen: gateway.listen,
            public_url: gateway.pages.public_url.as_deref(),
            unsubscribe_url: gateway.pages.unsubscribe.as_ref().map(ToString::to_string),
            preferences_url: gateway.pages.preferences.as_ref().map(ToString::to_string),
            trusted_proxies: gateway.trusted_proxies.0.iter().map(ToString::to_string).collect(),
            metrics_listen: gateway.metrics_listen,
            body_mebibytes: gateway.body_bytes.map(|bytes| bytes >> 20),
            api_listen: gateway.api_listen,
            oidc: gateway.oidc.as_ref().map(OidcView::new),
        })
    }
}

impl<'a> OidcView<'a> {
    fn new(trust: &'a Trust) -> Self {
        let Trust { issuer, audience, tenant_claim, all_tenants, token_type } = trust;
        Self { issuer, audience, tenant_claim, all_tenants: *all_tenants, token_type: token_type.name() }
    }
}
