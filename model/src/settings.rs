//! Settings as plain data. The crate `tidings` reads them from `tidings.toml` and the environment.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use uuid::Uuid;

use crate::{
    AsBeforeLink, Cadence, Key, PreferencesLink, QuietHours, UnsubscribeLink, ViewLink,
    cadence::DayRange,
    foreign_text::printable_name,
    limits::InvalidField,
    link_keys::{LinkKeys, TokenPurpose},
    nearest_name,
    offered_cadences::OfferedCadences,
};

mod brand;
mod category;
mod former;
pub(crate) mod frequency;
mod pages;
mod retry_delays;
mod service;
pub(crate) mod streams;
mod tenant;
mod track;

pub use brand::{BrandColour, NotAColour, TenantBrand};
pub use category::{CategorySettings, DigestCategories, SectionHeading};
pub use former::FormerNames;
pub use frequency::{DigestCap, FrequencyLimits, OverLimit};
pub use pages::{PageUrl, RecipientLinks, RecipientPages, UnknownPlaceholder};
pub use retry_delays::RETRY_DELAYS;
pub use service::{DirectoryUrl, SeenService, ServiceUrl};
pub use streams::{
    DeliveryGuarantee, DeliveryStreams, MessageRate, RateUnit, RelaySettings, ReturnPath, SenderIdentity, StreamName,
    StreamSettings,
};
pub use tenant::{TenantSettings, TenantStream};
pub use track::{TrackedAction, TrackingSettings};

/// The bulk stream's rate is divided between its single messages and digests, because they have separate task
/// queues and the server limits each by itself.
const BULK_MESSAGES: f64 = 0.25;

#[derive(Clone, Debug)]
pub struct Settings {
    pub digests: BTreeMap<String, DigestSettings>,
    pub tenants: BTreeMap<String, TenantSettings>,
    pub names: FormerNames,
    /// Limits a recipient's digests across all types (rule 13).
    pub cap: Option<DigestCap>,
    pub on_cap: OverLimit,
    /// Suppress an address after this many consecutive soft bounces.
    pub soft_bounces: u32,
    pub relays: BTreeMap<String, RelaySettings>,
    /// By relay: other names its webhook also reports about, i.e. former names and relays of the same
    /// account.
    pub reports_for: BTreeMap<String, Vec<String>>,
    pub relays_were: BTreeMap<String, Vec<String>>,
    pub streams: DeliveryStreams,
    pub pages: RecipientPages,
    pub link_keys: Option<LinkKeys>,
    pub unknown_recipients: UnknownRecipients,
}

impl Settings {
    #[must_use]
    pub fn new(streams: DeliveryStreams) -> Self {
        Self {
            digests: BTreeMap::new(),
            tenants: BTreeMap::new(),
            names: FormerNames::default(),
            cap: None,
            on_cap: OverLimit::default(),
            soft_bounces: Self::SOFT_BOUNCES,
            relays: BTreeMap::new(),
            reports_for: BTreeMap::new(),
            relays_were: BTreeMap::new(),
            streams,
            pages: RecipientPages::default(),
            link_keys: None,
            unknown_recipients: UnknownRecipients::Wait,
        }
    }

