//! A tenant's own table in `tidings.toml`.

use std::collections::BTreeMap;

use super::{DeliveryStreams, DigestSettings, Settings, StreamName, StreamSettings, TenantBrand};

static NO_BRAND: TenantBrand =
    TenantBrand { name: None, logo_url: None, colour: None, address_line: None, locale: None };

/// Where the table has no value, the general one is already filled in.
#[derive(Clone, Debug)]
pub struct TenantSettings {
    pub digests: BTreeMap<String, DigestSettings>,
    pub brand: TenantBrand,
    pub streams: DeliveryStreams,
}

impl TenantSettings {
    #[must_use]
    pub fn new(streams: DeliveryStreams) -> Self {
        Self { digests: BTreeMap::new(), brand: TenantBrand::default(), streams }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TenantStream<'a> {
    pub stream: &'a StreamSettings,
    pub brand: &'a TenantBrand,
}

impl Settings {
    #[must_use]
    pub fn for_tenant(&self, tenant: &str, stream: StreamName) -> TenantStream<'_> {
        match self.tenant(tenant) {
            Some(own) => TenantStream { stream: own.streams.get(stream), brand: &own.brand },
            None => TenantStream { stream: self.streams.get(stream), brand: &NO_BRAND },
        }
    }

    pub(super) fn tenant(&self, name: &str) -> Option<&TenantSettings> {
        self.tenants.get(self.names.tenant(name))
    }

    /// The tenant's current name, if it has its own table. We then count its bounces and complaints
    /// separately.
    #[must_use]
    pub fn with_table(&self, tenant: &str) -> Option<&str> {
        self.tenants.get_key_value(self.names.tenant(tenant)).map(|(name, _)| name.as_str())
    }

    pub fn all_streams(&self, stream: StreamName) -> impl Iterator<Item = (Option<&str>, &StreamSettings)> {
        let own = self.tenants.iter().map(move |(name, tenant)| (Some(name.as_str()), tenant.streams.get(stream)));
        [(None, self.streams.get(stream))].into_iter().chain(own)
    }

    pub fn senders_by(&self, relay: &str) -> impl Iterator<Item = String> {
        let all = [StreamName::Bulk, StreamName::Transactional].into_iter().flat_map(|name| self.all_streams(name));
        let by_it = all.filter(move |(_, stream)| stream.relays.iter().any(|name| name == relay));
        by_it.map(|(_, stream)| stream.envelope_sender())
    }

    pub fn streams_by(&self, relay: &str) -> impl Iterator<Item = StreamName> {
        let uses = move |stream: &StreamSettings| stream.relays.iter().any(|name| name == relay);
        let by_it = move |name: &StreamName| self.all_streams(*name).any(|(_, stream)| uses(stream));
        [StreamName::Bulk, StreamName::Transactional].into_iter().filter(by_it)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::{RelaySettings, SenderIdentity};

    fn streams(domain: &str, relay: &str) -> DeliveryStreams {
        let (name, address) = (domain.to_owned(), format!("digest@{domain}").parse().unwrap());
        let stream =
            StreamSettings::new(&[relay], SenderIdentity { name, address, reply_to: None, domain: domain.to_owned() });
        DeliveryStreams { bulk: stream.clone(), transactional: stream }
    }

    /// Everybody's relay is `ours`; the tenant acme has its own for digests.
    fn settings() -> Settings {
        let DeliveryStreams { bulk, .. } = streams("acme.example", "acme");
        let own = DeliveryStreams { bulk, ..streams("tidings.example", "ours") };
        let brand = TenantBrand { name: Some("Acme".into()), ..TenantBrand::default() };
        let acme = TenantSettings { brand, ..TenantSettings::new(own) };
        let mut settings = Settings::new(streams("tidings.example", "ours"));
        settings.tenants.insert("acme".to_owned(), acme);
        settings
    }

    #[test]
    fn a_tenant_has_its_own_settings_and_everybody_else_the_general_ones() {
        let settings = settings();
        let of = |tenant: &str, stream| {
            let TenantStream { stream, brand } = settings.for_tenant(tenant, stream);
            (stream.sender.domain.as_str(), stream.relays[0].as_str(), brand.name.as_deref())
        };
        assert_eq!(of("acme", StreamName::Bulk), ("acme.example", "acme", Some("Acme")));
        assert_eq!(of("acme", StreamName::Transactional), ("tidings.example", "ours", Some("Acme")));
        assert_eq!(of("bolt", StreamName::Bulk), ("tidings.example", "ours", None));
        assert_eq!(of("ACME", StreamName::Bulk), ("tidings.example", "ours", None), "names are exact");
    }

    #[test]
    fn the_streams_of_a_relay_are_those_of_every_tenant() {
        let settings = settings();
        let of = |relay: &str| settings.streams_by(relay).collect::<Vec<_>>();
        assert_eq!(of("ours"), [StreamName::Bulk, StreamName::Transactional]);
        assert_eq!(of("acme"), [StreamName::Bulk]);
        assert_eq!(of("none"), []);
    }

    #[test]
    fn a_queue_is_as_slow_as_the_slowest_relay_of_any_tenant() {
        let mut settings = settings();
        for (name, mails) in [("ours", 20), ("acme", 5)] {
            let relay = RelaySettings::new("smtp://127.0.0.1".parse().unwrap());
            let rate = Some(crate::settings::MessageRate { mails, per: crate::settings::RateUnit::Second });
            settings.relays.insert(name.to_owned(), RelaySettings { rate, ..relay });
        }
        let rate = |stream| settings.rate(stream).map(Duration::from_secs_f64);
        assert_eq!(rate(StreamName::Bulk), Some(Duration::from_secs(5)));
        assert_eq!(rate(StreamName::Transactional), Some(Duration::from_secs(20)));
    }
}
