//! Refusals of recipients by which the relay may mean us: the net below the table of replies, which needs no words.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Recipients that are refused one after the other, with none accepted between, until the relay is to blame.
const IN_A_ROW: usize = 3;
/// Messages of one domain, one after the other, that make a relay one of this domain.
const ALONE: u32 = 100;
/// Messages that opened a breaker and are remembered.
const OPENERS: usize = 20;
/// Digests that may end at a relay that refuses everybody.
const ENDED: u32 = 2;

/// What is remembered of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusals {
    /// The latest recipients that were refused, each once, with none accepted after the first.
    pub in_a_row: Vec<Refused>,
    /// The latest messages that opened the breaker, or that tried the open relay in vain. None opens it again.
    pub openers: Vec<Uuid>,
    /// Digests that ended with the refusals that opened the breaker, and with later ones.
    pub ended: u32,
    /// Messages to more than one domain went by the relay.
    pub is_mixed: bool,
    /// The sender of the message whose refusal by policy, or of our settings, opened the breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

/// A refused recipient, without its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub message: Uuid,
    /// See [`tag`].
    pub recipient: u32,
    /// See [`tag`].
    pub domain: u32,
    /// Its digest or message ended with the refusal.
    pub ended: bool,
}

/// Tells recipients and domains apart without naming them: 32 bits of a hash, of which many have the same.
#[must_use]
pub fn tag(text: &str) -> u32 {
    let hash = Sha256::digest(text.to_lowercase());
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// The latest messages of one domain by a relay, as a worker has seen them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainRun {
    domain: u32,
    length: u32,
    /// All messages by the relay.
    total: u32,
}

impl DomainRun {
    /// Counts a message that the relay accepted or refused. `true`: it is the first to another domain than the latest.
    pub fn count(&mut self, domain: u32) -> bool {
        let is_other = self.total > 0 && self.domain != domain;
        let length = if is_other { 1 } else { self.length.saturating_add(1) };
        *self = Self { domain, length, total: self.total.saturating_add(1) };
        is_other
    }

    /// Reports if the latest hundred messages, or all that there are, had one domain.
    #[must_use]
    pub const fn is_alone(self, refusals: &Refusals) -> bool {
        self.length >= ALONE || (self.length == self.total && !refusals.is_mixed)
    }
}

impl Refusals {
    /// Adds a refused recipient. `true`: the relay is to blame, because so many were refused, of two domains or of the only one
    /// (`is_alone`).
    pub(super) fn add(&mut self, refused: Refused, is_alone: bool) -> bool {
        self.in_a_row.retain(|other| other.recipient != refused.recipient);
        self.in_a_row.push(refused);
        let surplus = self.in_a_row.len().saturating_sub(IN_A_ROW);
        self.in_a_row.drain(..surplus);
        let domains: BTreeSet<_> = self.in_a_row.iter().map(|refused| refused.domain).collect();
        self.in_a_row.len() >= IN_A_ROW && (domains.len() >= 2 || is_alone)
    }

    pub(super) fn has_opened(&self, message: Uuid) -> bool {
        self.openers.contains(&message)
    }

    /// The messages in a row open the breaker.
    pub(super) fn blamed(mut self) -> Self {
        self.ended = 0;
        for Refused { message, ended, .. } in std::mem::take(&mut self.in_a_row) {
            self = Self { ended: self.ended + u32::from(ended), ..self.opened_by(message) };
        }
        self
    }

    pub(super) fn opened_by(mut self, message: Uuid) -> Self {
        self.openers.retain(|other| *other != message);
        self.openers.push(message);
        let surplus = self.openers.len().saturating_sub(OPENERS);
        self.openers.drain(..surplus);
        self
    }

    /// A digest may end by trying the open relay.
    pub(super) const fn may_end(&self) -> bool {
        self.ended < ENDED
    }

    /// A recipient was accepted.
    pub(super) fn accepted(self) -> Self {
        Self { in_a_row: Vec::new(), ended: 0, ..self }
    }
}
