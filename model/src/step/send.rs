//! `send`: one attempt to deliver a digest's message.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    attempt::{AttemptClass, AttemptPhase},
    records::FirstAttempt,
    step::{ledger::ReturnedEvents, plan::PauseWait},
    window::{WaitReason, Window, WindowEnd},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendDigestInput {
    pub asked_at: Timestamp,
    pub window: Window,
    /// Only counts attempts that use up the schedule.
    #[serde(default)]
    pub failed: u32,
    /// The workflow requests a shorter message when this one is too large. For earlier versions the attempt
    /// does this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortens: bool,
    /// The workflow opens a window for returned events. Earlier versions wait for another event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
    /// The workflow keeps an outcome the ledger could not record. For earlier versions the attempt waits for
    /// the ledger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_ends: bool,
    /// An attempt's outcome that could not be written to the ledger: record it now, and make no other
    /// attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedEnd>,
    /// The wait before this attempt; the table of waits decides when to make it (rule 56). `None` from
    /// earlier versions: make it immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<WaitReason>,
}

/// An attempt's outcome the ledger could not record, without the reply's text: this goes into Temporal's
/// history, and the text may contain an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedEnd {
    pub number: u32,
    pub relay: String,
    pub at: Timestamp,
    pub class: AttemptClass,
    pub phase: AttemptPhase,
    /// Set if a reply ended the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<ReplyCode>,
    /// Set if the ledger has no row for the attempt, because it was the first and ended before the final dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstAttempt>,
}

impl UnrecordedEnd {
    #[must_use]
    pub fn describe_wait(&self) -> String {
        format!("attempt {} ended as {}, and the ledger refuses to record it", self.number, self.class)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyCode {
    /// RFC 5321 4.2.
    pub code: u16,
    /// RFC 3463: class, subject, detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enhanced: Option<(u16, u16, u16)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendAnswer {
    Closed {
        #[serde(flatten)]
        closed: WindowEnd,
        /// The key's events waiting for a window, if closing the digest returned some. Only set if the
        /// workflow [opens one](SendDigestInput::opens_returned).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        returned: Option<ReturnedEvents>,
    },
    /// The attempt failed transiently, or it is ambiguous and the stream is `at_least_once`. The retry
    /// schedule decides about the next one.
    Deferred {
        why: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_in: Option<Duration>,
    },
    /// Uses up no attempt: the relay is to blame (credentials, policy, throttling), an operator paused it, or
    /// the message is too large.
    Waiting {
        until: Timestamp,
        why: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<PauseWait>,
        /// The attempt, if the message was too large; render a shorter one first. Only set if the workflow
        /// [shortens](SendDigestInput::shortens).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        too_large: Option<u32>,
        /// Only the hour or the recipient's pause is the reason: `until` is the next good moment. Only set if
        /// the workflow sent [its wait](SendDigestInput::after).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        moment: bool,
    },
    /// The ledger could not record the outcome; the workflow retries until it does. Only used if the workflow
    /// [keeps outcomes](SendDigestInput::keeps_ends).
    Unrecorded(UnrecordedEnd),
}

impl SendAnswer {
    #[must_use]
    pub const fn closed(closed: WindowEnd) -> Self {
        Self::Closed { closed, returned: None }
    }
}

// `render`: puts the message of a claimed digest into the outbox. The first write wins. A message too large
// for a relay is replaced once.

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderInput {
    pub asked_at: Timestamp,
    pub window: Window,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
    /// A relay found the stored message too large: render a shorter one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_large: Option<TooLarge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooLarge {
    pub attempt: u32,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenderAnswer {
    Stored,
    /// Closed without a message: the recipient left the directory after the claim, or the message cannot be
    /// shortened further.
    Nothing(WindowEnd),
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;
    use crate::window::DigestOutcome;

    #[test]
    fn an_end_reads_as_in_earlier_versions() {
        let json = json!({"closed": {"outcome": "failed", "why": "451 later"}});
        let sent = SendAnswer::closed(WindowEnd { outcome: DigestOutcome::Failed, why: "451 later".into() });
        assert_eq!(to_value(&sent).unwrap(), json);
        assert_eq!(from_value::<SendAnswer>(json).unwrap(), sent);
        let json = json!({"closed": {"outcome": "failed", "why": "451 later", "returned": {
            "at": "2026-03-01T09:00:00Z", "digests": {"00000000-0000-0000-0000-000000000001": 2}}}});
        assert_eq!(to_value(from_value::<SendAnswer>(json.clone()).unwrap()).unwrap(), json);
    }
}
