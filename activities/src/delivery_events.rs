//! Records reports of a provider about a message that its relay took: delivered, bounced, complained of, opened. Each event
//! counts once, in any order.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_model::{
    Key,
    delivery_events::{Against, DeliveryEvent, Recorded, Reported, RequestRecorded, WebhookRequest},
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
    if let Some(against) = &recorded.against {
        relays::reported(store, settings, against, 1, now).await;
    }
    let Recorded { message, again, .. } = &recorded;
    tracing::info!(id = %message, kind = reported.report.kind.name(), again, "delivery event");
    Ok(recorded)
}

/// The effects of a webhook's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Events that were recorded.
    pub new: usize,
    /// Events that were known.
    pub again: usize,
    /// Events about messages that no relay was given.
    pub unknown: usize,
    /// The keys whose consent the events withdraw; see [`Recorded`].
    pub withdrawn: BTreeSet<Key>,
}

/// Records a request of a webhook with the effects of its events, as [`record`] does for one event. Returns `None` if the
/// request's token came with another body before.
///
/// # Errors
/// The store cannot answer. Nothing was recorded, and the request may come again.
pub async fn receive(
    store: &dyn Store,
    settings: &Settings,
    request: &WebhookRequest,
    now: Timestamp,
) -> Result<Option<Received>, tidings_store::Error> {
    let recorded = match store.put_webhook_request(request, settings.soft_bounces, now).await? {
        RequestRecorded::Events(recorded) => recorded,
        RequestRecorded::TokenOfAnotherBody => return Ok(None),
    };
    Ok(Some(followed(store, settings, &request.events, recorded, now).await))
}

/// Logs what was recorded, and counts bounces and complaints.
pub(crate) async fn followed(
    store: &dyn Store,
    settings: &Settings,
    events: &[Reported],
    recorded: Vec<Option<Recorded>>,
    now: Timestamp,
) -> Received {
    let mut received = Received::default();
    let mut counts = BTreeMap::<Against, usize>::new();
    for (event, recorded) in events.iter().zip(recorded) {
        let Some(Recorded { message, again, withdrawn, against }) = recorded else {
            received.unknown += 1;
            continue;
        };
        tracing::info!(id = %message, kind = event.report.kind.name(), again, "delivery event");
        *(if again { &mut received.again } else { &mut received.new }) += 1;
        received.withdrawn.extend(withdrawn);
        if let Some(against) = against {
            *counts.entry(against).or_default() += 1;
        }
    }
    for (against, reports) in counts {
        relays::reported(store, settings, &against, reports, now).await;
    }
    received
}
