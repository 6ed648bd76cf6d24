//! Addresses that a tenant must not mail, and why: each reason keeps some of the mail away or all of it.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::settings::Streams;

/// An address that a tenant must not mail.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Suppression {
    pub tenant: String,
    pub address: String,
    pub reason: Reason,
    /// What taught us, for example the relay's reply without the address.
    pub detail: String,
    pub at: Timestamp,
}

/// Which suppressions to list, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuppressionFilter {
    pub tenant: Option<String>,
    /// In any spelling.
    pub address: Option<String>,
    /// At most so many.
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
    /// Its owner wants no mail of which there is no consent to withdraw: single messages.
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

    /// Whether it keeps a stream from mailing the address. Where mail does not arrive none does any good; what the owner
    /// said is about bulk mail.
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
    fn what_the_owner_said_is_about_bulk_mail_and_what_does_not_arrive_about_all() {
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
