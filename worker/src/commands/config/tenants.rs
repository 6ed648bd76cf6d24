//! Tenants with a table of their own, as `tidings.toml` would say them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    digest_views,
    streams::{self, StreamsView},
};
use crate::{
    Config,
    config::{self, Problem, Shown, Table, Tenant},
};

/// The looks of a tenant, its streams where they differ, and all that is in force for its digest types, taken over or not.
#[derive(Serialize)]
pub(super) struct TenantView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    colour: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address_line: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locale: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<StreamsView<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    digest: BTreeMap<&'a str, Table>,
}

/// The tenants, and which of their keys do not serve.
pub(super) fn tenants(config: &Config) -> (BTreeMap<&str, TenantView<'_>>, Vec<Problem>) {
    let mut problems = Vec::new();
    let views = config.tenants.iter().map(|(name, tenant)| {
        let Tenant { brand, digests, streams, .. } = tenant;
        let stream = differs(tenant).then(|| {
            let (view, unsigned) = streams::streams(streams, config);
            problems.extend(unsigned);
            view
        });
        let view = TenantView {
            was: config::was(&config.names.tenants, name),
            name: brand.name.as_deref(),
            logo_url: brand.logo_url.as_deref(),
            colour: brand.colour.map(|colour| colour.to_string()),
            address_line: brand.address_line.as_deref(),
            locale: brand.locale.as_deref(),
            stream,
            digest: digest_views(digests, &config.names.digests),
        };
        (name.as_str(), view)
    });
    (views.collect(), problems)
}

/// Reports if a table of the tenant names a key of its streams.
fn differs(tenant: &Tenant) -> bool {
    let origins = tenant.streams.both().into_iter().flat_map(|stream| stream.origins.values());
    origins.into_iter().any(|origin| origin.key.starts_with("tenant."))
}
