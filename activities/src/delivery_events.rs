//! Records reports of a provider about a message that its relay took: delivered, bounced, complained of, opened. Each event
//! counts once, in any order.

use jiff::Timestamp;
use tidings_model::{
    delivery_events::{DeliveryEvent, Recorded},
    limits::Invalid,
    settings::Settings,
};
use tidings_store::Store;

use crate::relays;

/// The reason why an event was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No relay received such a message, or the message belongs to another tenant.
    #[error("no relay was given such a message")]
    UnknownMessage,
    /// The store cannot answer. Report the event again.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// Records an event once, with its effects: the message's state, suppressions, consent, and the counts of the relay's breaker.
///
/// # Errors
/// See [`Error`]. Reporting the event again is safe after [`Error::Store`].
pub async fn record(
    store: &dyn Store,
    settings: &Settings,
    event: DeliveryEvent,
    now: Timestamp,
) -> Result<Recorded, Error> {
    let reported = event.check(now)?;
    let recorded = store.put_delivery_event(&reported, settings.soft_bounces, now).await?;
    let recorded = recorded.ok_or(Error::UnknownMessage)?;
    if let Some(relay) = &recorded.bounced_by {
        relays::bounced(store, relay, now).await;
    }
    let Recorded { message, again, .. } = &recorded;
    tracing::info!(id = %message, kind = reported.report.kind.name(), again, "delivery event");
    Ok(recorded)
}
