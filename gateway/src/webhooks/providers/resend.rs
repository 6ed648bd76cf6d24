//! Resend's webhooks: one event per request, Svix signatures.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{BounceKind, DeliveryEvent, ReportKind};
use uuid::Uuid;

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, SigningSecret, WebhookSecrets,
    parsed::{HARD, POLICY, unknown_word},
    provider::{LINK, UNKNOWN, bounce_reply, merge_fields},
};

pub(super) struct Resend;

impl ProviderWebhook for Resend {
    fn secret_hint(&self) -> &'static str {
        "the signing secret of the webhook, whsec_..."
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        Some(Arc::new(Vec::<SigningSecret>::new()))
    }

    fn parse(&self, body: &[u8], id: Option<&str>, now: Timestamp) -> ParsedBody {
        ParsedBody::parse_one(body, now, |event| read_event(event, id))
    }

    fn sample_event(&self, kind: ReportKind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let bounced = |kind: &str, sub_type: &str, said: &str| {
            ("email.bounced", json!({"bounce": {"type": kind, "subType": sub_type, "message": said}}))
        };
        let (event, data) = match kind {
            ReportKind::Delivered => ("email.delivered", json!({})),
            ReportKind::Deferred => ("email.delivery_delayed", json!({})),
            ReportKind::Bounced(_) if never_sent => ("email.suppressed", json!({"suppressed": {"message": "a test"}})),
            ReportKind::Bounced(BounceKind::Hard) => bounced("Permanent", "General", bounce_reply(BounceKind::Hard).1),
            ReportKind::Bounced(BounceKind::Soft) => {
                bounced("Transient", "MailboxFull", bounce_reply(BounceKind::Soft).1)
            }
            ReportKind::Bounced(BounceKind::Policy) => {
                bounced("Transient", "ContentRejected", bounce_reply(BounceKind::Policy).1)
            }
            ReportKind::Complained => ("email.complained", json!({})),
            ReportKind::Unsubscribed => return None,
            ReportKind::Opened => ("email.opened", json!({})),
            ReportKind::Clicked => ("email.clicked", json!({"click": {"link": LINK}})),
        };
        let ours = json!({"email_id": Uuid::new_v4(), "headers": [{"name": "X-Tidings-Message", "value": message}]});
        Some(json!({"type": event, "created_at": now, "data": merge_fields(ours, data)}))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"type": UNKNOWN, "created_at": now, "data": {"email_id": id}})
    }
}

#[derive(Deserialize)]
struct ResendPayload {
    #[serde(rename = "type")]
    kind: String,
    /// Time of the event. The one in `data` belongs to the message.
    created_at: Timestamp,
    #[serde(default)]
    data: ResendData,
}

#[derive(Default, Deserialize)]
struct ResendData {
    email_id: Option<String>,
    message_id: Option<String>,
    headers: Option<Vec<ResendHeader>>,
    bounce: Option<ResendBounce>,
    click: Option<ResendClick>,
    failed: Option<ResendFailure>,
    suppressed: Option<ResendSuppression>,
}

#[derive(Deserialize)]
struct ResendHeader {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct ResendBounce {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "subType")]
    sub_type: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct ResendClick {
    link: Option<String>,
}

#[derive(Deserialize)]
struct ResendFailure {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResendSuppression {
    message: Option<String>,
}

fn read_event(event: ResendPayload, id: Option<&str>) -> Result<ParsedPart, String> {
    let ResendData { email_id, message_id, headers, bounce, click, failed, suppressed } = event.data;
    let (kind, never_sent) = match event.kind.as_str() {
        "email.sent" | "email.scheduled" | "email.received" => return Ok(ParsedPart::Nothing),
        "email.delivered" => (ReportKind::Delivered, false),
        "email.delivery_delayed" => (ReportKind::Deferred, false),
        "email.bounced" => bounce_kind(bounce.as_ref())?,
        "email.complained" => (ReportKind::Complained, false),
        "email.opened" => (ReportKind::Opened, false),
        "email.clicked" => (ReportKind::Clicked, false),
        "email.failed" => (POLICY, true),
        "email.suppressed" => (HARD, true),
        other if ["contact.", "domain.", "suppression."].iter().any(|of| other.starts_with(of)) => {
            return Ok(ParsedPart::Nothing);
        }
        other => return Err(unknown_word("type", other)),
    };
    let ours = |header: &ResendHeader| header.name.eq_ignore_ascii_case("X-Tidings-Message");
    let message = headers.into_iter().flatten().find(ours).map(|header| header.value);
    let said = [
        bounce.and_then(|bounce| bounce.message),
        failed.and_then(|failed| failed.reason),
        suppressed.and_then(|suppressed| suppressed.message),
    ];
    Ok(ParsedPart::from_event(DeliveryEvent {
        message,
        message_id,
        relay_id: email_id,
        diagnostic: said.into_iter().flatten().next(),
        event_id: id.map(str::to_owned),
        never_sent,
        url: click.and_then(|click| click.link).filter(|_| kind == ReportKind::Clicked),
        ..DeliveryEvent::new(kind, event.created_at)
    }))
}

/// Resend sends through Amazon SES, so these are SES's terms.
fn bounce_kind(bounce: Option<&ResendBounce>) -> Result<(ReportKind, bool), String> {
    let bounce = bounce.ok_or("a bounce without its type")?;
    let sub_type = bounce.sub_type.as_deref().unwrap_or_default();
    super::ses::bounce_kind(bounce.kind.as_deref().unwrap_or_default(), sub_type)
        .ok_or_else(|| unknown_word("bounce.type", bounce.kind.as_deref().unwrap_or_default()))
}
