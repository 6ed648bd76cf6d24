//! `send`: one attempt to deliver the message of a digest.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    attempt::{AttemptClass, Phase},
    records::FirstAttempt,
    step::{ledger::Returned, plan::PauseWait},
    window::{Closed, Wait, Window},
};

/// The input of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
    /// Number of failed attempts so far, without those that do not count.
    #[serde(default)]
    pub failed: u32,
    /// Set if the workflow has a shorter message made when the relay finds this one too large. Workflows of earlier versions
    /// leave that to the attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortens: bool,
    /// Set if the workflow opens a window for events that the digest returns. Workflows of earlier versions wait for another
    /// event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_returned: bool,
    /// Set if the workflow keeps an end that the ledger refuses to record. For a workflow of an earlier version the attempt waits until
    /// the ledger takes the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_ends: bool,
    /// An attempt that ended while the ledger refused its record. It is recorded now, and no other attempt is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedEnd>,
    /// The wait that ends with this attempt, which is then made as the table of waits says (rule 56). A workflow of an earlier version does not
    /// say, and its attempts are made at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Wait>,
}

/// The end of an attempt that the ledger refused to record. Temporal keeps histories, and the words of a relay may hold an address, so
/// no words are here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedEnd {
    /// The attempt's number.
    pub number: u32,
    /// The relay's name in `tidings.toml`.
    pub relay: String,
    /// The end of the attempt.
    pub at: Timestamp,
    pub class: AttemptClass,
    pub phase: Phase,
    /// The relay's answer, if an answer ended the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<ReplyCode>,
    /// Set if the ledger has no row of the attempt: it was the first one, and ended before the dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstAttempt>,
}

impl UnrecordedEnd {
    /// The reason for which a delivery waits for its ledger, for operators.
    #[must_use]
    pub fn why(&self) -> String {
        format!("attempt {} ended as {}, and the ledger refuses to record it", self.number, self.class)
    }
}

/// The digits of a relay's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyCode {
    /// The three digits (RFC 5321 4.2).
    pub code: u16,
    /// The enhanced status code (RFC 3463): class, subject, detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enhanced: Option<(u16, u16, u16)>,
}

/// The answer of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// The digest ended, and the ledger has the outcome.
    Closed {
        /// The end in the ledger.
        #[serde(flatten)]
        closed: Closed,
        /// The events of the key that wait for a window, if this end returned some. Only for a workflow that
        /// [opens one](SendInput::opens_returned).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        returned: Option<Returned>,
    },
    /// The attempt failed transiently, or it is ambiguous and the stream is `at_least_once`. The schedule decides when the
    /// next attempt starts.
    Deferred {
        /// The failure in words.
        why: String,
        /// The stream's wait before the next attempt; `None`: the default schedule's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_in: Option<Duration>,
    },
    /// The relay is at fault (credentials, policy, throttling), and not the message, or an operator paused what the message
    /// belongs to, or the message is too large: no attempt counts.
    Waiting {
        /// Time to ask again.
        until: Timestamp,
        /// The relay's words or the pause in words.
        why: String,
        /// The operator's pause, if that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<PauseWait>,
        /// The number of the attempt, if the relay found the message too large. A shorter one is to be made first. Only for a
        /// workflow that [shortens](SendInput::shortens).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        too_large: Option<u32>,
        /// Set if nothing but the hour or the recipient's own pause is the reason: `until` is the next good moment. Only for a workflow that
        /// says what it [waited for](SendInput::after).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        moment: bool,
    },
    /// The attempt ended, and the ledger refused to record the end. The workflow asks to record it until the ledger takes it. Only for
    /// a workflow that [keeps such ends](SendInput::keeps_ends).
    Unrecorded(UnrecordedEnd),
}

impl Sent {
    /// The end of a digest or message that returns no events.
    #[must_use]
    pub const fn closed(closed: Closed) -> Self {
        Self::Closed { closed, returned: None }
    }
}

// `render`: makes the message of a claimed digest and puts it in the outbox. The first write wins. A message that a relay found
// too large is replaced once.

/// The input of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderInput {
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
    /// Set if the claim stored the message; see [`ClaimAnswer::Claimed`](crate::step::ClaimAnswer::Claimed).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
    /// Set if the outbox has the message and a relay found it too large: make a shorter one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_large: Option<TooLarge>,
}

/// An attempt that ended because the message is too large for the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooLarge {
    /// Number of the attempt.
    pub attempt: u32,
    /// The relay's words.
    pub why: String,
}

/// The answer of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rendered {
    /// The message is in the outbox.
    Stored,
    /// The digest ended without a message, and the ledger has the reason: the recipient left the directory after the claim, or
    /// no shorter message is possible.
    Nothing(Closed),
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;
    use crate::window::Outcome;

    #[test]
    fn an_end_reads_as_in_earlier_versions() {
        let json = json!({"closed": {"outcome": "failed", "why": "451 later"}});
        let sent = Sent::closed(Closed { outcome: Outcome::Failed, why: "451 later".into() });
        assert_eq!(to_value(&sent).unwrap(), json);
        assert_eq!(from_value::<Sent>(json).unwrap(), sent);
        let json = json!({"closed": {"outcome": "failed", "why": "451 later", "returned": {
            "at": "2026-03-01T09:00:00Z", "digests": {"00000000-0000-0000-0000-000000000001": 2}}}});
        assert_eq!(to_value(from_value::<Sent>(json.clone()).unwrap()).unwrap(), json);
    }
}
