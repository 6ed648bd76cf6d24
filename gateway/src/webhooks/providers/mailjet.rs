//! Mailjet's Event API: an array of events or one event, Basic credentials because Mailjet does not sign.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{BounceKind, DeliveryEvent, ReportKind};
use uuid::Uuid;

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, WebhookSecrets,
    basic::BasicCredentials,
    parsed::{HARD, POLICY, SOFT, seconds, unknown_word},
    provider::{LINK, UNKNOWN, merge_fields},
};

pub(super) struct Mailjet;

impl ProviderWebhook for Mailjet {
    fn secret_hint(&self) -> &'static str {
        "USER:PASSWORD of the webhook's URL"
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        Some(Arc::new(Vec::<BasicCredentials>::new()))
    }

    fn parse(&self, body: &[u8], _id: Option<&str>, now: Timestamp) -> ParsedBody {
        ParsedBody::parse_any(body, now, read_event)
    }

    fn sample_event(&self, kind: ReportKind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let event = json!({"time": now.as_second(), "CustomID": message, "Message_GUID": Uuid::new_v4()});
        let of_kind = match kind {
            ReportKind::Delivered => json!({"event": "sent"}),
            ReportKind::Deferred => json!({"event": "bounce", "hard_bounce": false, "error": "greylisted"}),
            ReportKind::Bounced(_) if never_sent => {
                json!({"event": "blocked", "error": "preblocked", "comment": "a test"})
            }
            ReportKind::Bounced(BounceKind::Hard) => {
                json!({"event": "bounce", "hard_bounce": true, "error": "user unknown"})
            }
            ReportKind::Bounced(BounceKind::Soft) => {
                json!({"event": "bounce", "hard_bounce": false, "error": "mailbox full"})
            }
            ReportKind::Bounced(BounceKind::Policy) => {
                json!({"event": "bounce", "hard_bounce": false, "error_related_to": "content", "error": "a test"})
            }
            ReportKind::Complained => json!({"event": "spam"}),
            ReportKind::Unsubscribed => json!({"event": "unsub"}),
            ReportKind::Opened => json!({"event": "open"}),
            ReportKind::Clicked => json!({"event": "click", "url": LINK}),
        };
        Some(merge_fields(event, of_kind))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"event": UNKNOWN, "time": now.as_second(), "Message_GUID": id})
    }
}

#[derive(Deserialize)]
struct MailjetPayload {
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

fn read_event(event: MailjetPayload) -> Result<ParsedPart, String> {
    let kind = match event.event.as_str() {
        "sent" => Some((ReportKind::Delivered, false)),
        "open" => Some((ReportKind::Opened, false)),
        "click" => Some((ReportKind::Clicked, false)),
        "spam" => Some((ReportKind::Complained, false)),
        "unsub" => Some((ReportKind::Unsubscribed, false)),
        "bounce" => Some((bounce_kind(&event), false)),
        "blocked" => blocked_kind(event.error.as_deref().unwrap_or_default()).map(|kind| (kind, true)),
        other => return Err(unknown_word("event", other)),
    };
    let Some((kind, never_sent)) = kind else { return Ok(ParsedPart::Nothing) };
    // Other messages of the account may use ids and campaigns differently.
    let ours = |id: &String| Uuid::try_parse(id).is_ok();
    let error = event.error.filter(|error| !error.is_empty()).map(|error| match event.comment.as_deref() {
        None | Some("") => error,
        Some(comment) => format!("{error}: {comment}"),
    });
    Ok(ParsedPart::from_event(DeliveryEvent {
        message: [event.custom_id, event.customcampaign].into_iter().flatten().find(ours),
        relay_id: event.guid.filter(|id| !id.is_empty()),
        diagnostic: error.or(event.smtp_reply),
        never_sent,
        url: event.url.filter(|url| kind == ReportKind::Clicked && !url.is_empty()),
        ..DeliveryEvent::new(kind, seconds(event.time)?)
    }))
}

fn bounce_kind(event: &MailjetPayload) -> ReportKind {
    let error = event.error.as_deref().unwrap_or_default();
    let is_hard = event.hard_bounce == Some(true);
    match event.error_related_to.as_deref() {
        _ if error == "greylisted" && !is_hard => ReportKind::Deferred,
        _ if is_hard => HARD,
        Some("spam" | "content") => POLICY,
        _ if error == "relay/access denied" => POLICY,
        _ => SOFT,
    }
}

/// `None` for a duplicate, because the first copy was sent.
fn blocked_kind(error: &str) -> Option<ReportKind> {
    match error {
        "duplicate in campaign" => None,
        "preblocked" | "user unknown" | "blacklisted" => Some(HARD),
        "spam reporter" => Some(ReportKind::Complained),
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
