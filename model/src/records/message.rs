//! Messages of the outbox and the attempts to deliver them, as they go into the store and come out of it.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::suppression::Suppression;
use crate::{
    Key, MessageKey,
    step::{Closed, Outcome},
};

/// A message of the outbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The `digest_id`, or [`MessageKey::message_id`].
    pub id: Uuid,
    pub origin: Origin,
    /// `transactional` or `bulk`; digests are `bulk`.
    pub stream: String,
    /// RFC 5321 MAIL FROM.
    pub envelope_from: String,
    /// RFC 5321 RCPT TO.
    pub envelope_to: String,
    /// Without angle brackets.
    pub message_id: String,
    pub subject: String,
    /// The whole message (RFC 5322), as every attempt sends it.
    pub bytes: Vec<u8>,
    /// The template that made it, `default` after a fallback; empty where the parts came ready.
    pub template: String,
    pub created_at: Timestamp,
}

impl Message {
    /// The tenant of the message.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.origin.tenant()
    }
}

/// The origin of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It is the mail of a digest of this key.
    Digest(Key),
    /// A service handed it over.
    Single {
        #[serde(flatten)]
        key: MessageKey,
        /// The recipient, if the directory has them.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// SHA-256 in hex of what was handed over: another content under the same key is a mistake.
        #[serde(skip)]
        content_sha256: String,
    },
}

impl Origin {
    /// The tenant of the message.
    #[must_use]
    pub fn tenant(&self) -> &str {
        match self {
            Self::Digest(key) => &key.tenant,
            Self::Single { key, .. } => &key.tenant,
        }
    }
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Waits for its first attempt.
    Queued,
    /// An attempt is under way.
    Sending,
    /// An attempt came to nothing, and another one follows.
    Deferred,
    /// The relay took it.
    Sent,
    /// The recipient's server took it, says the relay.
    Delivered,
    /// It will not be delivered.
    Failed,
    /// The message may have been delivered: an attempt ended past the dot without a reply.
    Ambiguous,
    /// The address must not be mailed.
    Suppressed,
    /// An operator gave it up, or its digest ended without a mail.
    Cancelled,
}

impl MessageState {
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Sending,
        Self::Deferred,
        Self::Sent,
        Self::Delivered,
        Self::Failed,
        Self::Ambiguous,
        Self::Suppressed,
        Self::Cancelled,
    ];

    /// The name in SQL, JSON and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Deferred => "deferred",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Ambiguous => "ambiguous",
            Self::Suppressed => "suppressed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of a message that came to this end, or whose digest did.
    #[must_use]
    pub const fn after(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Sent => Self::Sent,
            Outcome::Failed => Self::Failed,
            Outcome::Ambiguous => Self::Ambiguous,
            Outcome::Suppressed => Self::Suppressed,
            Outcome::Skipped | Outcome::Throttled | Outcome::Dropped | Outcome::Unknown => Self::Cancelled,
        }
    }

    /// The end that it is, if it is one.
    #[must_use]
    pub const fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Queued | Self::Sending | Self::Deferred => None,
            Self::Sent | Self::Delivered => Some(Outcome::Sent),
            Self::Failed => Some(Outcome::Failed),
            Self::Ambiguous => Some(Outcome::Ambiguous),
            Self::Suppressed => Some(Outcome::Suppressed),
            Self::Cancelled => Some(Outcome::Dropped),
        }
    }
}

/// A message in the outbox, without its bytes. It contains an address: not for logs.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct MessageRecord {
    pub id: Uuid,
    #[serde(flatten)]
    pub origin: Origin,
    pub stream: String,
    pub state: MessageState,
    /// Why it ended like that; empty for a plain success.
    pub why: String,
    pub envelope_to: String,
    pub message_id: String,
    pub subject: String,
    pub created_at: Timestamp,
    /// Time when a relay first accepted the message, whatever the state is.
    pub sent_at: Option<Timestamp>,
    pub closed_at: Option<Timestamp>,
    /// Attempts so far.
    pub attempts: u32,
}

impl MessageRecord {
    /// The end that it came to.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        Some(Closed { outcome: self.state.outcome()?, why: self.why.clone() })
    }
}

/// A filter of messages, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFilter {
    pub tenant: Option<String>,
    pub state: Option<MessageState>,
    /// Highest number of rows.
    pub limit: u32,
}

/// One attempt to deliver a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptRecord {
    /// From 1.
    pub number: u32,
    /// Without its password.
    pub relay: String,
    pub begun_at: Timestamp,
    pub past_the_dot_at: Option<Timestamp>,
    /// `None`: it is under way, or its end was never recorded.
    pub ended_at: Option<Timestamp>,
    /// See [`AttemptEnd::phase`], `class` and `reply`.
    pub phase: Option<String>,
    pub class: Option<String>,
    pub reply: Option<String>,
    /// The end of the attempt, if a later attempt had begun before.
    pub late: Option<LateEnd>,
}

/// See [`AttemptRecord::late`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LateEnd {
    pub at: Timestamp,
    pub phase: String,
    pub class: String,
    pub reply: String,
}

/// The answer to the start of an attempt.
#[derive(Clone, PartialEq, Eq)]
pub enum AttemptStart {
    /// Send these bytes.
    Proceed {
        number: u32,
        /// Number of earlier attempts that ended past the dot without an outcome, since an operator last allowed a repeat. The
        /// recipient may have the message already.
        ambiguous: u32,
        /// Set if any earlier attempt was ambiguous.
        doubtful: bool,
        message: Box<Message>,
    },
    /// The message has an end, or its digest does.
    Closed(Closed),
}

/// The end of an attempt.
#[derive(Clone, PartialEq, Eq)]
pub struct AttemptEnd {
    /// `connect`, `tls`, `greeting`, `ehlo`, `auth`, `mail`, `rcpt`, `data`, `body`, `dot` or `done`.
    pub phase: &'static str,
    /// `sent`, `deferred`, `failed`, `hard_bounce`, `mailbox_full`, `policy`, `configuration`, `throttled`, `too_large`, `ambiguous`,
    /// `fenced` or `cancelled`.
    pub class: &'static str,
    /// The relay's reply: code, enhanced code and text, without addresses; empty when there was none.
    pub reply: String,
    /// Ends the message, and the digest that it is of, with the attempt, in the same transaction.
    pub closed: Option<Closed>,
    /// The address must not be mailed again: recorded in the same transaction, where the latest `in_a_row` messages to it
    /// ended with this class.
    pub suppress: Option<Suppression>,
    /// At least 1.
    pub in_a_row: u32,
    /// With `closed`: the events of the digest join the key's next claim.
    pub return_events: bool,
}
