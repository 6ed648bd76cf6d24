//! Prometheus metrics: this process's own work, and its poller's latest figures for all workers, in the terms
//! of ledger and log.
//!
//! Labels are bounded: names missing from the configuration count as [`OTHER`](labels::OTHER).

use std::sync::LazyLock;

use jiff::SignedDuration;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};
use tidings_model::{
    AlertName, ZoneData,
    attempt::AttemptClass,
    records::MessageOrigin,
    rules::seen_elsewhere::SeenResult,
    settings::Settings,
    subscription::DeliveryResult,
    troubled_run::RunTrouble,
    window::{DigestOutcome, WindowEnd},
    zone_data,
};
use uuid::Uuid;

#[macro_use]
pub mod table;
pub mod fleet;
pub mod labels;

use fleet::FleetMetrics;
use labels::{
    AttemptLabels, DeliveryLabels, DirectoryLabels, OutcomeLabels, SeenLabels, TroubleLabels, TypeLabels,
    ZoneDataLabels, digest_type,
};

static METRICS: LazyLock<ProcessMetrics> = LazyLock::new(ProcessMetrics::default);
static FLEET: LazyLock<FleetMetrics> = LazyLock::new(FleetMetrics::default);

const LATENESS: [f64; 14] =
    [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1_800.0, 3_600.0, 10_800.0, 43_200.0, 86_400.0];

type LatenessFamily = Family<TypeLabels, Histogram, fn() -> Histogram>;

metrics_table! {
    struct ProcessMetrics {
        attempts: Family<AttemptLabels, Counter>, "Attempts to deliver a message that ended";
        digests: Family<OutcomeLabels, Counter>, "Digests that ended";
        events: Family<TypeLabels, Counter>, "Events that left a window for the ledger";
        seen_questions: Family<SeenLabels, Counter>, "Questions to the services that know which events were seen";
        directory_answers: Family<DirectoryLabels, Counter>, "Answers of the team's own directory of recipients";
        webhook_deliveries: Family<DeliveryLabels, Counter>, "Deliveries of webhook events to subscriptions, by result";
        dead_letters: Counter, "Signals and events that could not be decoded";
        digests_failed: Counter, "Digests that could not be delivered: alert=digest_failed";
        messages_failed: Counter, "Single messages that could not be delivered: alert=message_failed";
        start_options: Counter, "Digests started with a timeout, a retry policy or a cron schedule: alert=start_options";
        unknown_zones: Counter, "Plans for recipients whose zone no zone data has: alert=unknown_zone";
        zone_data: Family<ZoneDataLabels, Gauge>, "1 for the release of the zone data that this process uses, and its source";
        runs_recovered: Family<TroubleLabels, Counter>, "Runs that ended without their code and were recovered: alert=run_recovered";
        claim_lateness: LatenessFamily = lateness(), "Time from a window's due time to its claim", Seconds;
        acceptance_lateness: LatenessFamily = lateness(), "Time from a digest's due time to the relay's acceptance", Seconds;
    }
}

fn lateness() -> LatenessFamily {
    LatenessFamily::new_with_constructor(|| Histogram::new(LATENESS))
}

#[must_use]
pub fn encode_text() -> String {
    table::encode_text(|registry| {
        METRICS.register(registry);
        FLEET.register(registry);
    })
}

/// Creates each configured series at 0, so Prometheus will see its first increase.
pub fn create_series(settings: &Settings) {
    for name in labels::digest_types(settings) {
        let of = TypeLabels { digest_type: name.clone() };
        drop(METRICS.events.get_or_create(&of));
        drop(METRICS.claim_lateness.get_or_create(&of));
        drop(METRICS.acceptance_lateness.get_or_create(&of));
        for outcome in DigestOutcome::ALL {
            drop(METRICS.digests.get_or_create(&OutcomeLabels { digest_type: name.clone(), outcome: outcome.name() }));
        }
    }
    for relay in settings.relays.keys() {
        for class in AttemptClass::ALL {
            drop(METRICS.attempts.get_or_create(&AttemptLabels { relay: relay.clone(), class: class.name() }));
        }
    }
    let ZoneData { release, source, .. } = zone_data();
    METRICS.zone_data.get_or_create(&ZoneDataLabels { release: release.clone(), source: source.name() }).set(1);
    FLEET.create_series(settings);
}

#[must_use]
pub fn fleet() -> &'static FleetMetrics {
    &FLEET
}

pub fn count_attempt(relay: &str, class: AttemptClass) {
    METRICS.attempts.get_or_create(&AttemptLabels { relay: relay.to_owned(), class: class.name() }).inc();
}

pub fn count_digest(settings: &Settings, name: &str, outcome: DigestOutcome) {
    METRICS
        .digests
        .get_or_create(&OutcomeLabels { digest_type: digest_type(settings, name), outcome: outcome.name() })
        .inc();
}

pub fn count_events(settings: &Settings, name: &str, count: u64) {
    METRICS.events.get_or_create(&TypeLabels { digest_type: digest_type(settings, name) }).inc_by(count);
}

pub fn count_seen(settings: &Settings, name: &str, result: SeenResult) {
    let asked = SeenLabels { digest_type: digest_type(settings, name), result: result.name() };
    METRICS.seen_questions.get_or_create(&asked).inc();
}

pub fn directory_answered(result: &'static str) {
    METRICS.directory_answers.get_or_create(&DirectoryLabels { result }).inc();
}

pub fn count_webhook_delivery(subscription: &str, result: DeliveryResult) {
    METRICS
        .webhook_deliveries
        .get_or_create(&DeliveryLabels { subscription: subscription.to_owned(), result: result.name() })
        .inc();
}

pub fn observe_claim(settings: &Settings, name: &str, late: SignedDuration) {
    observe_lateness(&METRICS.claim_lateness, settings, name, late);
}

pub fn observe_accepted(settings: &Settings, name: &str, late: SignedDuration) {
    observe_lateness(&METRICS.acceptance_lateness, settings, name, late);
}

/// A digest sent early, e.g. after a flush, is not late.
fn observe_lateness(lateness: &LatenessFamily, settings: &Settings, name: &str, late: SignedDuration) {
    let of = TypeLabels { digest_type: digest_type(settings, name) };
    lateness.get_or_create(&of).observe(late.as_secs_f64().max(0.0));
}

pub fn dead_letters(count: u64) {
    METRICS.dead_letters.inc_by(count);
}

pub fn start_options() {
    METRICS.start_options.inc();
}

pub fn unknown_zone() {
    METRICS.unknown_zones.inc();
}

pub fn digest_failed() {
    METRICS.digests_failed.inc();
}

pub fn run_recovered(trouble: RunTrouble) {
    METRICS.runs_recovered.get_or_create(&TroubleLabels { trouble: trouble.name() }).inc();
}

pub fn message_failed() {
    METRICS.messages_failed.inc();
}

/// Logs the end, and alerts operators and returns `true` if it is failed or ambiguous. The reason contains no
/// address.
pub fn alert_ended(id: Uuid, origin: &MessageOrigin, WindowEnd { outcome, why }: &WindowEnd) -> bool {
    if !matches!(outcome, DigestOutcome::Failed | DigestOutcome::Ambiguous) {
        return false;
    }
    match origin {
        MessageOrigin::Digest(_) => {
            digest_failed();
            tracing::error!(alert = %AlertName::DigestFailed, digest_id = %id, why, "digest could not be delivered");
        }
        MessageOrigin::Single { .. } => {
            message_failed();
            tracing::error!(alert = %AlertName::MessageFailed, id = %id, why, "message could not be delivered");
        }
    }
    true
}
