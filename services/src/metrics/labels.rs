//! Metric labels. Each has a bounded number of values: a closed set, or names from the configuration.

use tidings_model::settings::Settings;

/// Stands for any name missing from the configuration.
pub const OTHER: &str = "other";

metric_labels! {
    pub struct DirectoryLabels { result: &'static str }
    pub struct SeenLabels { digest_type: String, result: &'static str }
    pub struct AttemptLabels { relay: String, class: &'static str }
    pub struct DeliveryLabels { subscription: String, result: &'static str }
    pub struct OutcomeLabels { digest_type: String, outcome: &'static str }
    pub struct AspectLabels { aspect: &'static str }
    pub struct TypeLabels { digest_type: String }
    pub struct TenantLabels { tenant: String, digest_type: String }
    pub struct ReportLabels { relay: String, provider: &'static str, kind: &'static str }
    pub struct ReasonLabels { reason: &'static str }
    pub struct SubscriptionLabels { subscription: String }
    pub struct TroubleLabels { trouble: &'static str }
    pub struct QueueLabels { task_queue: String, kind: &'static str }
    pub struct RelayLabels { relay: String }
    pub struct SourceLabels { source: &'static str }
    pub struct ZoneDataLabels { release: String, source: &'static str }
}

pub(super) fn digest_type(settings: &Settings, name: &str) -> String {
    settings.digests.get_key_value(settings.names.digest_type(name)).map_or(OTHER, |(name, _)| name).to_owned()
}

pub(super) fn tenant_label(settings: &Settings, name: &str) -> String {
    settings.tenants.get_key_value(settings.names.tenant(name)).map_or(OTHER, |(name, _)| name).to_owned()
}

pub(super) fn report_labels(settings: &Settings, relay: &str, kind: &'static str) -> ReportLabels {
    match settings.relays.get_key_value(relay) {
        Some((relay, of)) => ReportLabels { relay: relay.clone(), provider: of.provider.name(), kind },
        None => ReportLabels { relay: OTHER.to_owned(), provider: OTHER, kind },
    }
}

pub(super) fn digest_types(settings: &Settings) -> impl Iterator<Item = String> {
    settings.digests.keys().cloned().chain([OTHER.to_owned()])
}

pub(super) fn tenants(settings: &Settings) -> impl Iterator<Item = String> {
    settings.tenants.keys().cloned().chain([OTHER.to_owned()])
}
