//! What became of a message after the relay took it, as the relay's provider reports it: delivered, bounced, complained
//! of, opened. Whoever hears the provider hands it in here; each event counts once, in whatever order they come.

use jiff::Timestamp;
use tidings_model::{
    delivery_events::{DeliveryEvent, Recorded},
    limits::Invalid,
    settings::Settings,
};
use tidings_store::Store;

use crate::relays;

/// Why an event was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field will not do.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No relay was ever given such a message, or it is another tenant's.
    #[error("no relay was given such a message")]
    UnknownMessage,
    /// The store cannot answer: tell it again.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// Records an event, once, with all that follows from it: the message's state, suppressions, consent, and what its relay's
/// breaker counts.
///
/// # Errors
/// See [`Error`]. After [`Error::Store`] telling it again is safe.
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
