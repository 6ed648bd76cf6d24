//! `tidings config check --tenant`: a tenant's effective settings and their origins.

use std::{collections::BTreeMap, fmt};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Config,
    config::{self, ConfigTable, SettingOrigin, SettingOrigins, StreamConfig, TenantConfig, ToTable as _},
    error::UsageError,
};

/// Tables with an origin per entry.
const TABLES: [&str; 3] = ["delay", "categories", "category"];

#[derive(Serialize)]
pub(super) struct TenantSettingsView<'a> {
    tenant: &'a str,
    brand: SettingsByName,
    stream: BTreeMap<&'static str, SettingsByName>,
    digest: BTreeMap<&'a str, SettingsByName>,
}

type SettingsByName = BTreeMap<String, EffectiveSetting>;

/// Without an origin, this is a default.
#[derive(Serialize)]
struct EffectiveSetting {
    value: Value,
    #[serde(flatten)]
    origin: Option<SettingOrigin>,
}

impl<'a> TenantSettingsView<'a> {
    /// Collects a tenant's settings.
    ///
    /// # Errors
    /// [`UsageError`] if the tenant has no table. Also fails if a DKIM key cannot be read.
    pub fn new(config: &'a Config, name: &str) -> anyhow::Result<Self> {
        let found = config.tenant(name).map_err(|problem| UsageError(format!("--tenant {name:?}: {problem}")));
        let (name, tenant) = found?;
        let TenantConfig { brand_origins, streams, digest_origins, .. } = tenant;
        let digest = config.digests.iter().map(|(name, general)| {
            let digest = tenant.digests.get(name).unwrap_or(general);
            let origins = digest_origins.get(name).context("a digest type lacks its origins")?;
            anyhow::Ok((name.as_str(), flatten_table(&config::show_digest(digest), origins)?))
        });
        Ok(Self {
            tenant: name,
            brand: flatten_table(&tenant.brand.to_table(), brand_origins)?,
            stream: [("bulk", of_stream(&streams.bulk)?), ("transactional", of_stream(&streams.transactional)?)].into(),
            digest: digest.collect::<anyhow::Result<_>>()?,
        })
    }
}

fn of_stream(stream: &StreamConfig) -> anyhow::Result<SettingsByName> {
    let mut shown = stream.to_table();
    if let Some(signing) = &stream.dkim {
        let key = signing.signer().map_err(|problem| config::ConfigError::Wrong(vec![problem]))?;
        shown.insert_table("dkim", Some(signing.show(&key)));
    }
    flatten_table(&shown, &stream.origins)
}

/// Flattens nested tables into names such as `delay.CATEGORY`.
fn flatten_table(table: &ConfigTable, origins: &SettingOrigins) -> anyhow::Result<SettingsByName> {
    let Value::Object(table) = serde_json::to_value(table)? else { return Ok(SettingsByName::new()) };
    let entries = table.into_iter().flat_map(|(name, value)| match value {
        Value::Object(inner) if TABLES.contains(&name.as_str()) => {
            inner.into_iter().map(|(entry, value)| (format!("{name}.{entry}"), value)).collect()
        }
        value => vec![(name, value)],
    });
    Ok(entries
        .map(|(name, value)| (name.clone(), EffectiveSetting { value, origin: origins.get(&name).cloned() }))
        .collect())
}

/// Prints TOML with origins as comments.
impl fmt::Display for TenantSettingsView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tenant, brand, stream, digest } = self;
        writeln!(f, "# Effective settings of tenant {tenant:?}. Each comment names the key that a setting is from.")?;
        let streams = stream.iter().map(|(name, section)| (format!("stream.{name}"), section));
        let digests = digest.iter().map(|(name, section)| (format!("digest.{name}"), section));
        let sections = [("brand".to_owned(), brand)].into_iter().chain(streams).chain(digests);
        for (title, section) in sections.filter(|(_, section)| !section.is_empty()) {
            write!(f, "\n[{title}]\n")?;
            for (name, EffectiveSetting { value, origin }) in section {
                let value = toml::Value::try_from(value).map_err(|_| fmt::Error)?;
                match origin {
                    Some(SettingOrigin { key, place }) => writeln!(f, "{name} = {value}  # {key}, {place}")?,
                    None => writeln!(f, "{name} = {value}  # default")?,
                }
            }
        }
        Ok(())
    }
}
