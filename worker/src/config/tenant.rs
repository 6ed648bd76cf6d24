//! Settings for one tenant: `[tenant.NAME]` merged over the general tables.

use std::collections::BTreeMap;

use tidings_model::{
    Key,
    cadence::DayRange,
    settings::{BrandColour, DigestSettings, NotAColour, TenantBrand, TenantSettings},
};
use toml::Spanned;
use url::Url;

use super::{
    checks::{Checks, name, sentence},
    digest::{self, RawDigest},
    former,
    keys::{RawList, RawText, SettingOrigins, TableKeys as _, table},
    problem::did_you_mean,
    stream::{KnownRelays, MergedStream, RawMail, RawStreams, StreamTable, StreamsConfig},
};

pub(super) type RawDigests = BTreeMap<String, Spanned<RawDigest>>;

table! {
    /// The keys of `[tenant.NAME]`.
    pub(super) struct RawTenant for brand: TenantBrand, read() {
        was: apart(RawList), shown None;
        zone: apart(RawText), shown None;
        weekdays: apart(RawText), shown None;
        quiet: apart(RawList), shown None;
        name: text(name);
        logo_url: text(logo_url);
        colour: text(parse_colour);
        address_line: text(sentence);
        locale: text(parse_locale);
        mail: raw(RawMail);
        stream: raw(RawStreams);
        digest: raw(RawDigests);
    }
}

pub(super) struct GeneralTables<'a> {
    pub digests: &'a RawDigests,
    pub mail: StreamTable,
    pub streams: &'a RawStreams,
    pub relays: &'a KnownRelays,
}

/// Settings in force for one tenant. The DKIM keys have not been read yet.
#[derive(Clone, Debug)]
pub struct TenantConfig {
    /// Only digest types that differ from the general ones.
    pub digests: BTreeMap<String, DigestSettings>,
    pub brand: TenantBrand,
    pub streams: StreamsConfig,
    pub brand_origins: SettingOrigins,
    pub digest_origins: BTreeMap<String, SettingOrigins>,
}

impl TenantConfig {
    #[must_use]
    pub fn settings(&self) -> TenantSettings {
        let (digests, brand) = (self.digests.clone(), self.brand.clone());
        TenantSettings { digests, brand, streams: self.streams.settings() }
    }
}

impl RawTenant {
    pub fn check(&self, tenant: &str, general: &GeneralTables<'_>, checks: &mut Checks<'_>) -> Option<TenantConfig> {
        let (digests, digest_origins) = self.check_digests(&format!("tenant.{tenant}"), general.digests, checks);
        let streams = self.check_streams(tenant, general, checks);
        let (brand, brand_origins) = self.check_brand(tenant, streams.as_ref(), checks);
        Some(TenantConfig { digests, brand, streams: streams?, brand_origins, digest_origins })
    }

    /// The tenant's `[mail]` also overrides the general `[stream.NAME]`.
    fn check_streams(
        &self,
        tenant: &str,
        general: &GeneralTables<'_>,
        checks: &mut Checks<'_>,
    ) -> Option<StreamsConfig> {
        let prefix = format!("tenant.{tenant}.");
        let mail = StreamTable::for_mail(&prefix, &self.mail);
        MergedStream::new([mail.clone(), general.mail.clone()], checks).sender(checks)?;
        let [usual_bulk, usual_transactional] = general.streams.stream_tables("");
        let [bulk, transactional] = self.stream.stream_tables(&prefix);
        let streams = [
            [bulk, mail.clone(), usual_bulk, general.mail.clone()],
            [transactional, mail, usual_transactional, general.mail.clone()],
        ];
        let streams = streams.map(|tables| MergedStream::new(tables, checks));
        StreamsConfig::check(streams, general.relays, checks)
    }

    /// Checks how messages and pages should look. A logo without a name uses the sender's name.
    fn check_brand(
        &self,
        tenant: &str,
        streams: Option<&StreamsConfig>,
        checks: &mut Checks<'_>,
    ) -> (TenantBrand, SettingOrigins) {
        let (table, mut brand) = (format!("tenant.{tenant}"), TenantBrand::default());
        self.read(&table, &mut brand, checks);
        let mut origins = self.origins(&table, checks);
        if let (Some(logo), None, Some(StreamsConfig { bulk, .. })) = (&self.logo_url, &self.name, streams) {
            let sender = Spanned::new(logo.span(), bulk.settings.sender.name.clone());
            brand.name = checks.text(&format!("{table}.name"), Some(&sender), |name| match name {
                "" => {
                    Err("is missing, and programs that show no pictures show the name instead of the logo".to_owned())
                }
                name => Ok(name.to_owned()),
            });
            origins.extend(bulk.origins.get("from").map(|from| ("name".to_owned(), from.clone())));
        }
        (brand, origins)
    }

