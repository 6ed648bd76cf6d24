//! Messages of the outbox and the attempts to deliver them, as they go into the store and come out of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{page::Page, suppression::Suppression};
use crate::{
    Key, MessageKey,
    attempt::{AttemptClass, Phase},
    settings::StreamName,
    window::{Closed, Outcome},
};

/// A message of the outbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The `digest_id`, or [`MessageKey::message_id`].
    pub id: Uuid,
    pub origin: Origin,
    /// Digests are bulk.
    pub stream: StreamName,
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
    /// The message has a picture that counts openings.
    pub counted: bool,
    /// A hash of all that a digest's message is made from besides its events, and of what the configuration gives to a single message.
    /// Where that has another hash today, the message is made again (rule 60). Empty: not known.
    pub made_from: String,
    /// The thread that has the message of a digest, if it is in one: [`Key::thread_id`].
    pub thread: Option<Uuid>,
    /// The time when the message was made, and its `Date`. A message that is made again may have a later one.
    pub made_at: Timestamp,
}

impl Message {
    /// The tenant of the message.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.origin.tenant()
    }

    /// The key of a digest's message.
    #[must_use]
    pub const fn key(&self) -> Option<&Key> {
        match &self.origin {
            Origin::Digest(key) => Some(key),
            Origin::Single { .. } => None,
        }
    }
}

/// The origin of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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

closed_set! {
    /// The state of a message.
    pub enum MessageState {
        /// Waits for its first attempt.
        Queued = "queued",
        /// An attempt is under way.
        Sending = "sending",
        /// An attempt came to nothing, and another one follows.
        Deferred = "deferred",
        /// The relay took it.
        Sent = "sent",
        /// The recipient's server took it, says the relay.
        Delivered = "delivered",
        /// It will not be delivered.
        Failed = "failed",
        /// The message may have been delivered: an attempt ended past the dot without a reply.
        Ambiguous = "ambiguous",
        /// The address must not be mailed.
        Suppressed = "suppressed",
        /// An operator gave it up, or its digest ended without a mail.
        Cancelled = "cancelled",
    }
}

impl MessageState {
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageRecord {
    pub id: Uuid,
    #[serde(flatten)]
    pub origin: Origin,
    pub stream: StreamName,
    pub state: MessageState,
    /// Why it ended like that; empty for a plain success.
    pub why: String,
    /// Empty where the reader is not to have it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub envelope_to: String,
    pub message_id: String,
    pub subject: String,
    pub created_at: Timestamp,
    /// See [`Message::made_at`].
    #[serde(skip)]
    pub made_at: Timestamp,
    /// See [`Message::made_from`].
    #[serde(skip)]
    pub made_from: String,
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

/// The place of a message among all: its creation, then its id.
pub type MessagePlace = (Timestamp, Uuid);

/// A filter of messages, the latest first. What is `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct MessageFilter {
    /// Only messages of this tenant
    #[cfg_attr(feature = "clap", arg(long, value_name = "TENANT"))]
    pub tenant: Option<String>,
    /// Only messages in this state
    #[cfg_attr(feature = "clap", arg(long, value_name = "STATE"))]
    pub state: Option<MessageState>,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: Page<MessagePlace>,
}

/// One attempt to deliver a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptRecord {
    /// From 1.
    pub number: u32,
    /// Without its password.
    pub relay: String,
    pub begun_at: Timestamp,
    pub past_the_dot_at: Option<Timestamp>,
    /// `None`: it is under way, or its end was never recorded.
    pub ended_at: Option<Timestamp>,
    pub phase: Option<Phase>,
    pub class: Option<AttemptClass>,
    /// The relay's reply: code, enhanced code and text, without addresses.
    pub reply: Option<String>,
    /// The relay's own id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay_id: Option<String>,
    /// The end of the attempt, if a later attempt had begun before.
    pub late: Option<LateEnd>,
}

/// A reply by which a relay ended an attempt without taking the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    pub message: Uuid,
    pub at: Timestamp,
    pub phase: Phase,
    pub class: AttemptClass,
    /// Code, enhanced code and text, without addresses.
    pub reply: String,
}

/// The end of an attempt that came after a later attempt had begun, or after the message had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LateEnd {
    pub at: Timestamp,
    pub phase: Phase,
    pub class: AttemptClass,
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
        had_ambiguous_attempt: bool,
        /// See [`FirstAttempt::epoch`].
        epoch: u64,
        message: Box<Message>,
    },
    /// The message has an end, or its digest does.
    Closed(Closed),
    /// An attempt is past the dot and has no end, and the reply to it may still come.
    AwaitsReply {
        /// The number of that attempt.
        number: u32,
        /// The reply comes until this time, or it does not come.
        until: Timestamp,
    },
}

/// A message without an end that waits: no attempt has passed the dot, so that it can be made again (rule 60).
#[derive(Clone, PartialEq, Eq)]
pub struct WaitingMessage {
    /// The message, with its bytes.
    pub message: Message,
    /// See [`FirstAttempt::epoch`].
    pub epoch: u64,
    /// An attempt is recorded. The next one is not the first.
    pub attempted: bool,
    /// A relay found a longer one too large.
    pub shortened: bool,
    /// The bytes must not be sent: a retract covers an event of them, or the digest has other events by now.
    pub outdated: bool,
    /// The time since which the message cannot be made again, because its recipient or its digest type is unknown.
    pub missing_since: Option<Timestamp>,
}

/// The events that left a digest before its message is made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withdrawn {
    /// Events that a retract covers.
    pub retracted: u64,
    /// Events of a category that the recipient turned off.
    pub opted_out: u64,
    /// Events that the recipient has seen elsewhere.
    pub seen: u64,
    /// Events of the digest that are left.
    pub left: u64,
    /// See [`FirstAttempt::epoch`]. Until it changes, the digest has these events.
    pub epoch: u64,
}

/// The first attempt of a message. The ledger hears of it when it comes to the final dot, or when it ends before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstAttempt {
    /// The message.
    pub message: Uuid,
    /// The relay's name.
    pub relay: String,
    /// Start of the attempt.
    pub begun_at: Timestamp,
    /// Number of the times that the message was reopened, taken back from or made again before the attempt began. A later one fences
    /// the attempt.
    pub epoch: u64,
    /// A random value: another first attempt of the message has another one.
    pub nonce: Uuid,
}

/// The end of an attempt.
#[derive(Clone, PartialEq, Eq)]
pub struct AttemptEnd {
    pub phase: Phase,
    pub class: AttemptClass,
    /// The relay's reply: code, enhanced code and text, without addresses; empty when there was none.
    pub reply: String,
    /// The relay's own id of the message, if the relay took the message and its reply names one.
    pub relay_id: Option<String>,
    /// Ends the message, and the digest that it is of, with the attempt, in the same transaction.
    pub closed: Option<Closed>,
    /// The address must not be mailed again: recorded in the same transaction, where the latest `consecutive` messages to it
    /// ended with this class.
    pub suppress: Option<Suppression>,
    /// At least 1.
    pub consecutive: u32,
    /// With `closed`: the events of the digest join the key's next claim.
    pub return_events: bool,
}
