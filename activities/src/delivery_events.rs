//! What became of a message after the relay took it, as the relay's provider reports it: delivered, bounced, complained
//! of, opened. Whoever hears the provider hands it in here; each event counts once, in whatever order they come.

use jiff::Timestamp;
use tidings_workflows::{Key, limits::Invalid};
use uuid::Uuid;

use crate::{
    relays,
    settings::Settings,
    store::{self, Store},
};

mod effects;
mod event;
mod report;

pub use effects::{Effects, Known, effects};
pub use event::{DeliveryEvent, Reported, Which};
pub use report::{Bounce, Kind, Report, ReportRecord, Status};

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What it is about.
    pub message: Uuid,
    /// It was known, and nothing changed.
    pub again: bool,
    /// Whose consent is withdrawn by it, now or when it came first: [`choices::tell`](crate::choices::tell) their
    /// workflow. Where that fails the open window follows when it is due.
    pub withdrawn: Option<Key>,
    /// The relay that took the message for an address that does not exist.
    pub bounced_by: Option<String>,
}

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
    Store(#[from] store::Error),
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
