//! SES events from configuration sets, and identity notifications.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use tidings_model::delivery_events::{DeliveryEvent, Kind};

use crate::webhooks::{
    Parsed, Part, Secrets, Webhook,
    parsed::{HARD, POLICY, SOFT, status, unknown},
};

/// Plain text (not JSON) published by SES when a topic is set up.
const VALIDATED: &str = "Successfully validated SNS topic";
/// Name of the message tag, and of the header used if there are no tags.
const TAG: &str = "tidings_message";
const HEADER: &str = "X-Tidings-Message";

/// Amazon SES. SNS verifies the envelope; this reads the message inside.
pub struct Ses;

impl Webhook for Ses {
    fn secret(&self) -> &'static str {
        "nothing"
    }

    fn secrets(&self) -> Option<Arc<dyn Secrets>> {
        None
    }

    fn parse(&self, body: &[u8], id: Option<&str>, now: Timestamp) -> Parsed {
        if body.starts_with(VALIDATED.as_bytes()) {
            return Parsed::default();
        }
        Parsed::one(body, now, |event: Payload| {
            let part = read(event)?;
            Ok(match part {
                Part::Event(event) => Part::event(DeliveryEvent { event_id: id.map(str::to_owned), ..*event }),
                Part::Nothing => Part::Nothing,
            })
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    #[serde(alias = "notificationType")]
    event_type: String,
    #[serde(default)]
    mail: Mail,
    bounce: Option<BounceDetail>,
    complaint: Option<ComplaintDetail>,
    delivery: Option<Delivery>,
    delivery_delay: Option<DeliveryDelay>,
    reject: Option<Reject>,
    open: Option<Open>,
    click: Option<Click>,
    subscription: Option<Subscription>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mail {
    timestamp: Option<Timestamp>,
    message_id: Option<String>,
    headers: Option<Vec<Header>>,
    tags: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BounceDetail {
    bounce_type: String,
    #[serde(default)]
    bounce_sub_type: String,
    #[serde(default)]
    bounced_recipients: Vec<Recipient>,
    timestamp: Timestamp,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recipient {
    status: Option<String>,
    diagnostic_code: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ComplaintDetail {
    complaint_feedback_type: Option<String>,
    complaint_sub_type: Option<String>,
    timestamp: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    smtp_response: Option<String>,
    timestamp: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryDelay {
    delay_type: Option<String>,
    #[serde(default)]
    delayed_recipients: Vec<Recipient>,
    timestamp: Timestamp,
}

#[derive(Deserialize)]
struct Reject {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Open {
    timestamp: Timestamp,
}

#[derive(Deserialize)]
struct Click {
    timestamp: Timestamp,
    link: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    timestamp: Timestamp,
    #[serde(default)]
    new_topic_preferences: TopicPreferences,
    #[serde(default)]
    old_topic_preferences: TopicPreferences,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopicPreferences {
    #[serde(default)]
    unsubscribe_all: bool,
    #[serde(default)]
    topic_subscription_status: Vec<TopicStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopicStatus {
    topic_name: String,
    subscription_status: String,
}

impl TopicPreferences {
    fn is_out_of(&self, topic: &str) -> bool {
        let status = self.topic_subscription_status.iter().find(|status| status.topic_name == topic);
        status.is_some_and(|status| status.subscription_status == "OptOut")
    }
}

fn read(event: Payload) -> Result<Part, String> {
    let missing = || format!("has no object for {}", event.event_type);
    let found = match event.event_type.as_str() {
        "Bounce" => Some(bounced(event.bounce.ok_or_else(missing)?)?),
        "Complaint" => complained(event.complaint.ok_or_else(missing)?),
        "Delivery" => event.delivery.map(|delivery| DeliveryEvent {
            diagnostic: delivery.smtp_response,
            ..DeliveryEvent::new(Kind::Delivered, delivery.timestamp)
        }),
        "DeliveryDelay" => Some(deferred(event.delivery_delay.ok_or_else(missing)?)),
        "Reject" => Some(DeliveryEvent {
            diagnostic: event.reject.and_then(|reject| reject.reason),
            never_sent: true,
            ..DeliveryEvent::new(POLICY, event.mail.timestamp.ok_or_else(missing)?)
        }),
        "Open" => event.open.map(|open| DeliveryEvent::new(Kind::Opened, open.timestamp)),
        "Click" => event
            .click
            .map(|click| DeliveryEvent { url: click.link, ..DeliveryEvent::new(Kind::Clicked, click.timestamp) }),
        "Subscription" => unsubscribed(&event.subscription.ok_or_else(missing)?),
        "Send" | "Rendering Failure" | "AmazonSnsSubscriptionSucceeded" => None,
        other => return Err(unknown("eventType", other)),
    };
    Ok(found.map_or(Part::Nothing, |found| Part::event(event.mail.name(found))))
}

impl Mail {
    /// By the tag, else our header, else our `Message-ID`, and last by SES's id.
    fn name(self, event: DeliveryEvent) -> DeliveryEvent {
        let headers = self.headers.unwrap_or_default();
        let header = |name: &str| {
            let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            header.map(|header| header.value.clone())
        };
        let tag = self.tags.and_then(|mut tags| tags.remove(TAG)?.into_iter().next());
        DeliveryEvent {
            message: tag.or_else(|| header(HEADER)),
            message_id: header("Message-ID"),
            relay_id: self.message_id,
            ..event
        }
    }
}

/// Returns `true` if SES did not send the message because of its own list.
pub(crate) fn bounce_kind(bounce_type: &str, sub_type: &str) -> Option<(Kind, bool)> {
    match (bounce_type, sub_type) {
        (
            "Permanent",
            "Suppressed" | "OnAccountSuppressionList" | "OnTenantSuppressionList" | "EmailValidationSuppressed",
        ) => Some((HARD, true)),
        ("Permanent", _) => Some((HARD, false)),
        ("Transient", "MessageTooLarge" | "ContentRejected" | "AttachmentRejected") => Some((POLICY, false)),
        ("Transient" | "Undetermined", _) => Some((SOFT, false)),
        _ => None,
    }
}

fn bounced(bounce: BounceDetail) -> Result<DeliveryEvent, String> {
    let kind = bounce_kind(&bounce.bounce_type, &bounce.bounce_sub_type);
    let (kind, never_sent) = kind.ok_or_else(|| unknown("bounceType", &bounce.bounce_type))?;
    let Recipient { status: code, diagnostic_code } = bounce.bounced_recipients.into_iter().next().unwrap_or_default();
    Ok(DeliveryEvent {
        status: status(code.as_deref()),
        diagnostic: diagnostic_code,
        never_sent,
        ..DeliveryEvent::new(kind, bounce.timestamp)
    })
}

fn complained(complaint: ComplaintDetail) -> Option<DeliveryEvent> {
    let never_sent = complaint.complaint_sub_type.as_deref() == Some("OnAccountSuppressionList");
    let about = complaint.complaint_feedback_type;
    if !never_sent && matches!(about.as_deref(), Some("not-spam" | "auth-failure")) {
        return None;
    }
    let event = DeliveryEvent::new(Kind::Complained, complaint.timestamp);
    Some(DeliveryEvent { diagnostic: about, never_sent, ..event })
}

fn deferred(delay: DeliveryDelay) -> DeliveryEvent {
    let Recipient { status: code, diagnostic_code } = delay.delayed_recipients.into_iter().next().unwrap_or_default();
    DeliveryEvent {
        status: status(code.as_deref()),
        diagnostic: diagnostic_code.or(delay.delay_type),
        ..DeliveryEvent::new(Kind::Deferred, delay.timestamp)
    }
}

/// Only if the recipient left everything, or left a topic for the first time.
fn unsubscribed(subscription: &Subscription) -> Option<DeliveryEvent> {
    let Subscription { timestamp, new_topic_preferences: new, old_topic_preferences: old } = subscription;
    let mut topics = new.topic_subscription_status.iter().map(|status| &status.topic_name);
    let left = new.unsubscribe_all || topics.any(|topic| new.is_out_of(topic) && !old.is_out_of(topic));
    left.then(|| DeliveryEvent::new(Kind::Unsubscribed, *timestamp))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidings_model::delivery_events::Which;

    use super::*;
    use crate::webhooks::tests::{ID, assert_rows, now, with};

    #[test]
    fn rows_of_ses_that_no_vector_has() {
        let base = json!({"mail": {"timestamp": "2026-11-21T11:59:58.000Z", "tags": {"tidings_message": [ID]}}});
        let ses = |of: Value| Ses.parse(with(&base, &of).as_bytes(), Some("sns"), now());
        let at = "2026-11-21T11:59:59.000Z";
        let bounce = |kind: &str, sub: &str| json!({"eventType": "Bounce", "bounce": {"bounceType": kind, "bounceSubType": sub, "timestamp": at}});
        let topics = |new: &str, old: &str| {
            let preferences = |status: &str| json!({"unsubscribeAll": false, "topicSubscriptionStatus": [{"topicName": "a", "subscriptionStatus": status}]});
            json!({"eventType": "Subscription", "subscription": {"timestamp": at, "newTopicPreferences": preferences(new),
                "oldTopicPreferences": preferences(old)}})
        };
        assert_rows([
            (ses(bounce("Permanent", "NoEmail")), "bounced hard"),
            (ses(bounce("Permanent", "Suppressed")), "bounced hard never_sent"),
            (ses(bounce("Permanent", "EmailValidationSuppressed")), "bounced hard never_sent"),
            (ses(bounce("Transient", "CustomTimeoutExceeded")), "bounced soft"),
            (ses(bounce("Transient", "MessageTooLarge")), "bounced policy"),
            (ses(bounce("New", "General")), "unreadable"),
            (ses(json!({"eventType": "Bounce"})), "unreadable"),
            (ses(json!({"eventType": "Send"})), "nothing"),
            (ses(json!({"eventType": "Rendering Failure"})), "nothing"),
            (
                ses(
                    json!({"eventType": "Complaint", "complaint": {"timestamp": at, "complaintFeedbackType": "fraud"}}),
                ),
                "complained",
            ),
            (
                ses(
                    json!({"eventType": "Complaint", "complaint": {"timestamp": at, "complaintFeedbackType": "not-spam"}}),
                ),
                "nothing",
            ),
            (
                ses(
                    json!({"eventType": "DeliveryDelay", "deliveryDelay": {"timestamp": at, "delayType": "MailboxFull",
                    "delayedRecipients": [{"status": "4.2.2"}]}}),
                ),
                "deferred 4.2.2",
            ),
            (
                ses(
                    json!({"eventType": "Subscription", "subscription": {"timestamp": at, "newTopicPreferences": {"unsubscribeAll": true}}}),
                ),
                "unsubscribed",
            ),
            (ses(topics("OptOut", "OptIn")), "unsubscribed"),
            (ses(topics("OptOut", "OptOut")), "nothing"),
            (ses(topics("OptIn", "OptOut")), "nothing"),
            (ses(json!({"eventType": "Quantum"})), "unreadable"),
        ]);
    }

    #[test]
    fn a_message_of_ses_has_three_names() {
        let named = |mail: Value| {
            let event = json!({"eventType": "Open", "open": {"timestamp": "2026-11-21T11:59:59.000Z"}, "mail": mail});
            let event = Ses.parse(event.to_string().as_bytes(), None, now()).events.remove(0);
            event.of
        };
        let [tag, header] = ["01234567-89ab-5def-8123-456789abcdef", "11111111-1111-5111-8111-111111111111"];
        let id = |id: &str| vec![Which::Id(id.parse().unwrap())];
        let headers = json!([{"name": "x-tidings-MESSAGE", "value": header}, {"name": "message-id", "value": "<m@x>"}]);
        let tags = json!({"tidings_message": [tag, "other"]});
        assert_eq!(named(json!({"messageId": "0102", "tags": tags, "headers": headers})), id(tag));
        assert_eq!(named(json!({"tags": {"tidings_message": []}, "headers": headers})), id(header));
        let (message_id, relay_id) = (Which::MessageId("m@x".into()), Which::RelayId("0102".into()));
        let mail = json!({"messageId": "0102", "headers": [{"name": "message-id", "value": "<m@x>"}]});
        assert_eq!(named(mail), [message_id, relay_id.clone()]);
        assert_eq!(named(json!({"messageId": "0102", "tags": null})), [relay_id]);
    }
}
