//! Refused recipients, where the relay may mean us: a safety net below the table of replies which needs no
//! reply texts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Consecutive refused recipients after which we blame the relay.
const IN_A_ROW: usize = 3;
/// After this many consecutive messages to one domain, the relay counts as used for it only.
const ALONE: u32 = 100;
const OPENERS: usize = 20;
/// How many digests may end while the relay refuses everybody.
const ENDED: u32 = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusalHistory {
    /// Each recipient once. An accepted one clears the list.
    pub in_a_row: Vec<RefusedRecipient>,
    /// Messages which opened the breaker or probed in vain; they cannot open it again.
    pub openers: Vec<Uuid>,
    /// Digests that ended because of these refusals, or later ones.
    pub ended: u32,
    /// It got messages for more than one domain.
    pub is_mixed: bool,
    /// The sender it opened for, after a rejection by policy or of our settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRecipient {
    pub message: Uuid,
    /// A [`hash_tag`].
    pub recipient: u32,
    pub domain: u32,
    /// The digest or message ended with this refusal.
    pub ended: bool,
}

/// Pseudonym of a recipient or domain: 32 bits of a hash, so many share it.
#[must_use]
pub fn hash_tag(text: &str) -> u32 {
    let hash = Sha256::digest(text.to_lowercase());
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// Consecutive messages to one domain, as seen by one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainRun {
    domain: u32,
    length: u32,
    /// Messages to all domains.
    total: u32,
}

impl DomainRun {
    /// Returns `true` if this domain differs from the one before.
    pub fn count_message(&mut self, domain: u32) -> bool {
        let is_other = self.total > 0 && self.domain != domain;
        let length = if is_other { 1 } else { self.length.saturating_add(1) };
        *self = Self { domain, length, total: self.total.saturating_add(1) };
        is_other
    }

    /// Returns `true` if the latest hundred messages, or all if fewer, had one domain.
    #[must_use]
    pub const fn is_alone(self, refusals: &RefusalHistory) -> bool {
        self.length >= ALONE || (self.length == self.total && !refusals.is_mixed)
    }
}

impl RefusalHistory {
    /// Returns `true` if the relay is now to blame: enough recipients were refused, in two domains or in the
    /// only one (`is_alone`).
    pub(super) fn record_refusal(&mut self, refused: RefusedRecipient, is_alone: bool) -> bool {
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

    pub(super) fn into_openers(mut self) -> Self {
        self.ended = 0;
        for RefusedRecipient { message, ended, .. } in std::mem::take(&mut self.in_a_row) {
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

    pub(super) const fn may_end(&self) -> bool {
        self.ended < ENDED
    }

    pub(super) fn reset_streak(self) -> Self {
        Self { in_a_row: Vec::new(), ended: 0, ..self }
    }
}
