//! Addresses to which a tenant must not send email, and why. The reason decides which streams are blocked.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::page::PageRequest;
use crate::settings::StreamName;

/// An address that a tenant must not mail.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Suppression {
    pub tenant: String,
    pub address: String,
    pub reason: SuppressionReason,
    /// The evidence, e.g. the relay's reply with the address removed.
    pub detail: String,
    pub at: Timestamp,
}

pub type SuppressionPlace = (Timestamp, String, String, SuppressionReason);

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
    pub page: PageRequest<SuppressionPlace>,
}

closed_set! {
    pub enum SuppressionReason {
        HardBounce = "hard_bounce",
        /// Its server rejected several messages in a row.
        SoftBounces = "soft_bounces",
        Complaint = "complaint",
        /// Its owner unsubscribed from single messages, where there is no consent to withdraw.
        Unsubscribed = "unsubscribed",
    }
}

impl SuppressionReason {
    /// Returns `true` if this reason blocks the stream: a bounce blocks both, a complaint or unsubscription
    /// only bulk messages.
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
            (SuppressionReason::HardBounce, true),
            (SuppressionReason::SoftBounces, true),
            (SuppressionReason::Complaint, false),
            (SuppressionReason::Unsubscribed, false),
        ] {
            assert!(reason.forbids(StreamName::Bulk), "{reason}");
            assert_eq!(reason.forbids(StreamName::Transactional), transactional, "{reason}");
        }
    }
}
