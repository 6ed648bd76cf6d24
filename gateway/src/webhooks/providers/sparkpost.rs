//! SparkPost's event webhooks: an array of events, each inside an object named after its class; Basic
//! credentials because SparkPost does not sign.
//!
//! developers.sparkpost.com/api/webhooks and /smtp, support.sparkpost.com on webhook authentication and
//! bounce classification codes; fixtures of Anymail.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{Bounce, DeliveryEvent, Kind};
use uuid::Uuid;

use crate::webhooks::{
    Parsed, Part, Secrets, Webhook,
    basic::Credentials,
    parsed::{HARD, POLICY, SOFT, seconds, status, unknown},
    provider::{LINK, UNKNOWN, merged, refusal},
};

pub(super) struct SparkPost;

impl Webhook for SparkPost {
    fn secret(&self) -> &'static str {
        "USER:PASSWORD of the webhook's basic authentication"
    }

    fn secrets(&self) -> Option<Arc<dyn Secrets>> {
        Some(Arc::new(Vec::<Credentials>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> Parsed {
        Parsed::some(body, now, read)
    }

    fn event(&self, kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let event = json!({"timestamp": now.as_second().to_string(), "event_id": Uuid::new_v4(),
            "rcpt_meta": {"tidings_message": message}});
        let bounce = |class: &str, said: &str| json!({"type": "bounce", "bounce_class": class, "raw_reason": said});
        let of_kind = match kind {
            Kind::Delivered => json!({"type": "delivery"}),
            Kind::Deferred => json!({"type": "delay", "bounce_class": "70", "raw_reason": "451 4.3.0 a test: later"}),
            // SparkPost uses this class for everything it suppresses, so the address need not be wrong.
            Kind::Bounced(_) if never_sent => return None,
            Kind::Bounced(Bounce::Hard) => bounce("10", refusal(Bounce::Hard).1),
            Kind::Bounced(Bounce::Soft) => bounce("22", refusal(Bounce::Soft).1),
            Kind::Bounced(Bounce::Policy) => bounce("50", refusal(Bounce::Policy).1),
            Kind::Complained => json!({"type": "spam_complaint"}),
            Kind::Unsubscribed => json!({"type": "list_unsubscribe"}),
            Kind::Opened => json!({"type": "open"}),
            Kind::Clicked => json!({"type": "click", "target_link_url": LINK}),
        };
        let class = match kind {
            Kind::Opened | Kind::Clicked => "track_event",
            Kind::Unsubscribed => "unsubscribe_event",
            _ => "message_event",
        };
        Some(json!([{"msys": {class: merged(event, of_kind)}}]))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"msys": {"message_event": {"type": UNKNOWN, "timestamp": now.as_second().to_string(), "event_id": id}}})
    }
}

#[derive(Deserialize)]
struct Body {
    /// Event by class name. Empty in a request testing the URL.
    msys: BTreeMap<String, Payload>,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Time,
    event_id: Option<String>,
    bounce_class: Option<String>,
    raw_reason: Option<String>,
    reason: Option<String>,
    target_link_url: Option<String>,
    rcpt_meta: Option<Metadata>,
}

/// Seconds, or RFC 3339 in some generation events.
#[derive(Deserialize)]
#[serde(untagged)]
enum Time {
    Number(i64),
    Text(String),
}

#[derive(Deserialize)]
struct Metadata {
    tidings_message: Option<String>,
}

fn read(body: Body) -> Result<Part, String> {
    let Some(event) = body.msys.into_values().next() else { return Ok(Part::Nothing) };
    let Some((kind, never_sent)) = kind(&event)? else { return Ok(Part::Nothing) };
    let at = match event.timestamp {
        Time::Number(number) => seconds(number)?,
        Time::Text(text) => match text.parse() {
            Ok(number) => seconds(number)?,
            Err(_) => text.parse().map_err(|error| format!("timestamp: {error}"))?,
        },
    };
    let reason = event.raw_reason.or(event.reason);
    Ok(Part::event(DeliveryEvent {
        message: event.rcpt_meta.and_then(|metadata| metadata.tidings_message),
        status: status(reason.as_deref()).filter(|_| kind.bounce().is_some() || kind == Kind::Deferred),
        diagnostic: reason,
        event_id: event.event_id,
        never_sent,
        url: event.target_link_url.filter(|_| kind == Kind::Clicked),
        ..DeliveryEvent::new(kind, at)
    }))
}

