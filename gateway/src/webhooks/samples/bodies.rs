//! Events in the words of each provider.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_model::{
    Provider,
    delivery_events::{Bounce, Kind},
};
use uuid::Uuid;

/// A link that no message has.
const LINK: &str = "https://tidings.example/test";
const KIND: &str = "tidings_test";

/// The event about a message. `None` if the provider has no such event.
pub(super) fn event(provider: Provider, kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
    match provider {
        Provider::Mailgun => Some(mailgun(kind, never_sent, message, now)),
        Provider::Postmark => (!never_sent).then(|| postmark(kind, message, now)),
        Provider::Resend => resend(kind, never_sent, message, now),
        Provider::Mailjet => Some(mailjet(kind, never_sent, message, now)),
        Provider::Ses | Provider::SendGrid | Provider::Other => Some(generic(kind, never_sent, message, now)),
    }
}

/// An event of a kind that the provider does not have. The id makes it a letter of its own.
pub(super) fn unknown_kind(provider: Provider, now: Timestamp) -> Value {
    let id = Uuid::new_v4();
    match provider {
        Provider::Mailgun => json!({"event": KIND, "timestamp": now.as_second(), "id": id}),
        Provider::Postmark => json!({"RecordType": KIND, "MessageID": id}),
        Provider::Resend => json!({"type": KIND, "created_at": now, "data": {"email_id": id}}),
        Provider::Mailjet => json!({"event": KIND, "time": now.as_second(), "Message_GUID": id}),
        Provider::Ses | Provider::SendGrid | Provider::Other => {
            json!({"kind": KIND, "occurred_at": now, "relay_id": id})
        }
    }
}

/// The enhanced status code and the words of a server that gave the message up.
const fn refusal(bounce: Bounce) -> (&'static str, &'static str) {
    match bounce {
        Bounce::Hard => ("5.1.1", "550 5.1.1 a test: no such user"),
        Bounce::Soft => ("4.2.2", "452 4.2.2 a test: the mailbox is full"),
        Bounce::Policy => ("5.7.1", "550 5.7.1 a test: refused by policy"),
    }
}

fn merged(mut event: Value, more: Value) -> Value {
    if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
        event.extend(more);
    }
    event
}

fn mailgun(kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Value {
    let event =
        json!({"timestamp": now.as_second(), "id": Uuid::new_v4(), "user-variables": {"tidings_message": message}});
    let of_kind = match kind {
        Kind::Delivered => json!({"event": "delivered"}),
        Kind::Deferred => json!({"event": "failed", "severity": "temporary"}),
        Kind::Bounced(_) if never_sent => {
            json!({"event": "failed", "severity": "permanent", "reason": "suppress-bounce", "delivery-status": {"code": 605}})
        }
        Kind::Bounced(bounce) => {
            let (status, said) = refusal(bounce);
            let code = if bounce == Bounce::Soft { 452 } else { 550 };
            let refused = json!({"code": code, "enhanced-code": status, "message": said});
            json!({"event": "failed", "severity": "permanent", "delivery-status": refused})
        }
        Kind::Complained => json!({"event": "complained"}),
        Kind::Unsubscribed => json!({"event": "unsubscribed"}),
        Kind::Opened => json!({"event": "opened"}),
        Kind::Clicked => json!({"event": "clicked", "url": LINK}),
    };
    merged(event, of_kind)
}

fn postmark(kind: Kind, message: Uuid, now: Timestamp) -> Value {
    let event = json!({"MessageID": Uuid::new_v4(), "Metadata": {"tidings-message": message}});
    let bounce =
        |kind: &str, said: &str| json!({"RecordType": "Bounce", "Type": kind, "BouncedAt": now, "Details": said});
    let of_kind = match kind {
        Kind::Delivered => json!({"RecordType": "Delivery", "DeliveredAt": now}),
        Kind::Deferred => bounce("Transient", "451 4.3.0 a test: later"),
        Kind::Bounced(of) => {
            let kind = match of {
                Bounce::Hard => "HardBounce",
                Bounce::Soft => "SoftBounce",
                Bounce::Policy => "Blocked",
            };
            bounce(kind, refusal(of).1)
        }
        Kind::Complained => json!({"RecordType": "SpamComplaint", "BouncedAt": now}),
        Kind::Unsubscribed => json!({"RecordType": "SubscriptionChange", "ChangedAt": now, "SuppressSending": true,
                                     "SuppressionReason": "ManualSuppression", "Origin": "Recipient"}),
        Kind::Opened => json!({"RecordType": "Open", "ReceivedAt": now}),
        Kind::Clicked => json!({"RecordType": "Click", "ReceivedAt": now, "OriginalLink": LINK}),
    };
    merged(event, of_kind)
}

fn resend(kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Option<Value> {
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

fn mailjet(kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Value {
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
    merged(event, of_kind)
}

fn generic(kind: Kind, never_sent: bool, message: Uuid, now: Timestamp) -> Value {
    let mut event = json!({"kind": kind.name(), "message": message, "occurred_at": now, "never_sent": never_sent});
    if let Some(bounce) = kind.bounce() {
        let (status, said) = refusal(bounce);
        event = merged(event, json!({"bounce": bounce.name(), "status": status, "diagnostic": said}));
    }
    if kind == Kind::Clicked {
        event = merged(event, json!({"url": LINK}));
    }
    event
}