    /// All links are `None` without link keys. With the same keys, a message always gets the same links.
    /// `user` may be empty.
    #[must_use]
    pub fn recipient_links(&self, link: &UnsubscribeLink, user: &str, stream: StreamName) -> RecipientLinks {
        let Some(keys) = &self.link_keys else { return RecipientLinks::default() };
        let Some(token) = link.token(keys) else { return RecipientLinks::default() };
        let RecipientPages { public_url, unsubscribe, preferences } = &self.pages;
        let own = unsubscribe.as_ref().map(|page| page.fill_placeholders(link, user, &token));
        let ours = || Some(format!("{}/u/{token}", public_url.as_ref()?));
        let unsubscribe_url = own.or_else(ours).filter(|url| url.len() <= pages::HEADER_CHARS);
        let TenantStream { stream, .. } = self.for_tenant(link.tenant(), stream);
        let return_path = stream.return_path.as_ref().filter(|_| unsubscribe_url.is_some());
        let unsubscribe_mailto = return_path.map(|path| {
            let token = keys.sign(TokenPurpose::Leave, link.tenant(), link.message());
            format!("mailto:{}+{token}@{}?subject=unsubscribe", path.local, path.domain)
        });
        let preferences_url = match link {
            UnsubscribeLink::Unsubscribe { key, message, generation } => {
                let own = preferences.as_ref().map(|page| page.fill_placeholders(link, user, &token));
                let page = PreferencesLink { key: key.clone(), message: *message, generation: *generation };
                own.or_else(|| Some(format!("{}/p/{}", public_url.as_ref()?, page.token(keys)?)))
            }
            UnsubscribeLink::Suppress { .. } => None,
        };
        let view = ViewLink { tenant: link.tenant().to_owned(), message: link.message() };
        let view_url = public_url.as_ref().and_then(|url| Some(format!("{url}/v/{}", view.token(keys)?)));
        RecipientLinks { unsubscribe_url, unsubscribe_mailto, preferences_url, view_url }
    }

    /// The page for pinning the digest type's cadence. `None` without link keys or a gateway URL.
    #[must_use]
    pub fn as_before_url(&self, link: &AsBeforeLink) -> Option<String> {
        let (keys, url) = (self.link_keys.as_ref()?, self.pages.public_url.as_ref()?);
        Some(format!("{url}/b/{}", link.token(keys)?))
    }

    /// The relay whose webhook now reports about messages sent by `name`: renamed, or with the same account.
    /// For circuit breakers use [`RelaysToday`](crate::RelaysToday).
    #[must_use]
    pub fn relay_today<'a>(&'a self, name: &'a str) -> &'a str {
        if self.relays.contains_key(name) || self.reports_for.contains_key(name) {
            return name;
        }
        let renamed = self.reports_for.iter().find(|(_, names)| names.iter().any(|other| other == name));
        renamed.map_or(name, |(today, _)| today)
    }

    pub const SOFT_BOUNCES: u32 = 5;

    /// With the tenant's overrides. Former names are resolved, here and below.
    #[must_use]
    pub fn digest(&self, key: &Key) -> Option<&DigestSettings> {
        let digest_type = self.names.digest_type(&key.digest_type);
        let own = self.tenant(&key.tenant).and_then(|tenant| tenant.digests.get(digest_type));
        own.or_else(|| self.digests.get(digest_type))
    }

    /// Rejects a digest type not configured for the tenant; accepts any if this process has none.
    ///
    /// # Errors
    /// Suggests the closest configured type, if any.
    pub fn check_digest(&self, key: &Key) -> Result<(), InvalidField> {
        let is_thin = self.digests.is_empty() && self.tenants.values().all(|tenant| tenant.digests.is_empty());
        if is_thin || self.digest(key).is_some() {
            return Ok(());
        }
        let known = self.digest_types(&key.tenant);
        let remedy = match nearest_name(&key.digest_type, known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "correct it, or add its table to the configuration of gateways and workers".to_owned(),
        };
        Err(InvalidField::new(
            "digest",
            format!("is {}, a digest type that no table has; {remedy}", printable_name(&key.digest_type)),
        ))
    }

    pub fn locales<'a>(&'a self, tenant: &str, own: &'a str) -> impl Iterator<Item = &'a str> {
        let of_tenant = self.tenant(tenant).and_then(|tenant| tenant.brand.locale.as_deref());
        [own].into_iter().chain(of_tenant)
    }

    #[must_use]
    pub fn frequency_limits(&self, digest: &DigestSettings) -> FrequencyLimits {
        FrequencyLimits::new(digest, self.cap, self.on_cap)
    }

    #[must_use]
    pub fn digest_types(&self, tenant: &str) -> BTreeSet<String> {
        let own = self.tenant(tenant).into_iter().flat_map(|tenant| tenant.digests.keys());
        self.digests.keys().chain(own).cloned().collect()
    }

