use async_trait::async_trait;
use tidings_model::records::{AuditEntry, Listed, Reason, Suppression, SuppressionFilter, SuppressionPlace};

use crate::Result;

/// Addresses that a tenant must not email. Addresses are compared in lower case, with their domain in ASCII.
#[async_trait]
pub trait Suppressions: Send + Sync + 'static {
    /// Suppresses an address of a tenant for one reason. The earliest suppression of each reason stays.
    async fn suppress(&self, suppression: &Suppression) -> Result<()>;

    /// Suppresses addresses as [`Suppressions::suppress`] does, by order of an operator, and returns the number of those that were
    /// new or are older than what was known. Each of these is audited for each recipient with the address, so that the audit trail
    /// contains no address.
    async fn put_suppressions(&self, suppressions: &[Suppression], entry: &AuditEntry) -> Result<u64>;

    /// Removes the suppressions of an address, or only those for `reason`, and returns the removed reasons. Each one is audited
    /// for each recipient with the address, so that the audit trail contains no address.
    async fn lift(
        &self,
        tenant: &str,
        address: &str,
        reason: Option<Reason>,
        entry: &AuditEntry,
    ) -> Result<Vec<Reason>>;

    /// Lists suppressions, the latest first.
    async fn suppressions(&self, filter: &SuppressionFilter) -> Result<Listed<Suppression, SuppressionPlace>>;

    /// The reasons why a tenant must not email an address, the earliest first.
    async fn suppressed(&self, tenant: &str, address: &str) -> Result<Vec<Reason>>;
}
