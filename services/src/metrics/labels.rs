//! The labels of metrics. Each has a bounded number of values: closed sets, and names that the configuration has.

use tidings_model::settings::Settings;

/// The value for everything that the configuration does not name.
pub const OTHER: &str = "other";

metric_labels! {
    /// Answers of a team's directory.
    pub struct Answered { result: &'static str }
    /// Questions about seen events, by digest type and result.
    pub struct Asked { r#type: String, result: &'static str }
    /// Attempts by relay and class.
    pub struct Attempt { relay: String, class: &'static str }
    /// Deliveries to a subscription of the configuration, by result.
    pub struct Delivery { subscription: String, result: &'static str }
    /// Digests that ended, by type and outcome.
    pub struct Ended { r#type: String, outcome: &'static str }
    /// Differences between processes by what they are in.
    pub struct OfAspect { aspect: &'static str }
    /// Digests by type.
    pub struct OfType { r#type: String }
    /// Digests by tenant and type.
    pub struct OfTenant { tenant: String, r#type: String }
    /// Delivery events by relay, its provider and kind.
    pub struct Reported { relay: String, provider: &'static str, kind: &'static str }
    /// Suppressed addresses by reason.
    pub struct OfReason { reason: &'static str }
    /// Notices by subscription.
    pub struct OfSubscription { subscription: String }
    /// Runs by their trouble.
    pub struct OfTrouble { trouble: &'static str }
    /// Tasks that wait, by task queue and kind.
    pub struct Queue { task_queue: String, kind: &'static str }
    /// A relay.
    pub struct Relay { relay: String }
    /// The source of the poller's figures.
    pub struct Source { source: &'static str }
    /// The release and the source of the zone data of a process.
    pub struct ZoneDataOf { release: String, source: &'static str }
}

/// The digest type, or [`OTHER`].
pub(super) fn digest_type(settings: &Settings, name: &str) -> String {
    settings.digests.get_key_value(settings.names.digest_type(name)).map_or(OTHER, |(name, _)| name).to_owned()
}

/// The tenant, or [`OTHER`].
pub(super) fn tenant(settings: &Settings, name: &str) -> String {
    settings.tenants.get_key_value(settings.names.tenant(name)).map_or(OTHER, |(name, _)| name).to_owned()
}

/// The relay with its provider, or [`OTHER`].
pub(super) fn reported(settings: &Settings, relay: &str, kind: &'static str) -> Reported {
    match settings.relays.get_key_value(relay) {
        Some((relay, of)) => Reported { relay: relay.clone(), provider: of.provider.name(), kind },
        None => Reported { relay: OTHER.to_owned(), provider: OTHER, kind },
    }
}

/// Every value of the label `type`.
pub(super) fn digest_types(settings: &Settings) -> impl Iterator<Item = String> {
    settings.digests.keys().cloned().chain([OTHER.to_owned()])
}

/// Every value of the label `tenant`.
pub(super) fn tenants(settings: &Settings) -> impl Iterator<Item = String> {
    settings.tenants.keys().cloned().chain([OTHER.to_owned()])
}
