//! Addresses that a tenant must not mail, and why: each reason keeps some of the mail away or all of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::page::Page;
use crate::settings::StreamName;

/// An address that a tenant must not mail.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Suppression {
    pub tenant: String,
    pub address: String,
    pub reason: Reason,
    /// The evidence, for example the relay's reply without the address.
    pub detail: String,
    pub at: Timestamp,
}

/// The place of a suppression among all: its time, tenant, address and reason.
pub type SuppressionPlace = (Timestamp, String, String, Reason);

/// A filter of suppressions, the latest first. What is `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct SuppressionFilter {
    /// Only addresses of this tenant
    #[cfg_attr(feature = "clap", arg(long, value_name = "TENANT"))]
    pub tenant: Option<String>,
    /// Only this address, in any case
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub address: Option<String>,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: Page<SuppressionPlace>,
}

closed_set! {
    /// Why an address must not be mailed. An address may have several.
    pub enum Reason {
        /// It does not exist.
        HardBounce = "hard_bounce",
        /// It took none of the latest messages, one after the other.
        SoftBounces = "soft_bounces",
        /// Its owner called our mail spam.
        Complaint = "complaint",
        /// Its owner unsubscribed from single messages, which have no consent to withdraw.
        Unsubscribed = "unsubscribed",
    }
}

impl Reason {
    /// Tells if the reason forbids a stream to use the address. A bounce forbids every stream; a complaint and an
    /// unsubscription are about bulk messages.
    #[must_use]
    pub fn forbids(self, stream: StreamName) -> bool {
        match self {
            Self::HardBounce | Self::SoftBounces => true,
            Self::Complaint | Self::Unsubscribed => stream != StreamName::Transactional,
        }
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
            assert!(reason.forbids(StreamName::Bulk), "{reason}");
            assert_eq!(reason.forbids(StreamName::Transactional), transactional, "{reason}");
        }
    }
}
