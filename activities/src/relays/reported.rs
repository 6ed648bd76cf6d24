//! Reports messages that a relay took and that bounced later, or that a recipient complained about, to a breaker.

use jiff::Timestamp;
use tidings_model::{
    RelaysToday,
    breaker::{self, Breaker},
    delivery_events::Against,
    settings::Settings,
};
use tidings_store::Store;

use super::change::change;

/// Counts `reports` against the mail of a tenant: in the tenant's own breaker if it has a table, else in the relay's. Reports that
/// the store cannot take are lost, which hardly changes the rates.
pub(crate) async fn reported(
    store: &dyn Store,
    settings: &Settings,
    Against { relay, tenant, evidence }: &Against,
    reports: usize,
    now: Timestamp,
) {
    let name = breaker::name(settings.relay_today(relay), settings.with_table(tenant));
    let counted = |breaker: &Breaker| {
        (0..reports).fold(None, |counted: Option<Breaker>, _| {
            counted.as_ref().unwrap_or(breaker).reported(*evidence, now).or(counted)
        })
    };
    if let Err(error) = change(store, &RelaysToday::of(settings), &name, None, now, counted).await {
        tracing::warn!(relay, tenant, reports, %error, "reports about a tenant's mail cannot be counted");
    }
}
