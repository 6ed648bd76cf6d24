//! Outbox messages and delivery attempts, as stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{page::PageRequest, suppression::Suppression};
use crate::{
    Key, MessageKey,
    attempt::{AttemptClass, AttemptPhase},
    settings::StreamName,
    window::{DigestOutcome, WindowEnd},
};

#[derive(Clone, PartialEq, Eq)]
pub struct OutboxMessage {
    /// The `digest_id` or [`MessageKey::message_id`].
    pub id: Uuid,
    pub origin: MessageOrigin,
    /// Digests are always bulk.
    pub stream: StreamName,
    /// RFC 5321 MAIL FROM.
    pub envelope_from: String,
    /// RFC 5321 RCPT TO.
    pub envelope_to: String,
    /// Without angle brackets.
    pub message_id: String,
    pub subject: String,
    /// RFC 5322, the same in every attempt.
    pub bytes: Vec<u8>,
    /// `default` after a fallback. Empty if the sender supplied rendered parts.
    pub template: String,
    /// Includes an image to count opens.
    pub counted: bool,
    /// Hashes everything except events which goes into a digest's message, or a single message's
    /// configuration. If this differs today, we render again (rule 60). Empty if unknown.
    pub made_from: String,
    /// See [`Key::thread_id`].
    pub thread: Option<Uuid>,
    /// Also its `Date`. Rendering again may change it.
    pub made_at: Timestamp,
}

impl OutboxMessage {
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.origin.tenant()
    }

    #[must_use]
    pub const fn key(&self) -> Option<&Key> {
        match &self.origin {
            MessageOrigin::Digest(key) => Some(key),
            MessageOrigin::Single { .. } => None,
        }
    }
}

/// The origin of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum MessageOrigin {
    /// It is the mail of a digest of this key.
    Digest(Key),
    /// Submitted by a service.
    Single {
        #[serde(flatten)]
        key: MessageKey,
        /// Set if the recipient is in the directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Submitting different content under the same key is an error.
        #[serde(skip)]
        content_sha256: String,
    },
}

impl MessageOrigin {
    #[must_use]
    pub fn tenant(&self) -> &str {
        match self {
            Self::Digest(key) => &key.tenant,
            Self::Single { key, .. } => &key.tenant,
        }
    }
}

closed_set! {
    pub enum MessageState {
        /// Waits for its first attempt.
        Queued = "queued",
        Sending = "sending",
        /// The last attempt failed; will be retried.
        Deferred = "deferred",
        Sent = "sent",
        /// By the recipient's server.
        Delivered = "delivered",
        Failed = "failed",
        /// An attempt ended past the final dot without a reply.
        Ambiguous = "ambiguous",
        /// The address is suppressed.
        Suppressed = "suppressed",
        Cancelled = "cancelled",
    }
}

impl MessageState {
    #[must_use]
    pub const fn from_outcome(outcome: DigestOutcome) -> Self {
        match outcome {
            DigestOutcome::Sent => Self::Sent,
            DigestOutcome::Failed => Self::Failed,
            DigestOutcome::Ambiguous => Self::Ambiguous,
            DigestOutcome::Suppressed => Self::Suppressed,
            DigestOutcome::Skipped | DigestOutcome::Throttled | DigestOutcome::Dropped | DigestOutcome::Unknown => {
                Self::Cancelled
            }
        }
    }

    #[must_use]
    pub const fn outcome(self) -> Option<DigestOutcome> {
        match self {
            Self::Queued | Self::Sending | Self::Deferred => None,
            Self::Sent | Self::Delivered => Some(DigestOutcome::Sent),
            Self::Failed => Some(DigestOutcome::Failed),
            Self::Ambiguous => Some(DigestOutcome::Ambiguous),
            Self::Suppressed => Some(DigestOutcome::Suppressed),
            Self::Cancelled => Some(DigestOutcome::Dropped),
        }
    }
}

