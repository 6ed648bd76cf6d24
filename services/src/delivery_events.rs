//! Records reports of a provider about a message that its relay took: delivered, bounced, complained of, opened. Each event
//! counts once, in any order.

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

/// The reason why an event was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No relay received such a message, or another one, or the message belongs to another tenant.
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

/// The effects of a webhook's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Events that were recorded.
    pub new: usize,
    /// Events that were known.
    pub again: usize,
    /// Events about messages that no relay was given.
    pub unknown: usize,
    /// Events about messages that another relay was given. They have no effect.
    pub foreign: usize,
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

/// Adds the other names of the relay that reports.
pub fn add_names(event: &mut Reported, settings: &Settings) {
    let names = event.relay.as_ref().and_then(|relay| settings.reports_for.get(relay));
    event.reports_for = names.cloned().unwrap_or_default();
}

/// Logs what was recorded, and counts bounces and complaints.
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
