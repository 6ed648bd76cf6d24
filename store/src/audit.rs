use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key,
    records::{AuditEntry, DeadLetterId, Emitted},
    step::{AuditInput, DeadLettersInput},
};

use crate::Result;

/// Commands of operators, and signals that could not be decoded.
#[async_trait]
pub trait AuditTrail: Send + Sync + 'static {
    /// Records commands of operators, once each.
    async fn audit(&self, input: &AuditInput) -> Result<()>;

    /// Records dead letters, once each.
    async fn put_dead_letters(&self, input: &DeadLettersInput, now: Timestamp) -> Result<()>;

    /// Records that an operator emitted a dead letter again, with an audit entry for each of the keys. The first call counts:
    /// a later one changes nothing and returns the first emission. If retention has deleted the letter meanwhile, only the
    /// entries are recorded.
    async fn mark_emitted(
        &self,
        id: &DeadLetterId,
        keys: &BTreeSet<Key>,
        entry: &AuditEntry,
    ) -> Result<Option<Emitted>>;
}
