//! A workflow's share of a spread (rules 11, 30 and 35): always the same, and evenly distributed.

use std::time::Duration;

use uuid::Uuid;

/// UUIDv5 namespace (RFC 9562) for hashing workflow ids. Random; must never change.
const SPREAD_NAMESPACE: Uuid = Uuid::from_u128(0x7d0a_5b1e_46c3_5f9a_8e21_c4b7_90d2_3f58);

/// For overdue digests if the type has no spread, and for single messages.
pub const OVERDUE_SPREAD: Duration = Duration::from_mins(1);

#[must_use]
pub fn spread_share(workflow_id: &str, spread: Duration) -> Duration {
    let hash = Uuid::new_v5(&SPREAD_NAMESPACE, workflow_id.as_bytes()).as_u128();
    let seconds = hash % u128::from(spread.as_secs().max(1));
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// How long an overdue digest waits when a pause ends or many keys are released (rules 30 and 35). `spread`
/// is the digest type's.
#[must_use]
pub fn overdue_share(workflow_id: &str, spread: Option<Duration>) -> Duration {
    spread_share(workflow_id, spread.unwrap_or(OVERDUE_SPREAD))
}
