//! The webhook for relays of your own: signatures of Standard Webhooks, and the JSON that docs/delivery.md describes.

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use tidings_model::delivery_events::{Bounce, DeliveryEvent, Kind};

use super::{Parsed, Part, Refused, Secret, parsed::unknown, standard};

/// Checks the signature.
///
/// # Errors
/// A header is missing or malformed, no secret made one of the signatures, or the time is too far from now.
pub fn verify(headers: &HeaderMap, body: &[u8], secrets: &[Secret], now: Timestamp) -> Result<(), Refused> {
    standard::verify(headers, body, secrets, now).map(drop)
}

/// Reads the events of an authentic body: an array, or one event.
#[must_use]
pub fn parse(body: &[u8], now: Timestamp) -> Parsed {
    Parsed::some(body, now, read)
}

/// An event in the words of `tidings messages show --json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    kind: String,
    bounce: Option<String>,
    message: Option<String>,
    message_id: Option<String>,
    relay_id: Option<String>,
    status: Option<String>,
    diagnostic: Option<String>,
    occurred_at: Timestamp,
    event_id: Option<String>,
    #[serde(default)]
    never_sent: bool,
    machine: Option<bool>,
    url: Option<String>,
}

fn read(event: Payload) -> Result<Part, String> {
    Ok(Part::event(DeliveryEvent {
        message: event.message,
        message_id: event.message_id,
        relay_id: event.relay_id,
        status: event.status,
        diagnostic: event.diagnostic,
        event_id: event.event_id,
        never_sent: event.never_sent,
        machine: event.machine,
        url: event.url,
        ..DeliveryEvent::new(kind(&event.kind, event.bounce.as_deref())?, event.occurred_at)
    }))
}

fn kind(kind: &str, bounce: Option<&str>) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().filter(|known| known.name() == kind).collect::<Vec<_>>();
    let first = *known.first().ok_or_else(|| unknown("kind", kind))?;
    match (first.bounce(), bounce) {
        (None, None) => Ok(first),
        (None, Some(_)) => Err(format!("kind {kind:?} has no bounce; leave the field out")),
        (Some(_), None) => Err("kind \"bounced\" needs bounce: hard, soft or policy".to_owned()),
        (Some(_), Some(word)) => Bounce::named(word).map(Kind::Bounced).ok_or_else(|| unknown("bounce", word)),
    }
}
