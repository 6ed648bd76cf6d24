//! Mailjet's Event API: Basic credentials, as Mailjet signs nothing; an array of events, or one event.

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use tidings_model::delivery_events::{DeliveryEvent, Kind};
use uuid::Uuid;

use super::{
    Credentials, Parsed, Part, Refused, basic,
    parsed::{HARD, POLICY, SOFT, seconds, unknown},
};

/// Checks the credentials.
///
/// # Errors
/// The request has none, or wrong ones.
pub fn verify(headers: &HeaderMap, credentials: &[Credentials]) -> Result<(), Refused> {
    basic::verify(headers, credentials)
}

/// Reads the events of an authentic body.
#[must_use]
pub fn parse(body: &[u8], now: Timestamp) -> Parsed {
    Parsed::some(body, now, read)
}

#[derive(Deserialize)]
struct Payload {
    event: String,
    time: i64,
    #[serde(rename = "CustomID")]
    custom_id: Option<String>,
    customcampaign: Option<String>,
    #[serde(rename = "Message_GUID")]
    guid: Option<String>,
    hard_bounce: Option<bool>,
    error_related_to: Option<String>,
    error: Option<String>,
    comment: Option<String>,
    smtp_reply: Option<String>,
    url: Option<String>,
}

fn read(event: Payload) -> Result<Part, String> {
    let kind = match event.event.as_str() {
        "sent" => Some((Kind::Delivered, false)),
        "open" => Some((Kind::Opened, false)),
        "click" => Some((Kind::Clicked, false)),
        "spam" => Some((Kind::Complained, false)),
        "unsub" => Some((Kind::Unsubscribed, false)),
        "bounce" => Some((bounced(&event), false)),
        "blocked" => blocked(event.error.as_deref().unwrap_or_default()).map(|kind| (kind, true)),
        other => return Err(unknown("event", other)),
    };
    let Some((kind, never_sent)) = kind else { return Ok(Part::Nothing) };
    // Other messages of the account may have ids and campaigns of their own.
    let ours = |id: &String| Uuid::try_parse(id).is_ok();
    let error = event.error.filter(|error| !error.is_empty()).map(|error| match event.comment.as_deref() {
        None | Some("") => error,
        Some(comment) => format!("{error}: {comment}"),
    });
    Ok(Part::event(DeliveryEvent {
        message: [event.custom_id, event.customcampaign].into_iter().flatten().find(ours),
        relay_id: event.guid.filter(|id| !id.is_empty()),
        diagnostic: error.or(event.smtp_reply),
        never_sent,
        url: event.url.filter(|url| kind == Kind::Clicked && !url.is_empty()),
        ..DeliveryEvent::new(kind, seconds(event.time)?)
    }))
}

fn bounced(event: &Payload) -> Kind {
    let error = event.error.as_deref().unwrap_or_default();
    let is_hard = event.hard_bounce == Some(true);
    match event.error_related_to.as_deref() {
        _ if error == "greylisted" && !is_hard => Kind::Deferred,
        _ if is_hard => HARD,
        Some("spam" | "content") => POLICY,
        _ if error == "relay/access denied" => POLICY,
        _ => SOFT,
    }
}

/// `None` for the second copy of a message: the first was sent.
fn blocked(error: &str) -> Option<Kind> {
    match error {
        "duplicate in campaign" => None,
        "preblocked" | "user unknown" | "blacklisted" => Some(HARD),
        "spam reporter" => Some(Kind::Complained),
        _ => Some(POLICY),
    }
}
