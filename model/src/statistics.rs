//! Ledger statistics for operators (rule 37): undelivered digests, and outcomes, reports and suppressions
//! within a time span.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{records::SuppressionReason, window::DigestOutcome};

#[derive(Clone, Debug)]
pub struct StatisticsScope {
    pub tenant: Option<String>,
    pub since: Timestamp,
    pub now: Timestamp,
}

/// The statistics of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LedgerStatistics {
    /// Digests that were claimed and have no end, by tenant and type.
    pub undelivered: Vec<UndeliveredDigests>,
    /// Note that retention removes a digest together with its events.
    pub ended: Vec<EndedDigests>,
    /// Signals and events of the span that could not be decoded.
    pub dead_letters: u64,
    /// Events repeating an earlier id with different content, after the earlier one was settled. They are in
    /// no message.
    pub refused_contents: u64,
    /// Parts of the span's webhooks that could not be used. They belong to no tenant.
    pub webhook_dead_letters: u64,
    /// Bounces and complaints that providers reported in the span, by relay.
    pub reported: Vec<ReportedByRelay>,
    /// Suppressed addresses, by reason. The span does not matter.
    pub suppressed: Vec<SuppressedAddresses>,
}

/// Digests of one tenant and type that were claimed and have no end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UndeliveredDigests {
    pub tenant: String,
    pub digest_type: String,
    pub digests: u64,
    /// Those with at least one attempt.
    pub attempted: u64,
    /// Those whose window is past due.
    pub overdue: u64,
    /// The earliest time at which one of these digests was due.
    pub oldest_due_at: Timestamp,
}

/// Digests of one tenant and type that ended alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndedDigests {
    pub tenant: String,
    pub digest_type: String,
    pub outcome: DigestOutcome,
    pub digests: u64,
    /// Events under these digests.
    pub events: u64,
}

/// Reports about messages of one relay. The relay is empty if no report named one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportedByRelay {
    pub relay: String,
    pub bounces: u64,
    pub complaints: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedByKind {
    pub relay: String,
    /// See [`ReportKind::name`](crate::delivery_events::ReportKind::name).
    pub kind: String,
    pub events: u64,
}

/// Addresses that are suppressed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuppressedAddresses {
    pub reason: SuppressionReason,
    pub addresses: u64,
}

impl LedgerStatistics {
    #[must_use]
    pub fn oldest_overdue(&self, now: Timestamp) -> Option<SignedDuration> {
        let ages = self.undelivered.iter().map(|undelivered| now.duration_since(undelivered.oldest_due_at));
        ages.max().filter(|age| age.is_positive())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undelivered(due: i64) -> UndeliveredDigests {
        let (tenant, digest_type) = ("acme".into(), "activity".into());
        let oldest_due_at = Timestamp::from_second(due).unwrap();
        UndeliveredDigests { tenant, digest_type, digests: 1, attempted: 0, overdue: 0, oldest_due_at }
    }

    #[test]
    fn the_oldest_overdue_digest_was_due_first() {
        for (dues, oldest) in [(&[][..], None), (&[101], None), (&[100], None), (&[40, 70, 200], Some(60))] {
            let undelivered = dues.iter().copied().map(undelivered).collect();
            let ledger = LedgerStatistics { undelivered, ..Default::default() };
            let now = Timestamp::from_second(100).unwrap();
            assert_eq!(ledger.oldest_overdue(now), oldest.map(SignedDuration::from_secs), "{dues:?}");
        }
    }
}
