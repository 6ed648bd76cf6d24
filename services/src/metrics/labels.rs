//! Metric labels. Each has a bounded number of values: a closed set, or names from the configuration.

use tidings_model::settings::Settings;

/// Stands for any name missing from the configuration.
pub const OTHER: &str = "other";

metric_labels! {
    pub struct Answered { result: &'static str }
    pub struct Asked { r#type: String, result: &'static str }
    pub struct Attempt { relay: String, class: &'static str }
    pub struct Delivery { subscription: String, result: &'static str }
    pub struct Ended { r#type: String, outcome: &'static str }
    pub struct OfAspect { aspect: &'static str }
    pub struct OfType { r#type: String }
    pub struct OfTenant { tenant: String, r#type: String }
    pub struct Reported { relay: String, provider: &'static str, kind: &'static str }
    pub struct OfReason { reason: &'static str }
    pub struct OfSubscription { subscription: String }
    pub struct OfTrouble { trouble: &'static str }
    pub struct Queue { task_queue: String, kind: &'static str }
    pub struct Relay { relay: String }
    pub struct Source { source: &'static str }
    pub struct ZoneDataOf { release: String, source: &'static str }
}

pub(super) fn digest_type(settings: &Settings, name: &str) -> String {
    settings.digests.get_key_value(settings.names.digest_type(name)).map_or(OTHER, |(name, _)| name).to_owned()
}

pub(super) fn tenant(settings: &Settings, name: &str) -> String {
    settings.tenants.get_key_value(settings.names.tenant(name)).map_or(OTHER, |(name, _)| name).to_owned()
}

pub(super) fn reported(settings: &Settings, relay: &str, kind: &'static str) -> Reported {
    match settings.relays.get_key_value(relay) {
        Some((relay, of)) => Reported { relay: relay.clone(), provider: of.provider.name(), kind },
        None => Reported { relay: OTHER.to_owned(), provider: OTHER, kind },
    }
}

pub(super) fn digest_types(settings: &Settings) -> impl Iterator<Item = String> {
    settings.digests.keys().cloned().chain([OTHER.to_owned()])
}

pub(super) fn tenants(settings: &Settings) -> impl Iterator<Item = String> {
    settings.tenants.keys().cloned().chain([OTHER.to_owned()])
}
