//! SparkPost's event webhooks: an array of events, each inside an object named after its class; Basic
//! credentials because SparkPost does not sign.
//!
//! developers.sparkpost.com/api/webhooks and /smtp, support.sparkpost.com on webhook authentication and
//! bounce classification codes; fixtures of Anymail.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{BounceKind, DeliveryEvent, ReportKind};
use uuid::Uuid;

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, WebhookSecrets,
    basic::BasicCredentials,
    parsed::{HARD, POLICY, SOFT, find_status, seconds, unknown_word},
    provider::{LINK, UNKNOWN, bounce_reply, merge_fields},
};

pub(super) struct SparkPost;

impl ProviderWebhook for SparkPost {
    fn secret_hint(&self) -> &'static str {
        "USER:PASSWORD of the webhook's basic authentication"
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        Some(Arc::new(Vec::<BasicCredentials>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> ParsedBody {
        ParsedBody::parse_any(body, now, read_event)
    }

    fn sample_event(&self, kind: ReportKind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let event = json!({"timestamp": now.as_second().to_string(), "event_id": Uuid::new_v4(),
            "rcpt_meta": {"tidings_message": message}});
        let bounce = |class: &str, said: &str| json!({"type": "bounce", "bounce_class": class, "raw_reason": said});
        let of_kind = match kind {
            ReportKind::Delivered => json!({"type": "delivery"}),
            ReportKind::Deferred => {
                json!({"type": "delay", "bounce_class": "70", "raw_reason": "451 4.3.0 a test: later"})
            }
            // SparkPost uses this class for everything it suppresses, so the address need not be wrong.
            ReportKind::Bounced(_) if never_sent => return None,
            ReportKind::Bounced(BounceKind::Hard) => bounce("10", bounce_reply(BounceKind::Hard).1),
            ReportKind::Bounced(BounceKind::Soft) => bounce("22", bounce_reply(BounceKind::Soft).1),
            ReportKind::Bounced(BounceKind::Policy) => bounce("50", bounce_reply(BounceKind::Policy).1),
            ReportKind::Complained => json!({"type": "spam_complaint"}),
            ReportKind::Unsubscribed => json!({"type": "list_unsubscribe"}),
            ReportKind::Opened => json!({"type": "open"}),
            ReportKind::Clicked => json!({"type": "click", "target_link_url": LINK}),
        };
        let class = match kind {
            ReportKind::Opened | ReportKind::Clicked => "track_event",
            ReportKind::Unsubscribed => "unsubscribe_event",
            _ => "message_event",
        };
        Some(json!([{"msys": {class: merge_fields(event, of_kind)}}]))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"msys": {"message_event": {"type": UNKNOWN, "timestamp": now.as_second().to_string(), "event_id": id}}})
    }
}

#[derive(Deserialize)]
struct SparkPostBody {
    /// Event by class name. Empty in a request testing the URL.
    msys: BTreeMap<String, SparkPostPayload>,
}

#[derive(Deserialize)]
struct SparkPostPayload {
    #[serde(rename = "type")]
    kind: String,
    timestamp: SparkPostTime,
    event_id: Option<String>,
    bounce_class: Option<String>,
    raw_reason: Option<String>,
    reason: Option<String>,
    target_link_url: Option<String>,
    rcpt_meta: Option<SparkPostMetadata>,
}

/// Seconds, or RFC 3339 in some generation events.
#[derive(Deserialize)]
#[serde(untagged)]
enum SparkPostTime {
    Number(i64),
    Text(String),
}

#[derive(Deserialize)]
struct SparkPostMetadata {
    tidings_message: Option<String>,
}

fn read_event(body: SparkPostBody) -> Result<ParsedPart, String> {
    let Some(event) = body.msys.into_values().next() else { return Ok(ParsedPart::Nothing) };
    let Some((kind, never_sent)) = event_kind(&event)? else { return Ok(ParsedPart::Nothing) };
    let at = match event.timestamp {
        SparkPostTime::Number(number) => seconds(number)?,
        SparkPostTime::Text(text) => match text.parse() {
            Ok(number) => seconds(number)?,
            Err(_) => text.parse().map_err(|error| format!("timestamp: {error}"))?,
        },
    };
    let reason = event.raw_reason.or(event.reason);
    Ok(ParsedPart::from_event(DeliveryEvent {
        message: event.rcpt_meta.and_then(|metadata| metadata.tidings_message),
        status: find_status(reason.as_deref()).filter(|_| kind.bounce().is_some() || kind == ReportKind::Deferred),
        diagnostic: reason,
        event_id: event.event_id,
        never_sent,
        url: event.target_link_url.filter(|_| kind == ReportKind::Clicked),
        ..DeliveryEvent::new(kind, at)
    }))
}

fn event_kind(event: &SparkPostPayload) -> Result<Option<(ReportKind, bool)>, String> {
    Ok(match event.kind.as_str() {
        "injection" => None,
        "delivery" => Some((ReportKind::Delivered, false)),
        "delay" => Some((ReportKind::Deferred, false)),
        "bounce" | "out_of_band" => bounce_kind(event.bounce_class.as_deref().unwrap_or_default())?,
        "policy_rejection" | "generation_rejection" | "generation_failure" => Some((POLICY, true)),
        "spam_complaint" => Some((ReportKind::Complained, false)),
        "list_unsubscribe" | "link_unsubscribe" => Some((ReportKind::Unsubscribed, false)),
        "open" | "initial_open" | "amp_open" | "amp_initial_open" => Some((ReportKind::Opened, false)),
        "click" | "amp_click" => Some((ReportKind::Clicked, false)),
        other => return Err(unknown_word("type", other)),
    })
}

/// Uses SparkPost's bounce classification. An automatic reply is not a bounce.
fn bounce_kind(class: &str) -> Result<Option<(ReportKind, bool)>, String> {
    Ok(match class {
        "10" | "30" => Some((HARD, false)),
        "1" | "20" | "21" | "22" | "24" | "40" | "70" => Some((SOFT, false)),
        // Too large, or rejected by the receiver.
        "23" | "50" | "51" | "52" | "53" | "54" => Some((POLICY, false)),
        // Not sent by SparkPost, e.g. because of its suppression list.
        "25" | "26" => Some((POLICY, true)),
        "90" => Some((ReportKind::Unsubscribed, false)),
        "60" | "80" | "100" => None,
        other => return Err(unknown_word("bounce_class", other)),
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
