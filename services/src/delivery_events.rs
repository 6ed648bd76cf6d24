//! Records provider reports about a message, e.g. delivered, bounced or opened. Each event counts once, in
//! any order.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_model::{
    Key,
    delivery_events::{Against, DeliveryEvent, Recorded, Reported, RequestRecorded, Unrecorded, WebhookRequest},
    limits::Invalid,
    settings::Settings,
};
use tidings_store::Store;

use crate::relays;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No relay was given such a message, or only another relay was, or the message belongs to another
    /// tenant.
    #[error("no relay was given such a message")]
    UnknownMessage,
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// Records an event once, updating the message's state, suppressions, consent and breaker counts.
///
/// # Errors
/// See [`Error`]. After [`Error::Store`], reporting the event again is safe.
pub async fn record(
    store: &dyn Store,
    settings: &Settings,
    event: DeliveryEvent,
    now: Timestamp,
) -> Result<Recorded, Error> {
    let mut reported = event.check(now)?;
    add_names(&mut reported, settings);
    let recorded = store.put_delivery_event(&reported, settings.soft_bounces, now).await?;
    let recorded = recorded.ok_or(Error::UnknownMessage)?;
    if let Some(against) = &recorded.against {
        relays::reported(store, settings, against, 1, now).await;
    }
    let Recorded { message, again, .. } = &recorded;
    tracing::info!(id = %message, kind = reported.report.kind.name(), again, "delivery event");
    Ok(recorded)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub new: usize,
    pub again: usize,
    /// Events about messages we gave to no relay.
    pub unknown: usize,
    /// Events about messages we gave to another relay. They have no effect.
    pub foreign: usize,
    /// Keys to wake because their consent is withdrawn; see [`Recorded`].
    pub withdrawn: BTreeSet<Key>,
}

/// Records a webhook request like [`record`]. Returns `None` if its token came earlier with another body.
///
/// # Errors
/// If the store fails. Nothing was recorded, so the request may be repeated.
pub async fn receive(
    store: &dyn Store,
    settings: &Settings,
    mut request: WebhookRequest,
    now: Timestamp,
) -> Result<Option<Received>, tidings_store::Error> {
    request.events.iter_mut().for_each(|event| add_names(event, settings));
    let recorded = match store.put_webhook_request(&request, settings.soft_bounces, now).await? {
        RequestRecorded::Events(recorded) => recorded,
        RequestRecorded::TokenOfAnotherBody => return Ok(None),
    };
    Ok(Some(followed(store, settings, &request.events, recorded, now).await))
}

pub fn add_names(event: &mut Reported, settings: &Settings) {
    let names = event.relay.as_ref().and_then(|relay| settings.reports_for.get(relay));
    event.reports_for = names.cloned().unwrap_or_default();
}

pub async fn followed(
    store: &dyn Store,
    settings: &Settings,
    events: &[Reported],
    recorded: Vec<Result<Recorded, Unrecorded>>,
    now: Timestamp,
) -> Received {
    let mut received = Received::default();
    let mut counts = BTreeMap::<Against, usize>::new();
    for (event, recorded) in events.iter().zip(recorded) {
        let Recorded { message, again, withdrawn, against } = match recorded {
            Ok(recorded) => recorded,
            Err(Unrecorded::UnknownMessage) => {
                received.unknown += 1;
                continue;
            }
            Err(Unrecorded::OtherRelay) => {
                received.foreign += 1;
                continue;
            }
        };
        tracing::info!(id = %message, kind = event.report.kind.name(), again, "delivery event");
        *(if again { &mut received.again } else { &mut received.new }) += 1;
        received.withdrawn.extend(withdrawn);
        if let Some(against) = against {
            *counts.entry(against).or_default() += 1;
        }
    }
    if received.foreign > 0 {
        let (relay, foreign) = (events.iter().find_map(|event| event.relay.as_deref()), received.foreign);
        tracing::warn!(
            relay,
            foreign,
            "reports about messages of another relay have no effect; reports_for would let them count"
        );
    }
    for (against, reports) in counts {
        relays::reported(store, settings, &against, reports, now).await;
    }
    received
}
