//! Events of SES: those of a configuration set, and notifications of an identity.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use tidings_model::delivery_events::{DeliveryEvent, Kind};

use crate::webhooks::{
    Parsed, Part,
    parsed::{HARD, POLICY, SOFT, status, unknown},
};

/// The text that SES publishes when a topic was set up. The text is not JSON.
const VALIDATED: &str = "Successfully validated SNS topic";
/// The tag of a message, and the header for where there are no tags.
const TAG: &str = "tidings_message";
const HEADER: &str = "X-Tidings-Message";

/// Reads the event in the message of an authentic envelope. `id` is that of the envelope.
#[must_use]
pub fn parse(message: &str, id: Option<&str>, now: Timestamp) -> Parsed {
    if message.starts_with(VALIDATED) {
        return Parsed::default();
    }
    Parsed::one(message.as_bytes(), now, |event: Payload| {
        let part = read(event)?;
        Ok(match part {
            Part::Event(event) => Part::event(DeliveryEvent { event_id: id.map(str::to_owned), ..*event }),
            Part::Nothing => Part::Nothing,
        })
    })
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
    /// By the tag, or else by our header, or else by the `Message-ID` that we gave. The id that SES gave comes last.
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

/// The meaning of a bounce, and `true` if SES kept the message back because of a list of its own.
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

/// From everything, or from a topic that the recipient had not left before.
fn unsubscribed(subscription: &Subscription) -> Option<DeliveryEvent> {
    let Subscription { timestamp, new_topic_preferences: new, old_topic_preferences: old } = subscription;
    let mut topics = new.topic_subscription_status.iter().map(|status| &status.topic_name);
    let left = new.unsubscribe_all || topics.any(|topic| new.is_out_of(topic) && !old.is_out_of(topic));
    left.then(|| DeliveryEvent::new(Kind::Unsubscribed, *timestamp))
}
