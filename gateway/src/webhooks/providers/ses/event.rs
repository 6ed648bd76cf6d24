//! SES events from configuration sets, and identity notifications.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use tidings_model::delivery_events::{DeliveryEvent, ReportKind};

use crate::webhooks::{
    ParsedBody, ParsedPart, ProviderWebhook, WebhookSecrets,
    parsed::{HARD, POLICY, SOFT, find_status, unknown_word},
};

/// Plain text (not JSON) published by SES when a topic is set up.
const VALIDATED: &str = "Successfully validated SNS topic";
/// Name of the message tag, and of the header used if there are no tags.
const TAG: &str = "tidings_message";
const HEADER: &str = "X-Tidings-Message";

/// Amazon SES. SNS verifies the envelope; this reads the message inside.
pub struct Ses;

impl ProviderWebhook for Ses {
    fn secret_hint(&self) -> &'static str {
        "nothing"
    }

    fn empty_secrets(&self) -> Option<Arc<dyn WebhookSecrets>> {
        None
    }

    fn parse(&self, body: &[u8], id: Option<&str>, now: Timestamp) -> ParsedBody {
        if body.starts_with(VALIDATED.as_bytes()) {
            return ParsedBody::default();
        }
        ParsedBody::parse_one(body, now, |event: SesPayload| {
            let part = read_event(event)?;
            Ok(match part {
                ParsedPart::Event(event) => {
                    ParsedPart::from_event(DeliveryEvent { event_id: id.map(str::to_owned), ..*event })
                }
                ParsedPart::Nothing => ParsedPart::Nothing,
            })
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SesPayload {
    #[serde(alias = "notificationType")]
    event_type: String,
    #[serde(default)]
    mail: SesMail,
    bounce: Option<BounceDetail>,
    complaint: Option<ComplaintDetail>,
    delivery: Option<SesDelivery>,
    delivery_delay: Option<DeliveryDelay>,
    reject: Option<SesReject>,
    open: Option<SesOpen>,
    click: Option<SesClick>,
    subscription: Option<SesSubscription>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SesMail {
    timestamp: Option<Timestamp>,
    message_id: Option<String>,
    headers: Option<Vec<SesHeader>>,
    tags: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Deserialize)]
struct SesHeader {
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
    bounced_recipients: Vec<SesRecipient>,
    timestamp: Timestamp,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SesRecipient {
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
struct SesDelivery {
    smtp_response: Option<String>,
    timestamp: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryDelay {
    delay_type: Option<String>,
    #[serde(default)]
    delayed_recipients: Vec<SesRecipient>,
    timestamp: Timestamp,
}

#[derive(Deserialize)]
struct SesReject {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct SesOpen {
    timestamp: Timestamp,
}

#[derive(Deserialize)]
struct SesClick {
    timestamp: Timestamp,
    link: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SesSubscription {
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

fn read_event(event: SesPayload) -> Result<ParsedPart, String> {
    let missing = || format!("has no object for {}", event.event_type);
    let found = match event.event_type.as_str() {
        "Bounce" => Some(bounce_event(event.bounce.ok_or_else(missing)?)?),
        "Complaint" => complaint_event(event.complaint.ok_or_else(missing)?),
        "Delivery" => event.delivery.map(|delivery| DeliveryEvent {
            diagnostic: delivery.smtp_response,
            ..DeliveryEvent::new(ReportKind::Delivered, delivery.timestamp)
        }),
        "DeliveryDelay" => Some(delay_event(event.delivery_delay.ok_or_else(missing)?)),
        "Reject" => Some(DeliveryEvent {
            diagnostic: event.reject.and_then(|reject| reject.reason),
            never_sent: true,
            ..DeliveryEvent::new(POLICY, event.mail.timestamp.ok_or_else(missing)?)
        }),
        "Open" => event.open.map(|open| DeliveryEvent::new(ReportKind::Opened, open.timestamp)),
        "Click" => event
            .click
            .map(|click| DeliveryEvent { url: click.link, ..DeliveryEvent::new(ReportKind::Clicked, click.timestamp) }),
        "Subscription" => unsubscribe_event(&event.subscription.ok_or_else(missing)?),
        "Send" | "Rendering Failure" | "AmazonSnsSubscriptionSucceeded" => None,
        other => return Err(unknown_word("eventType", other)),
    };
    Ok(found.map_or(ParsedPart::Nothing, |found| ParsedPart::from_event(event.mail.identify_message(found))))
}

impl SesMail {
    /// By the tag, else our header, else our `Message-ID`, and last by SES's id.
    fn identify_message(self, event: DeliveryEvent) -> DeliveryEvent {
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
pub(crate) fn bounce_kind(bounce_type: &str, sub_type: &str) -> Option<(ReportKind, bool)> {
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

fn bounce_event(bounce: BounceDetail) -> Result<DeliveryEvent, String> {
    let kind = bounce_kind(&bounce.bounce_type, &bounce.bounce_sub_type);
    let (kind, never_sent) = kind.ok_or_else(|| unknown_word("bounceType", &bounce.bounce_type))?;
    let SesRecipient { status: code, diagnostic_code } =
        bounce.bounced_recipients.into_iter().next().unwrap_or_default();
    Ok(DeliveryEvent {
        status: find_status(code.as_deref()),
        diagnostic: diagnostic_code,
        never_sent,
        ..DeliveryEvent::new(kind, bounce.timestamp)
    })
}

fn complaint_event(complaint: ComplaintDetail) -> Option<DeliveryEvent> {
    let never_sent = complaint.complaint_sub_type.as_deref() == Some("OnAccountSuppressionList");
    let about = complaint.complaint_feedback_type;
    if !never_sent && matches!(about.as_deref(), Some("not-spam" | "auth-failure")) {
        return None;
    }
    let event = DeliveryEvent::new(ReportKind::Complained, complaint.timestamp);
    Some(DeliveryEvent { diagnostic: about, never_sent, ..event })
}

fn delay_event(delay: DeliveryDelay) -> DeliveryEvent {
    let SesRecipient { status: code, diagnostic_code } =
        delay.delayed_recipients.into_iter().next().unwrap_or_default();
    DeliveryEvent {
        status: find_status(code.as_deref()),
        diagnostic: diagnostic_code.or(delay.delay_type),
        ..DeliveryEvent::new(ReportKind::Deferred, delay.timestamp)
    }
}

/// Only if the recipient left everything, or left a topic for the first time.
fn unsubscribe_event(subscription: &SesSubscription) -> Option<DeliveryEvent> {
    let SesSubscription { timestamp, new_topic_preferences: new, old_topic_preferences: old } = subscription;
    let mut topics = new.topic_subscription_status.iter().map(|status| &status.topic_name);
    let left = new.unsubscribe_all || topics.any(|topic| new.is_out_of(topic) && !old.is_out_of(topic));
    left.then(|| DeliveryEvent::new(ReportKind::Unsubscribed, *timestamp))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidings_model::delivery_events::MessageReference;

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
        let id = |id: &str| vec![MessageReference::Id(id.parse().unwrap())];
        let headers = json!([{"name": "x-tidings-MESSAGE", "value": header}, {"name": "message-id", "value": "<m@x>"}]);
        let tags = json!({"tidings_message": [tag, "other"]});
        assert_eq!(named(json!({"messageId": "0102", "tags": tags, "headers": headers})), id(tag));
        assert_eq!(named(json!({"tags": {"tidings_message": []}, "headers": headers})), id(header));
        let (message_id, relay_id) =
            (MessageReference::MessageId("m@x".into()), MessageReference::RelayId("0102".into()));
        let mail = json!({"messageId": "0102", "headers": [{"name": "message-id", "value": "<m@x>"}]});
        assert_eq!(named(mail), [message_id, relay_id.clone()]);
        assert_eq!(named(json!({"messageId": "0102", "tags": null})), [relay_id]);
    }
}