    fn check_digests(
        &self,
        table: &str,
        general: &RawDigests,
        checks: &mut Checks<'_>,
    ) -> (BTreeMap<String, DigestSettings>, BTreeMap<String, SettingOrigins>) {
        checks.text(&format!("{table}.zone"), self.zone.as_ref(), tidings_model::check_zone);
        checks.text(&format!("{table}.weekdays"), self.weekdays.as_ref(), str::parse::<DayRange>);
        checks.list(&format!("{table}.quiet"), self.quiet.as_ref(), digest::parse_quiet);
        for (name, raw) in &self.digest {
            let was = raw.as_ref().was.as_ref();
            former::refuse(&format!("{table}.digest.{name}"), was, &format!("[digest.{name}]"), checks);
        }
        for (name, raw) in self.digest.iter().filter(|(name, _)| !general.contains_key(*name)) {
            let meant = did_you_mean(name, general.keys().map(String::as_str));
            let problem = format!("there is no [digest.{name}] to override{meant}");
            checks.report_at(raw, format!("{table}.digest.{name}"), problem);
        }
        let (zone, weekdays, quiet) = (self.zone.clone(), self.weekdays.clone(), self.quiet.clone());
        let is_everywhere = zone.is_some() || weekdays.is_some() || quiet.is_some();
        let everywhere = RawDigest { zone, weekdays, quiet, ..RawDigest::default() };
        let (mut digests, mut all_origins) = (BTreeMap::new(), BTreeMap::new());
        for (name, usual) in general {
            let mut origins = usual.as_ref().origins(&format!("digest.{name}"), checks);
            origins.extend(everywhere.origins(table, checks));
            let mut raw = everywhere.clone().over(usual.as_ref());
            let (own_table, own) = (format!("{table}.digest.{name}"), self.digest.get(name));
            if let Some(own) = own {
                origins.extend(own.as_ref().origins(&own_table, checks));
                raw = own.as_ref().clone().over(&raw);
            }
            if is_everywhere || own.is_some() {
                digests.insert(name.clone(), raw.check(&own_table, name, checks));
            }
            all_origins.insert(name.clone(), origins);
        }
        (digests, all_origins)
    }
}

pub(super) fn check_tenants(
    tenants: &BTreeMap<String, Spanned<RawTenant>>,
    general: &GeneralTables<'_>,
    checks: &mut Checks<'_>,
) -> Option<BTreeMap<String, TenantConfig>> {
    let checked = tenants.iter().map(|(name, raw)| {
        checks.report_star("tenant", name, checks.place_of(raw), "the general tables apply to every tenant");
        if let Err(invalid) = Key::new(name.clone(), "t".to_owned(), "u".to_owned()) {
            let problem = format!("is not a valid tenant: {}; rename the table", invalid.problem);
            checks.report_at(raw, format!("tenant.{}", name.escape_debug()), problem);
        }
        Some((name.clone(), raw.as_ref().check(name, general, checks)?))
    });
    // Collect in two steps, so every tenant is checked even if an earlier one is wrong.
    checked.collect::<Vec<_>>().into_iter().collect()
}

/// Pages only allow pictures from this URL's origin.
fn logo_url(text: &str) -> Result<String, String> {
    let right = "write for example \"https://acme.example/logo.png\"";
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}); {right}"))?;
    if url.scheme() != "https" {
        return Err(format!("{:?} is not https, which pages need; {right}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("has a user or password, which every recipient would see; {right}"));
    }
    Ok(url.to_string())
}

/// Buttons use this colour, and their white text must be readable.
fn parse_colour(text: &str) -> Result<BrandColour, String> {
    let colour: BrandColour = text.parse().map_err(|error: NotAColour| error.to_string())?;
    let contrast = colour.contrast_with_white();
    if contrast < BrandColour::LEAST_CONTRAST {
        let least = BrandColour::LEAST_CONTRAST;
        return Err(format!(
            "has a contrast of {contrast:.1} to its white text, below the minimum of {least}; write a darker colour"
        ));
    }
    Ok(colour)
}

fn parse_locale(text: &str) -> Result<String, String> {
    let mut parts = text.split('-');
    let is_language = parts.next().is_some_and(|part| (2..=3).contains(&part.len()) && alphabetic(part));
    if is_language && parts.all(|part| (1..=8).contains(&part.len()) && alphanumeric(part)) {
        Ok(text.to_owned())
    } else {
        Err("is not a language tag (BCP 47); write for example \"de\" or \"pt-BR\"".to_owned())
    }
}

fn alphabetic(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn alphanumeric(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