/// Contains an email address, so this should not be logged.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageRecord {
    pub id: Uuid,
    #[serde(flatten)]
    pub origin: MessageOrigin,
    pub stream: StreamName,
    pub state: MessageState,
    /// Empty for a plain success.
    pub why: String,
    /// Empty if the reader should not see it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub envelope_to: String,
    pub message_id: String,
    pub subject: String,
    pub created_at: Timestamp,
    /// See [`OutboxMessage::made_at`].
    #[serde(skip)]
    pub made_at: Timestamp,
    /// See [`OutboxMessage::made_from`].
    #[serde(skip)]
    pub made_from: String,
    /// When a relay first accepted the message, whatever the state.
    pub sent_at: Option<Timestamp>,
    pub closed_at: Option<Timestamp>,
    /// Attempts so far.
    pub attempts: u32,
}

impl MessageRecord {
    #[must_use]
    pub fn closed(&self) -> Option<WindowEnd> {
        Some(WindowEnd { outcome: self.state.outcome()?, why: self.why.clone() })
    }
}

/// Sort position: creation time, then id.
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
    pub page: PageRequest<MessagePlace>,
}

/// One attempt to deliver a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptRecord {
    /// Starts at 1.
    pub number: u32,
    /// Without its password.
    pub relay: String,
    pub begun_at: Timestamp,
    pub past_the_dot_at: Option<Timestamp>,
    /// Missing if it is under way or its end was never recorded.
    pub ended_at: Option<Timestamp>,
    pub phase: Option<AttemptPhase>,
    pub class: Option<AttemptClass>,
    /// The relay's reply: code, enhanced code and text, without addresses.
    pub reply: Option<String>,
    /// The relay's own id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay_id: Option<String>,
    /// Set if another attempt had started before this one ended.
    pub late: Option<LateEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    pub message: Uuid,
    pub at: Timestamp,
    pub phase: AttemptPhase,
    pub class: AttemptClass,
    pub reply: String,
}

/// A later attempt had started, or the message had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LateEnd {
    pub at: Timestamp,
    pub phase: AttemptPhase,
    pub class: AttemptClass,
    pub reply: String,
}

#[derive(Clone, PartialEq, Eq)]
pub enum AttemptStart {
    Proceed {
        number: u32,
        /// Earlier attempts past the final dot without an outcome, since an operator last allowed a
        /// duplicate. The recipient may already have the message.
        ambiguous: u32,
        had_ambiguous_attempt: bool,
        /// See [`FirstAttempt::epoch`].
        epoch: u64,
        message: Box<OutboxMessage>,
    },
    /// The message or its digest already has an outcome.
    Closed(WindowEnd),
    /// An attempt is past the final dot, and its reply may still arrive.
    AwaitsReply { number: u32, until: Timestamp },
}

/// Without an outcome or an attempt past the final dot, so it can still be rendered again (rule 60).
#[derive(Clone, PartialEq, Eq)]
pub struct WaitingMessage {
    pub message: OutboxMessage,
    /// See [`FirstAttempt::epoch`].
    pub epoch: u64,
    pub attempted: bool,
    /// A relay rejected a longer version.
    pub shortened: bool,
    /// Do not send: a retract covers an event, or the digest's events have changed.
    pub outdated: bool,
    /// Since then we could not render it, because its recipient or digest type is unknown.
    pub missing_since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedEvents {
    pub retracted: u64,
    pub opted_out: u64,
    pub seen: u64,
    pub left: u64,
    /// See [`FirstAttempt::epoch`]. Until it changes, the digest keeps these events.
    pub epoch: u64,
}

/// Recorded at the final dot, or when it ends before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstAttempt {
    pub message: Uuid,
    pub relay: String,
    pub begun_at: Timestamp,
    /// How often the message was reopened, taken back or rendered again. A higher epoch fences the attempt.
    pub epoch: u64,
    /// Distinguishes this from other first attempts.
    pub nonce: Uuid,
}

#[derive(Clone, PartialEq, Eq)]
pub struct AttemptEnd {
    pub phase: AttemptPhase,
    pub class: AttemptClass,
    /// Empty if there was none. Contains no addresses.
    pub reply: String,
    pub relay_id: Option<String>,
    /// Ends the message and its digest in the same transaction.
    pub closed: Option<WindowEnd>,
    /// Suppresses the address in the same transaction, if the latest `consecutive` messages to it ended with
    /// this class.
    pub suppress: Option<Suppression>,
    /// At least 1.
    pub consecutive: u32,
    /// With `closed`: returns the digest's events to the next claim.
    pub return_events: bool,
}
