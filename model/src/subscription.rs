//! Webhooks to services that subscribed: what a notice says, what the answer to it means, and when it is tried again.
//!
//! A notice is about one fact. It carries ids and closed sets, and neither an address nor a part of a message.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{settings::ServiceUrl, webhook_secret::Secret};

mod result;
mod retries;

pub use result::DeliveryResult;
pub use retries::{GIVE_UP_AFTER, Settled, away_for, retry_at, settled};

/// Time limit of one delivery. Standard Webhooks asks for 15 to 30 s.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Bytes of an answer that are read. Only its status counts.
pub const ANSWER_BYTES: usize = 64 << 10;
/// The most notices of a subscription that are counted for operators, of those that wait and of dead letters.
pub const COUNTED: u32 = 100_000;

closed_set! {
    /// The type of a notice.
    pub enum NoticeType {
        /// A relay accepted a digest.
        DigestSent = "digest.sent",
        /// A digest failed, or is ambiguous.
        DigestFailed = "digest.failed",
        /// A window ended without an email.
        DigestSkipped = "digest.skipped",
        /// A relay accepted a single message.
        MessageSent = "message.sent",
        /// A single message failed, or is ambiguous.
        MessageFailed = "message.failed",
        /// A single message was cancelled, or its address is suppressed.
        MessageSkipped = "message.skipped",
        /// The recipient's server has the message.
        MessageDelivered = "message.delivered",
        /// The recipient's server asks for patience.
        MessageDeferred = "message.deferred",
        /// The message came back.
        MessageBounced = "message.bounced",
        /// The recipient calls the message spam.
        MessageComplained = "message.complained",
        /// The message was opened.
        MessageOpened = "message.opened",
        /// A link of the message was followed.
        MessageClicked = "message.clicked",
        /// The recipient used the link or the button of the relay's provider.
        MessageUnsubscribed = "message.unsubscribed",
        /// A recipient no longer wants a digest type.
        RecipientUnsubscribed = "recipient.unsubscribed",
        /// A recipient wants a digest type again.
        RecipientResubscribed = "recipient.resubscribed",
    }
}

/// A service that gets notices.
#[derive(Clone, Debug)]
pub struct Subscription {
    pub name: String,
    pub url: ServiceUrl,
    pub events: BTreeSet<NoticeType>,
    /// `None`: every tenant.
    pub tenant: Option<String>,
    /// `None`: every digest type, and single messages.
    pub digest_type: Option<String>,
    /// Each signs; the receiver needs one of them. Empty: the environment lacks them, so that nothing can be delivered.
    pub secrets: Vec<Secret>,
    /// The environment variable with the secrets.
    pub secret_env: String,
    /// The names that it had. What waits for them waits for this one.
    pub was: Vec<String>,
}

impl Subscription {
    /// Reports if this is its name, or one that it had.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.was.iter().any(|was| was == name)
    }

    /// Returns the value of the header `webhook-signature`: a signature by each secret.
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let signatures: Vec<_> = self.secrets.iter().map(|secret| secret.sign(id, seconds, body)).collect();
        signatures.join(" ")
    }
}

/// A notice that waits for its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The place in the order of the facts, within a lane.
    pub seq: i64,
    /// The same at each delivery.
    pub id: Uuid,
    pub event: NoticeType,
    /// The key, or the message of an address without a user. Notices of a lane are delivered in order.
    pub lane: String,
    pub about: About,
    /// Deliveries that were tried.
    pub tries: u32,
    /// The time of the first of them.
    pub first_tried_at: Option<Timestamp>,
}

/// The fact of a notice. What is empty or `None` does not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct About {
    #[serde(skip)]
    pub occurred_at: Timestamp,
    pub tenant: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Uuid>,
    /// The outcome of the digest, or the state of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The class of the last attempt, the kind of a bounce, or `person` or `machine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of a request, as Standard Webhooks names its parts.
#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    timestamp: Timestamp,
    data: &'a About,
}

/// Returns the body of a notice in JSON. The same notice has the same bytes at each delivery.
///
/// # Errors
/// Never: ids and names are text.
pub fn body(event: &str, about: &About) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Body { r#type: event, timestamp: about.occurred_at, data: about })
}

/// `deliver_notices`: delivers what waits for a subscription, for half a minute at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverInput {
    pub subscription: String,
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The receiver did not answer before: one notice finds out if it does now.
    pub probe: bool,
}

/// The answer of `deliver_notices`. It is workflow history: numbers, and no id of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverAnswer {
    pub delivered: u64,
    /// Deliveries that are tried again.
    pub failed: u64,
    /// Notices that became dead letters.
    pub dead: u64,
    pub left: Left,
}

/// The notices that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// Nothing waits.
    Nothing,
    /// More waits than one call delivers.
    More,
    /// All that waits is held back until then.
    Until(Timestamp),
    /// The receiver does not answer.
    Away,
    /// The receiver answered 410, and gets nothing any more.
    Gone,
    /// The configuration has no such subscription.
    NotConfigured,
}

/// A notice that was not delivered, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadNotice {
    pub id: Uuid,
    pub r#type: NoticeType,
    /// The time of the fact.
    pub occurred_at: Timestamp,
    pub ended_at: Timestamp,
    /// The result of the last try; `removed`: the subscription is no longer configured.
    pub result: String,
    pub tries: u32,
    pub data: About,
}

/// The notices that a replay delivers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Delivered ones and dead letters.
    All,
    DeadLetters,
}

/// A subscription as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubscriptionState {
    pub name: String,
    /// Notices that wait.
    pub waiting: u64,
    /// The time at which the first of them was written.
    pub oldest_at: Option<Timestamp>,
    pub dead_letters: u64,
    /// The time of the answer 410.
    pub gone_at: Option<Timestamp>,
}

/// The notices of a subscription that no file has any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredNotices {
    pub subscription: String,
    /// Notices that wait for it to come back.
    pub waiting: u64,
    /// Notices that became dead letters just now.
    pub ended: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_leaves_out_what_does_not_apply() {
        let about = About {
            occurred_at: "2026-11-25T08:00:00.5Z".parse().unwrap(),
            tenant: "acme".to_owned(),
            digest_type: "activity".to_owned(),
            user: "ann".to_owned(),
            digest_id: Some(Uuid::from_u128(7)),
            outcome: Some("sent".to_owned()),
            ..About::default()
        };
        let body = body(NoticeType::DigestSent.name(), &about).unwrap();
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"type":"digest.sent","timestamp":"2026-11-25T08:00:00.5Z","data":{"tenant":"acme","digest_type":"activity","user":"ann","digest_id":"00000000-0000-0000-0000-000000000007","outcome":"sent"}}"#
        );
    }
}