fn kind(event: &Payload) -> Result<Option<(Kind, bool)>, String> {
    Ok(match event.kind.as_str() {
        "injection" => None,
        "delivery" => Some((Kind::Delivered, false)),
        "delay" => Some((Kind::Deferred, false)),
        "bounce" | "out_of_band" => bounced(event.bounce_class.as_deref().unwrap_or_default())?,
        "policy_rejection" | "generation_rejection" | "generation_failure" => Some((POLICY, true)),
        "spam_complaint" => Some((Kind::Complained, false)),
        "list_unsubscribe" | "link_unsubscribe" => Some((Kind::Unsubscribed, false)),
        "open" | "initial_open" | "amp_open" | "amp_initial_open" => Some((Kind::Opened, false)),
        "click" | "amp_click" => Some((Kind::Clicked, false)),
        other => return Err(unknown("type", other)),
    })
}

/// Uses SparkPost's bounce classification. An automatic reply is not a bounce.
fn bounced(class: &str) -> Result<Option<(Kind, bool)>, String> {
    Ok(match class {
        "10" | "30" => Some((HARD, false)),
        "1" | "20" | "21" | "22" | "24" | "40" | "70" => Some((SOFT, false)),
        // Too large, or rejected by the receiver.
        "23" | "50" | "51" | "52" | "53" | "54" => Some((POLICY, false)),
        // Not sent by SparkPost, e.g. because of its suppression list.
        "25" | "26" => Some((POLICY, true)),
        "90" => Some((Kind::Unsubscribed, false)),
        "60" | "80" | "100" => None,
        other => return Err(unknown("bounce_class", other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::tests::{ID, assert_rows, now, with};

    #[test]
    fn each_event_of_sparkpost_has_its_meaning() {
        // The fields of developers.sparkpost.com, with another address.
        let base = json!({"customer_id": "1", "event_id": "92356927693813856", "friendly_from": "digests@acme.example",
            "message_id": "000443ee14578172be22", "rcpt_meta": {"tidings_message": ID}, "rcpt_tags": [], "rcpt_to": "ann@example.net",
            "raw_rcpt_to": "ann@example.net", "subaccount_id": "101", "timestamp": "1795262399",
            "transmission_id": "65832150921904138"});
        let batch = |class: &str, of: Value| {
            let event: Value = serde_json::from_str(&with(&base, &of)).unwrap();
            SparkPost.parse(json!([{"msys": {class: event}}]).to_string().as_bytes(), None, now())
        };
        let event = |of: Value| batch("message_event", of);
        let bounce = |class: &str, said: &str| {
            event(
                json!({"type": "bounce", "bounce_class": class, "error_code": "550", "raw_reason": said, "reason": "550 ...@..."}),
            )
        };
        assert_rows([
            (SparkPost.parse(br#"[{"msys":{}}]"#, None, now()), "nothing"),
            (event(json!({"type": "injection"})), "nothing"),
            (event(json!({"type": "delivery"})), "delivered"),
            (event(json!({"type": "delay", "bounce_class": "21", "raw_reason": "454 4.4.4 no MX"})), "deferred 4.4.4"),
            (bounce("10", "550 5.1.1 <ann@example.net>: User unknown"), "bounced hard 5.1.1"),
            (bounce("30", "550 no"), "bounced hard"),
            (bounce("22", "552 5.2.2 full"), "bounced soft 5.2.2"),
            (bounce("1", "?"), "bounced soft"),
            (bounce("23", "552 5.3.4 too large"), "bounced policy 5.3.4"),
            (bounce("51", "554 5.7.1 spam"), "bounced policy 5.7.1"),
            (bounce("25", "550 5.1.0 suppressed"), "bounced policy 5.1.0 never_sent"),
            (bounce("90", "unsubscribe"), "unsubscribed"),
            (bounce("60", "on holiday"), "nothing"),
            (bounce("77", "?"), "unreadable"),
            (event(json!({"type": "out_of_band", "bounce_class": "10"})), "bounced hard"),
            (
                event(json!({"type": "policy_rejection", "raw_reason": "550 5.7.1 no"})),
                "bounced policy 5.7.1 never_sent",
            ),
            (
                batch(
                    "gen_event",
                    json!({"type": "generation_rejection", "raw_reason": "554 5.7.1 recipient address suppressed"}),
                ),
                "bounced policy 5.7.1 never_sent",
            ),
            (
                event(json!({"type": "generation_failure", "timestamp": "2026-11-21T11:59:59.000+00:00"})),
                "bounced policy never_sent",
            ),
            (event(json!({"type": "spam_complaint"})), "complained"),
            (batch("unsubscribe_event", json!({"type": "list_unsubscribe"})), "unsubscribed"),
            (batch("unsubscribe_event", json!({"type": "link_unsubscribe"})), "unsubscribed"),
            (batch("track_event", json!({"type": "open"})), "opened"),
            (batch("track_event", json!({"type": "initial_open"})), "opened"),
            (batch("track_event", json!({"type": "click", "target_link_url": "https://app.example.com"})), "clicked"),
            (event(json!({"type": "delivery", "rcpt_meta": {}})), "nameless"),
            (event(json!({"type": "delivery", "timestamp": "soon"})), "unreadable"),
        ]);
    }
}
