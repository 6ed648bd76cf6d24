//! Records provider reports about a message, e.g. delivered, bounced or opened. Each event counts once, in
//! any order.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_model::{
    Key,
    delivery_events::{
        CheckedDeliveryEvent, DeliveryEvent, EventEffect, EventRejection, RequestRecorded, TenantEvidence,
        WebhookRequest,
    },
    limits::InvalidField,
    settings::Settings,
};
use tidings_store::Store;

use crate::relays;

#[derive(Debug, thiserror::Error)]
pub enum DeliveryEventError {
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    /// No relay was given such a message, or only another relay was, or the message belongs to another
    /// tenant.
    #[error("no relay was given such a message")]
    UnknownMessage,
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
}

/// Records an event once, updating the message's state, suppressions, consent and breaker counts.
///
/// # Errors
/// See [`DeliveryEventError`]. After [`DeliveryEventError::Store`], reporting the event again is safe.
pub async fn record_event(
    store: &dyn Store,
    settings: &Settings,
    event: DeliveryEvent,
    now: Timestamp,
) -> Result<EventEffect, DeliveryEventError> {
    let mut reported = event.check(now)?;
    add_names(&mut reported, settings);
    let recorded = store.put_delivery_event(&reported, settings.soft_bounces, now).await?;
    let recorded = recorded.ok_or(DeliveryEventError::UnknownMessage)?;
    if let Some(against) = &recorded.against {
        relays::count_reports(store, settings, against, 1, now).await;
    }
    let EventEffect { message, again, .. } = &recorded;
    tracing::info!(id = %message, kind = reported.report.kind.name(), again, "delivery event");
    Ok(recorded)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookResult {
    pub new: usize,
    pub again: usize,
    /// Events about messages we gave to no relay.
    pub unknown: usize,
    /// Events about messages we gave to another relay. They have no effect.
    pub foreign: usize,
    /// Keys to wake because their consent is withdrawn; see [`EventEffect`].
    pub withdrawn: BTreeSet<Key>,
}

/// Records a webhook request like [`record_event`]. Returns `None` if its token came earlier with another body.
///
/// # Errors
/// If the store fails. Nothing was recorded, so the request may be repeated.
pub async fn record_webhook(
    store: &dyn Store,
    settings: &Settings,
    mut request: WebhookRequest,
    now: Timestamp,
) -> Result<Option<WebhookResult>, tidings_store::StoreError> {
    request.events.iter_mut().for_each(|event| add_names(event, settings));
    let recorded = match store.put_webhook_request(&request, settings.soft_bounces, now).await? {
        RequestRecorded::Events(recorded) => recorded,
        RequestRecorded::TokenOfAnotherBody => return Ok(None),
    };
    Ok(Some(report_recorded(store, settings, &request.events, recorded, now).await))
}

pub fn add_names(event: &mut CheckedDeliveryEvent, settings: &Settings) {
    let names = event.relay.as_ref().and_then(|relay| settings.reports_for.get(relay));
    event.reports_for = names.cloned().unwrap_or_default();
}

pub async fn report_recorded(
    store: &dyn Store,
    settings: &Settings,
    events: &[CheckedDeliveryEvent],
    recorded: Vec<Result<EventEffect, EventRejection>>,
    now: Timestamp,
) -> WebhookResult {
    let mut received = WebhookResult::default();
    let mut counts = BTreeMap::<TenantEvidence, usize>::new();
    for (event, recorded) in events.iter().zip(recorded) {
        let EventEffect { message, again, withdrawn, against } = match recorded {
            Ok(recorded) => recorded,
            Err(EventRejection::UnknownMessage) => {
                received.unknown += 1;
                continue;
            }
            Err(EventRejection::OtherRelay) => {
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
        relays::count_reports(store, settings, &against, reports, now).await;
    }
    received
}
