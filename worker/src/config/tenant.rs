//! Digest types of a tenant: `[tenant.NAME]` over `[digest.NAME]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidings_model::settings::{Brand, DigestSettings};
use toml::Spanned;

use super::{
    brand,
    digest::{self, RawDigest},
    list::SpannedList,
    problem::{Checks, Problem},
    suggest::did_you_mean,
};

/// The tables `[digest.NAME]`, by name.
pub(super) type RawDigests = BTreeMap<String, Spanned<RawDigest>>;

/// The keys of `[tenant.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTenant {
    zone: Option<Spanned<String>>,
    quiet: Option<SpannedList>,
    name: Option<Spanned<String>>,
    logo_url: Option<Spanned<String>>,
    colour: Option<Spanned<String>>,
    locale: Option<Spanned<String>>,
    #[serde(default)]
    digest: RawDigests,
}

impl RawTenant {
    /// Checks how the tenant's pages look.
    pub fn brand(&self, tenant: &str, checks: &mut Checks<'_>) -> Brand {
        let key = |key: &str| format!("tenant.{tenant}.{key}");
        Brand {
            name: checks.value(&key("name"), self.name.as_ref(), brand::name),
            logo_url: checks.value(&key("logo_url"), self.logo_url.as_ref(), brand::logo_url),
            colour: checks.value(&key("colour"), self.colour.as_ref(), brand::colour),
            locale: checks.value(&key("locale"), self.locale.as_ref(), brand::locale),
        }
    }

    /// The tables `[tenant.NAME.digest.TYPE]`.
    pub fn digests(&self) -> &RawDigests {
        &self.digest
    }

    /// Checks the tenant's digest types and returns those that differ from the general ones.
    pub fn check(
        &self,
        tenant: &str,
        general: &RawDigests,
        checks: &mut Checks<'_>,
    ) -> Option<BTreeMap<String, DigestSettings>> {
        let table = format!("tenant.{tenant}");
        // These two come first, so that their problems are reported under their own keys.
        checks.value(&format!("{table}.zone"), self.zone.as_ref(), tidings_model::zone);
        if let Some(quiet) = &self.quiet {
            digest::quiet(&format!("{table}.quiet"), quiet, checks);
        }
        for (name, raw) in self.digest.iter().filter(|(name, _)| !general.contains_key(*name)) {
            report_unknown(&format!("{table}.digest.{name}"), name, raw, general, checks);
        }
        let everywhere = RawDigest::everywhere(self.zone.clone(), self.quiet.clone());
        let differs = |name: &&String| self.zone.is_some() || self.quiet.is_some() || self.digest.contains_key(*name);
        let own = general.keys().filter(differs).filter_map(|name| {
            let own = self.digest.get(name).map(|raw| raw.as_ref().clone()).unwrap_or_default();
            let raw = own.over(&everywhere.clone().over(general.get(name)?.as_ref()));
            Some((name, raw))
        });
        let own =
            own.map(|(name, raw)| Some((name.clone(), raw.check(&format!("{table}.digest.{name}"), name, checks)?)));
        own.collect::<Vec<_>>().into_iter().collect()
    }
}

/// Reports a tenant's digest type that has no general one. Only a misspelling explains such a name.
fn report_unknown(table: &str, name: &str, raw: &Spanned<RawDigest>, general: &RawDigests, checks: &mut Checks<'_>) {
    let meant = did_you_mean(name, general.keys().map(String::as_str));
    checks.report(Problem {
        place: checks.place_of(raw),
        key: table.to_owned(),
        value: String::new(),
        problem: format!("there is no [digest.{name}] to override{meant}"),
    });
}
