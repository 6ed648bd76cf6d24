//! One signal's dead letters, limited because they stay in workflow state until stored.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::signal::SignalPayload;
use crate::{foreign_text::cut_bytes, hex};

const HEAD_BYTES: usize = 64 * 1024;
/// One more stands for the rest.
const LETTERS: usize = 100;
const REASON_BYTES: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Counts within the chain of runs, so storing is idempotent.
    pub seq: u64,
    pub reason: String,
    pub encoding: String,
    /// The `messageType` metadata (empty if missing), or a batch item's type. `None` if an older version
    /// recorded the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    pub size: u64,
    /// SHA-256 of the whole payload, in hex.
    pub sha256: String,
    /// Base64 (RFC 4648), at most 64 KiB per signal. Empty if the store was down and the run carried too many
    /// letters.
    pub head: String,
}

pub(super) struct DeadLetters {
    letters: Vec<DeadLetter>,
    next_seq: u64,
    head_left: usize,
    rest: OmittedLetters,
}

#[derive(Default)]
struct OmittedLetters {
    count: u64,
    size: u64,
    hash: Sha256,
}

impl DeadLetters {
    pub(super) fn new(next_seq: u64) -> Self {
        Self { letters: Vec::new(), next_seq, head_left: HEAD_BYTES, rest: OmittedLetters::default() }
    }

    pub(super) fn push(&mut self, reason: &str, payload: &SignalPayload<'_>) {
        let data = payload.data;
        if self.letters.len() >= LETTERS {
            self.rest.count += 1;
            self.rest.size += data.len() as u64;
            self.rest.hash.update(data);
            return;
        }
        let head = &data[..data.len().min(self.head_left)];
        self.head_left -= head.len();
        self.push_letter(reason, payload, data.len() as u64, Sha256::digest(data).into(), head);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    pub(super) fn into_vec(mut self) -> Vec<DeadLetter> {
        let OmittedLetters { count, size, hash } = std::mem::take(&mut self.rest);
        if count > 0 {
            let reason = format!("{count} more of this signal's events are malformed; the run's history has them");
            self.push_letter(&reason, &SignalPayload::NONE, size, hash.finalize().into(), &[]);
        }
        self.letters
    }

    fn push_letter(&mut self, reason: &str, payload: &SignalPayload<'_>, size: u64, hash: [u8; 32], head: &[u8]) {
        self.letters.push(DeadLetter {
            seq: self.next_seq,
            reason: printable(reason, REASON_BYTES),
            encoding: payload.encoding(),
            message_type: Some(payload.message_type()),
            size,
            sha256: hex(&hash),
            head: BASE64_STANDARD.encode(head),
        });
        self.next_seq += 1;
    }
}

/// Removes control characters, which could forge log lines.
pub(super) fn printable(text: &str, limit: usize) -> String {
    cut_bytes(text, limit).replace(char::is_control, " ")
}
