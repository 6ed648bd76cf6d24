//! Addresses that a tenant must not mail, and why: each reason keeps some of the mail away or all of it.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::settings::streams::Streams;

/// An address that a tenant must not mail.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Suppression {
    pub tenant: String,
    pub address: String,
    pub reason: Reason,
    /// The evidence, for example the relay's reply without the address.
    pub detail: String,
    pub at: Timestamp,
}

/// A filter of suppressions, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuppressionFilter {
    pub tenant: Option<String>,
    /// In any spelling.
    pub address: Option<String>,
    /// Highest number of rows.
    pub limit: u32,
}

/// Why an address must not be mailed. An address may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It does not exist.
    HardBounce,
    /// It took none of the latest messages, one after the other.
    SoftBounces,
    /// Its owner called our mail spam.
    Complaint,
    /// Its owner unsubscribed from single messages, which have no consent to withdraw.
    Unsubscribed,
}

impl Reason {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::HardBounce, Self::SoftBounces, Self::Complaint, Self::Unsubscribed];

    /// The name in SQL, JSON and for operators.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HardBounce => "hard_bounce",
            Self::SoftBounces => "soft_bounces",
            Self::Complaint => "complaint",
            Self::Unsubscribed => "unsubscribed",
        }
    }

    /// Tells if the reason forbids a stream to use the address. A bounce forbids every stream; a complaint and an
    /// unsubscription are about bulk messages.
    #[must_use]
    pub fn forbids(self, stream: &str) -> bool {
        match self {
            Self::HardBounce | Self::SoftBounces => true,
            Self::Complaint | Self::Unsubscribed => stream != Streams::TRANSACTIONAL,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opt_outs_forbid_bulk_and_bounces_forbid_both_streams() {
        for (reason, transactional) in [
            (Reason::HardBounce, true),
            (Reason::SoftBounces, true),
            (Reason::Complaint, false),
            (Reason::Unsubscribed, false),
        ] {
            assert!(reason.forbids(Streams::BULK), "{reason}");
            assert_eq!(reason.forbids(Streams::TRANSACTIONAL), transactional, "{reason}");
        }
    }
}
