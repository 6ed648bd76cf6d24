//! A due window becomes a digest, a mail, and a delivery.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Closed, Ending, Window};
use crate::Event;

/// `load`: the window is due. Admit it and claim its events, or say why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// The due window.
    pub window: Window,
    /// Its events, as far as they are not stashed.
    pub events: Vec<Event>,
    /// An operator asked for it: throttle and quiet hours do not apply. Hold, pause, consent and suppression do.
    pub flushed: bool,
    /// See [`Plan::urgent`](super::Plan::urgent).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// See [`Plan::revision`](super::Plan::revision).
    #[serde(default)]
    pub revision: u64,
}

/// The answer of `load`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loaded {
    /// Not admitted: the window goes on collecting until then.
    Later {
        /// When to ask again.
        until: Timestamp,
        /// Why not now, in words.
        why: String,
    },
    /// The recipient chose something else since the window was planned, and the signal that says so was lost: plan again.
    Changed,
    /// The window is a digest now; its events are in the ledger under its `digest_id`.
    Claimed {
        /// Events in the digest.
        items: u64,
        /// Lines that they make.
        groups: u64,
        /// See [`Ending::taken`](super::Ending::taken).
        taken: u64,
    },
    /// Nothing will be sent, and the ledger says so.
    Nothing(Ending),
}

/// `render`: make the mail of a claimed digest and put it in the outbox. The first write wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
}

/// The answer of `render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rendered {
    /// The message is in the outbox.
    Stored,
    /// Nothing will be sent, and the ledger says so: the recipient left the directory after the claim.
    Nothing(Closed),
}

/// `send`: one attempt to deliver the message of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// The workflow's clock: the activity's own may lag behind it, but then this one counts.
    pub asked_at: Timestamp,
    /// The claimed window.
    pub window: Window,
    /// Attempts so far that failed and count.
    #[serde(default)]
    pub failed: u32,
}

/// The answer of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// It is over, and the ledger says how.
    Closed(Closed),
    /// A transient failure, or an ambiguous one where the stream says `at_least_once`: the schedule decides when to
    /// try again.
    Deferred {
        /// What went wrong, in words.
        why: String,
        /// When, as the stream has it; `None`: as it is without a configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_in: Option<Duration>,
    },
    /// The relay, not the message, is at fault (credentials, policy, throttling): try again without counting it.
    Waiting {
        /// When to ask again.
        until: Timestamp,
        /// What is wrong with the relay.
        why: String,
    },
}