    #[must_use]
    pub fn longest_linger(&self) -> Duration {
        let digests = self.digests.values().chain(self.tenants.values().flat_map(|tenant| tenant.digests.values()));
        digests.filter_map(|digest| digest.keep_open).max().unwrap_or_default()
    }

    /// Attempts per second for the stream's task queues, over all workers: the lowest rate of its relays,
    /// including tenants' own. `None` for no limit.
    #[must_use]
    pub fn rate(&self, stream: StreamName) -> Option<f64> {
        let names = self.all_streams(stream).flat_map(|(_, stream)| &stream.relays);
        let relays = names.filter_map(|name| self.relays.get(name));
        relays.filter_map(|relay| relay.rate).map(MessageRate::per_second).min_by(f64::total_cmp)
    }

    #[must_use]
    pub fn report_token(&self, tenant: &str, message: Uuid) -> Option<String> {
        self.link_keys.as_ref().map(|keys| keys.sign(TokenPurpose::Report, tenant, message))
    }

    #[must_use]
    pub fn digest_rate(&self) -> Option<f64> {
        self.rate(StreamName::Bulk).map(|rate| rate * (1.0 - BULK_MESSAGES))
    }

    #[must_use]
    pub fn bulk_message_rate(&self) -> Option<f64> {
        self.rate(StreamName::Bulk).map(|rate| rate * BULK_MESSAGES)
    }
}

#[derive(Clone, Debug)]
pub struct DigestSettings {
    pub cadence: Cadence,
    /// By category: maximum wait under an immediate cadence (rule 8).
    pub delay: BTreeMap<String, Duration>,
    /// After a silence of this length, the key's first event is sent immediately (rule 17).
    pub send_first: Option<Duration>,
    /// Minimum time between two digests of a key (rule 13).
    pub throttle: Option<Duration>,
    pub on_throttle: OverLimit,
    pub keep_open: Option<Duration>,
    /// How long a rendered message waits before it is sent, so an operator can cancel it.
    pub undo: Option<Duration>,
    pub adapt: bool,
    pub choices: OfferedCadences,
    pub zone: Option<String>,
    /// For the cadence `weekdays`. `None` to derive them from the recipient's locale.
    pub weekdays: Option<DayRange>,
    /// Spreads digests of the same slot, and those sent after quiet hours, over this time (rule 11).
    pub spread: Option<Duration>,
    /// No message is sent then (rule 12).
    pub quiet: QuietHours,
    pub template: String,
    pub lines_per_message: u32,
    pub items_per_line: u32,
    pub max_events: Option<u32>,
    /// Target of the link "and N more".
    pub more_url: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    /// Categories recipients may turn off, with display names.
    pub categories: BTreeMap<String, String>,
    /// How to order categories, and which events to leave out.
    pub category: DigestCategories,
    /// Current name by former name.
    pub former_categories: BTreeMap<String, String>,
    pub track: TrackingSettings,
    pub seen: Option<SeenService>,
}

impl DigestSettings {
    /// Rule 20.
    pub const DEFAULT_LINES: u32 = 50;
    /// Rule 20.
    pub const DEFAULT_ITEMS: u32 = 3;
    pub const MAX_ITEMS_PER_LINE: u32 = 10;

    #[must_use]
    pub fn new(template: &str, cadence: Cadence) -> Self {
        Self {
            cadence,
            delay: BTreeMap::new(),
            send_first: None,
            throttle: None,
            on_throttle: OverLimit::default(),
            keep_open: None,
            undo: None,
            adapt: false,
            choices: OfferedCadences::default(),
            zone: None,
            weekdays: None,
            spread: None,
            quiet: QuietHours::default(),
            template: template.to_owned(),
            lines_per_message: Self::DEFAULT_LINES,
            items_per_line: Self::DEFAULT_ITEMS,
            max_events: None,
            more_url: None,
            title: None,
            description: None,
            categories: BTreeMap::new(),
            category: DigestCategories::NONE,
            former_categories: BTreeMap::new(),
            track: TrackingSettings::default(),
            seen: None,
        }
    }

