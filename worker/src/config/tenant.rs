//! Settings of a tenant: `[tenant.NAME]` over the general tables.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidings_model::{
    Key,
    cadence::DayRange,
    settings::{Brand, DigestSettings, TenantSettings},
};
use toml::Spanned;

use super::{
    brand,
    digest::{self, RawDigest},
    former,
    layer::{Layer, Layers},
    list::SpannedList,
    mail::RawMail,
    origin::{Origin, Origins},
    problem::{Checks, Problem},
    stream::{KnownRelays, RawStreams, Streams},
    suggest::did_you_mean,
};

/// The tables `[digest.NAME]`, by name.
pub(super) type RawDigests = BTreeMap<String, Spanned<RawDigest>>;

/// The keys of `[tenant.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTenant {
    was: Option<SpannedList>,
    zone: Option<Spanned<String>>,
    weekdays: Option<Spanned<String>>,
    quiet: Option<SpannedList>,
    name: Option<Spanned<String>>,
    logo_url: Option<Spanned<String>>,
    colour: Option<Spanned<String>>,
    address_line: Option<Spanned<String>>,
    locale: Option<Spanned<String>>,
    #[serde(default)]
    mail: RawMail,
    #[serde(default)]
    stream: RawStreams,
    #[serde(default)]
    digest: RawDigests,
}

/// The general tables, which those of a tenant override.
pub(super) struct General<'a> {
    pub digests: &'a RawDigests,
    pub mail: Layer<'a>,
    pub streams: &'a RawStreams,
    pub relays: &'a KnownRelays,
}

/// The settings in force for a tenant. Its DKIM keys are not read yet.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The digest types that differ from the general ones.
    pub digests: BTreeMap<String, DigestSettings>,
    pub brand: Brand,
    /// Both streams, complete.
    pub streams: Streams,
    /// The keys that the brand comes from.
    pub brand_origins: Origins,
    /// The keys that the settings of each digest type come from.
    pub digest_origins: BTreeMap<String, Origins>,
}

impl Tenant {
    /// Returns the settings for the activities.
    #[must_use]
    pub fn settings(&self) -> TenantSettings {
        let (digests, brand) = (self.digests.clone(), self.brand.clone());
        TenantSettings { digests, brand, streams: self.streams.settings() }
    }
}

impl RawTenant {
    /// The names that the tenant had before.
    pub const fn was(&self) -> Option<&SpannedList> {
        self.was.as_ref()
    }

    /// The tables `[tenant.NAME.digest.TYPE]`.
    pub fn digests(&self) -> &RawDigests {
        &self.digest
    }

    /// Checks the tenant's tables; `None` if a required value was wrong.
    pub fn check(&self, tenant: &str, general: &General<'_>, checks: &mut Checks<'_>) -> Option<Tenant> {
        let digests = self.checked_digests(tenant, general.digests, checks);
        let digest_origins = general.digests.iter().map(|(name, raw)| {
            let everywhere = self.everywhere().origins(&format!("tenant.{tenant}"), checks);
            let own = self
                .digest
                .get(name)
                .map(|own| own.as_ref().origins(&format!("tenant.{tenant}.digest.{name}"), checks));
            let general = raw.as_ref().origins(&format!("digest.{name}"), checks);
            (name.clone(), general.into_iter().chain(everywhere).chain(own.unwrap_or_default()).collect())
        });
        let digest_origins = digest_origins.collect();
        let streams = self.streams(tenant, general, checks);
        let (brand, brand_origins) = self.brand(tenant, streams.as_ref(), checks);
        Some(Tenant { digests, brand, streams: streams?, brand_origins, digest_origins })
    }

    /// Checks both streams. The tenant's tables of mail override the general ones of streams.
    fn streams(&self, tenant: &str, general: &General<'_>, checks: &mut Checks<'_>) -> Option<Streams> {
        let mail = Layer::mail(&format!("tenant.{tenant}.mail"), &self.mail, None);
        // First without the streams' own tables, so that no mistake hides behind one of them.
        Layers::new([mail.clone(), general.mail.clone()]).sender(checks)?;
        let [bulk, transactional] = self.stream.layers(&format!("tenant.{tenant}."));
        let [usual_bulk, usual_transactional] = general.streams.layers("");
        let bulk = Layers::new([bulk, mail.clone(), usual_bulk, general.mail.clone()]);
        let transactional = Layers::new([transactional, mail, usual_transactional, general.mail.clone()]);
        Streams::check(bulk, transactional, general.relays, checks)
    }

