//! Resend's webhooks: one event per request, Svix signatures.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_model::delivery_events::{Bounce, DeliveryEvent, Kind};
use uuid::Uuid;

use crate::webhooks::{
    Parsed, Part, Secret, Secrets, Webhook,
    parsed::{HARD, POLICY, unknown},
    provider::{LINK, UNKNOWN, merged, refusal},
};

pub(super) struct Resend;

impl Webhook for Resend {
    fn secret(&self) -> &'static str {
        "the signing secret of the webhook, whsec_..."
    }

    fn secrets(&self) -> Option<Arc<dyn Secrets>> {
        Some(Arc::new(Vec::<Secret>::new()))
    }

    fn parse(&self, body: &[u8], id: Option<&str>, now: Timestamp) -> Parsed {
        Parsed::one(body, now, |event| read(event, id))
    }

    fn event(&self, kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
        let bounced = |kind: &str, sub_type: &str, said: &str| {
            ("email.bounced", json!({"bounce": {"type": kind, "subType": sub_type, "message": said}}))
        };
        let (event, data) = match kind {
            Kind::Delivered => ("email.delivered", json!({})),
            Kind::Deferred => ("email.delivery_delayed", json!({})),
            Kind::Bounced(_) if never_sent => ("email.suppressed", json!({"suppressed": {"message": "a test"}})),
            Kind::Bounced(Bounce::Hard) => bounced("Permanent", "General", refusal(Bounce::Hard).1),
            Kind::Bounced(Bounce::Soft) => bounced("Transient", "MailboxFull", refusal(Bounce::Soft).1),
            Kind::Bounced(Bounce::Policy) => bounced("Transient", "ContentRejected", refusal(Bounce::Policy).1),
            Kind::Complained => ("email.complained", json!({})),
            Kind::Unsubscribed => return None,
            Kind::Opened => ("email.opened", json!({})),
            Kind::Clicked => ("email.clicked", json!({"click": {"link": LINK}})),
        };
        let ours = json!({"email_id": Uuid::new_v4(), "headers": [{"name": "X-Tidings-Message", "value": message}]});
        Some(json!({"type": event, "created_at": now, "data": merged(ours, data)}))
    }

    fn unknown_kind(&self, id: Uuid, now: Timestamp) -> Value {
        json!({"type": UNKNOWN, "created_at": now, "data": {"email_id": id}})
    }
}

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    /// Time of the event. The one in `data` belongs to the message.
    created_at: Timestamp,
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
struct Data {
    email_id: Option<String>,
    message_id: Option<String>,
    headers: Option<Vec<Header>>,
    bounce: Option<Bounced>,
    click: Option<Click>,
    failed: Option<Failed>,
    suppressed: Option<Suppressed>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Bounced {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "subType")]
    sub_type: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Click {
    link: Option<String>,
}

#[derive(Deserialize)]
struct Failed {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Suppressed {
    message: Option<String>,
}

fn read(event: Payload, id: Option<&str>) -> Result<Part, String> {
    let Data { email_id, message_id, headers, bounce, click, failed, suppressed } = event.data;
    let (kind, never_sent) = match event.kind.as_str() {
        "email.sent" | "email.scheduled" | "email.received" => return Ok(Part::Nothing),
        "email.delivered" => (Kind::Delivered, false),
        "email.delivery_delayed" => (Kind::Deferred, false),
        "email.bounced" => bounced(bounce.as_ref())?,
        "email.complained" => (Kind::Complained, false),
        "email.opened" => (Kind::Opened, false),
        "email.clicked" => (Kind::Clicked, false),
        "email.failed" => (POLICY, true),
        "email.suppressed" => (HARD, true),
        other if ["contact.", "domain.", "suppression."].iter().any(|of| other.starts_with(of)) => {
            return Ok(Part::Nothing);
        }
        other => return Err(unknown("type", other)),
    };
    let ours = |header: &Header| header.name.eq_ignore_ascii_case("X-Tidings-Message");
    let message = headers.into_iter().flatten().find(ours).map(|header| header.value);
    let said = [
        bounce.and_then(|bounce| bounce.message),
        failed.and_then(|failed| failed.reason),
        suppressed.and_then(|suppressed| suppressed.message),
    ];
    Ok(Part::event(DeliveryEvent {
        message,
        message_id,
        relay_id: email_id,
        diagnostic: said.into_iter().flatten().next(),
        event_id: id.map(str::to_owned),
        never_sent,
        url: click.and_then(|click| click.link).filter(|_| kind == Kind::Clicked),
        ..DeliveryEvent::new(kind, event.created_at)
    }))
}

/// Resend sends through Amazon SES, so these are SES's terms.
fn bounced(bounce: Option<&Bounced>) -> Result<(Kind, bool), String> {
    let bounce = bounce.ok_or("a bounce without its type")?;
    let sub_type = bounce.sub_type.as_deref().unwrap_or_default();
    super::ses::bounce_kind(bounce.kind.as_deref().unwrap_or_default(), sub_type)
        .ok_or_else(|| unknown("bounce.type", bounce.kind.as_deref().unwrap_or_default()))
}
