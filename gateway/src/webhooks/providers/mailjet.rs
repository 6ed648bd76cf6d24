//! Mailjet's Event API: an array of events or one event, Basic credentials because Mailjet does not sign.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{Bounce, DeliveryEvent, Kind};
use uuid::Uuid;

use crate::webhooks::{
    Parsed, Part, Secrets, Webhook,
    basic::Credentials,
    parsed::{HARD, POLICY, SOFT, seconds, unknown},
    provider::{LINK, UNKNOWN, merged},
};

pub(super) struct Mailjet;

impl Webhook for Mailjet {
    fn secret(&self) -> &'static str {
        "USER:PASSWORD of the webhook's URL"
    }

    fn secrets(&self) -> Option<Arc<dyn Secrets>> {
        Some(Arc::new(Vec::<Credentials>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> Parsed {
        Parsed::some(body, now, read)
    }

    fn event(&self, kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let event = json!({"time": now.as_second(), "CustomID": message, "Message_GUID": Uuid::new_v4()});
        let of_kind = match kind {
            Kind::Delivered => json!({"event": "sent"}),
            Kind::Deferred => json!({"event": "bounce", "hard_bounce": false, "error": "greylisted"}),
            Kind::Bounced(_) if never_sent => json!({"event": "blocked", "error": "preblocked", "comment": "a test"}),
            Kind::Bounced(Bounce::Hard) => json!({"event": "bounce", "hard_bounce": true, "error": "user unknown"}),
            Kind::Bounced(Bounce::Soft) => json!({"event": "bounce", "hard_bounce": false, "error": "mailbox full"}),
            Kind::Bounced(Bounce::Policy) => {
                json!({"event": "bounce", "hard_bounce": false, "error_related_to": "content", "error": "a test"})
            }
            Kind::Complained => json!({"event": "spam"}),
            Kind::Unsubscribed => json!({"event": "unsub"}),
            Kind::Opened => json!({"event": "open"}),
            Kind::Clicked => json!({"event": "click", "url": LINK}),
        };
        Some(merged(event, of_kind))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"event": UNKNOWN, "time": now.as_second(), "Message_GUID": id})
    }
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
    // Other messages of the account may use ids and campaigns differently.
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

/// `None` for a duplicate, because the first copy was sent.
fn blocked(error: &str) -> Option<Kind> {
    match error {
        "duplicate in campaign" => None,
        "preblocked" | "user unknown" | "blacklisted" => Some(HARD),
        "spam reporter" => Some(Kind::Complained),
        _ => Some(POLICY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::tests::{ID, assert_rows, now, with};

    #[test]
    fn rows_of_mailjet_that_no_vector_has() {
        let base = json!({"time": 1_795_262_399, "CustomID": ID, "MessageID": u64::MAX});
        let mailjet = |of: Value| Mailjet.parse(with(&base, &of).as_bytes(), None, now());
        assert_rows([
            (mailjet(json!({"event": "open"})), "opened"),
            (mailjet(json!({"event": "bounce", "error": "greylisted", "hard_bounce": true})), "bounced hard"),
            (mailjet(json!({"event": "bounce"})), "bounced soft"),
            (
                mailjet(json!({"event": "blocked", "error": "duplicate in campaign", "error_related_to": "mailjet"})),
                "nothing",
            ),
            (mailjet(json!({"event": "blocked", "error": "spam reporter"})), "complained never_sent"),
            (mailjet(json!({"event": "blocked", "error": "blacklisted"})), "bounced hard never_sent"),
            (mailjet(json!({"event": "blocked"})), "bounced policy never_sent"),
            (mailjet(json!({"event": "sent", "CustomID": "spring", "customcampaign": "sale"})), "nameless"),
            (mailjet(json!({"event": "sent", "CustomID": "", "customcampaign": ID})), "delivered"),
        ]);
    }
}