    /// Checks how the tenant's messages and pages look. A picture without a name has that of the sender.
    fn brand(&self, tenant: &str, streams: Option<&Streams>, checks: &mut Checks<'_>) -> (Brand, Origins) {
        let key = |key: &str| format!("tenant.{tenant}.{key}");
        let mut brand = Brand {
            name: checks.value(&key("name"), self.name.as_ref(), brand::name),
            logo_url: checks.value(&key("logo_url"), self.logo_url.as_ref(), brand::logo_url),
            colour: checks.value(&key("colour"), self.colour.as_ref(), brand::colour),
            address_line: checks.value(&key("address_line"), self.address_line.as_ref(), brand::sentence),
            locale: checks.value(&key("locale"), self.locale.as_ref(), brand::locale),
        };
        let named = [
            ("name", &self.name),
            ("logo_url", &self.logo_url),
            ("colour", &self.colour),
            ("address_line", &self.address_line),
            ("locale", &self.locale),
        ];
        let origin = |(name, raw): (&str, &Option<Spanned<String>>)| {
            Some((name.to_owned(), Origin::new(&key(name), raw.as_ref()?, checks)))
        };
        let mut origins: Origins = named.into_iter().filter_map(origin).collect();
        if let (Some(logo), None, Some(Streams { bulk, .. })) = (&self.logo_url, &self.name, streams) {
            let sender = Spanned::new(logo.span(), bulk.settings.sender.name.clone());
            brand.name = checks.value(&key("name"), Some(&sender), |name| match name {
                "" => {
                    Err("is missing, and programs that show no pictures show the name instead of the logo".to_owned())
                }
                name => Ok(name.to_owned()),
            });
            origins.extend(bulk.origins.get("from").map(|from| ("name".to_owned(), from.clone())));
        }
        (brand, origins)
    }

    /// The keys for all digest types of the tenant.
    fn everywhere(&self) -> RawDigest {
        RawDigest::everywhere(self.zone.clone(), self.weekdays.clone(), self.quiet.clone())
    }

    /// Checks the tenant's digest types and returns those that differ from the general ones.
    fn checked_digests(
        &self,
        tenant: &str,
        general: &RawDigests,
        checks: &mut Checks<'_>,
    ) -> BTreeMap<String, DigestSettings> {
        let table = format!("tenant.{tenant}");
        // These come first, so that their problems are reported under their own keys.
        checks.value(&format!("{table}.zone"), self.zone.as_ref(), tidings_model::zone);
        checks.value(&format!("{table}.weekdays"), self.weekdays.as_ref(), str::parse::<DayRange>);
        if let Some(quiet) = &self.quiet {
            digest::quiet(&format!("{table}.quiet"), quiet, checks);
        }
        for (name, raw) in &self.digest {
            let was = raw.as_ref().was();
            former::refuse(&format!("{table}.digest.{name}"), was, &format!("[digest.{name}]"), checks);
        }
        for (name, raw) in self.digest.iter().filter(|(name, _)| !general.contains_key(*name)) {
            report_unknown(&format!("{table}.digest.{name}"), name, raw, general, checks);
        }
        let everywhere = self.everywhere();
        let is_everywhere = self.zone.is_some() || self.weekdays.is_some() || self.quiet.is_some();
        let differs = |name: &&String| is_everywhere || self.digest.contains_key(*name);
        let own = general.keys().filter(differs).filter_map(|name| {
            let own = self.digest.get(name).map(|raw| raw.as_ref().clone()).unwrap_or_default();
            let raw = own.over(&everywhere.clone().over(general.get(name)?.as_ref()));
            Some((name.clone(), raw.check(&format!("{table}.digest.{name}"), name, checks)))
        });
        own.collect()
    }
}

/// Checks the tables of all tenants.
pub(super) fn check(
    tenants: &BTreeMap<String, Spanned<RawTenant>>,
    general: &General<'_>,
    checks: &mut Checks<'_>,
) -> Option<BTreeMap<String, Tenant>> {
    let checked = tenants.iter().map(|(name, raw)| {
        checks.report_star("tenant", name, checks.place_of(raw), "the general tables are those of every tenant");
        if let Err(invalid) = Key::new(name.clone(), "t".to_owned(), "u".to_owned()) {
            checks.report(Problem {
                place: checks.place_of(raw),
                key: format!("tenant.{}", name.escape_debug()),
                value: String::new(),
                problem: format!("is no tenant of an event: {}; rename the table", invalid.problem),
            });
        }
        Some((name.clone(), raw.as_ref().check(name, general, checks)?))
    });
    // `collect` comes last, so that every tenant is checked even after a wrong one.
    checked.collect::<Vec<_>>().into_iter().collect()
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