    #[must_use]
    pub fn category_today<'a>(&'a self, name: &'a str) -> &'a str {
        self.former_categories.get(name).map_or(name, String::as_str)
    }

    #[must_use]
    pub fn off_today(&self, off: &BTreeSet<String>) -> BTreeSet<String> {
        off.iter().map(|category| self.category_today(category).to_owned()).collect()
    }

    /// Adds all former names to the categories a recipient turned off, because old events may still use them.
    #[must_use]
    pub fn off_under_any_name(&self, off: &BTreeSet<String>) -> BTreeSet<String> {
        let mut all = self.off_today(off);
        let former = self.former_categories.iter().filter(|(_, today)| all.contains(*today));
        let former: Vec<_> = former.map(|(former, _)| former.clone()).collect();
        all.extend(former);
        all
    }

    #[must_use]
    pub const fn display_limits(&self) -> DisplayLimits<'_> {
        DisplayLimits { lines: self.lines_per_message, items: self.items_per_line, categories: &self.category }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRecipients {
    /// Back off and retry, and close the digest as `unknown` after seven days.
    Wait,
    /// For development: send to `USER@dev.invalid`, a reserved domain (RFC 2606).
    Invent,
}

impl FrequencyLimits {
    #[must_use]
    pub fn new(digest: &DigestSettings, cap: Option<DigestCap>, on_cap: OverLimit) -> Self {
        let DigestSettings { cadence, throttle, on_throttle, .. } = digest;
        Self { never: *cadence == Cadence::Never, throttle: *throttle, on_throttle: *on_throttle, cap, on_cap }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct DisplayLimits<'a> {
    pub lines: u32,
    pub items: u32,
    pub categories: &'a DigestCategories,
}

impl DisplayLimits<'_> {
    #[must_use]
    pub fn section(&self, category: &str) -> Option<SectionHeading> {
        self.categories.get(category).section.clone()
    }

    #[must_use]
    pub fn priority(&self, category: &str) -> u32 {
        self.categories.get(category).priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, digest_type: &str) -> Key {
        Key::new(tenant.into(), digest_type.into(), "ann".into()).unwrap()
    }

    #[test]
    fn a_category_that_is_off_is_off_under_each_of_its_names() {
        let off = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let former_categories = BTreeMap::from([("comment".to_owned(), "reply".to_owned())]);
        let settings = DigestSettings { former_categories, ..DigestSettings::new("news", Cadence::Never) };
        for name in ["comment", "reply"] {
            assert_eq!(settings.off_under_any_name(&off(&[name, "like"])), off(&["comment", "like", "reply"]));
            assert_eq!(settings.off_today(&off(&[name, "like"])), off(&["like", "reply"]));
        }
    }

    #[test]
    fn a_digest_type_without_a_table_is_refused_with_the_nearest_name() {
        let sender = SenderIdentity {
            name: String::new(),
            address: "a@b.example".parse().unwrap(),
            reply_to: None,
            domain: "b.example".into(),
        };
        let thin = Settings::new(DeliveryStreams {
            bulk: StreamSettings::new(&[], sender.clone()),
            transactional: StreamSettings::new(&[], sender),
        });
        assert_eq!(thin.check_digest(&key("acme", "anything")), Ok(()), "a producer without tables knows no types");
        let activity = DigestSettings::new("activity", Cadence::Never);
        let settings = Settings { digests: BTreeMap::from([("activity".to_owned(), activity)]), ..thin };
        assert_eq!(settings.check_digest(&key("acme", "activity")), Ok(()));
        for (digest_type, says) in [
            ("activty", "is activty, a digest type that no table has; did you mean activity?"),
            ("never-was", "is never-was, a digest type that no table has; correct it"),
            ("ann@example.net", "is ?, a digest type"),
        ] {
            let InvalidField { field, problem } = settings.check_digest(&key("acme", digest_type)).unwrap_err();
            assert!(field == "digest" && problem.starts_with(says), "{field}: {problem}");
        }
    }
}
