use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::step::{AuditInput, DeadLettersInput};

use crate::Result;

/// Commands of operators, and signals that could not be decoded.
#[async_trait]
pub trait AuditTrail: Send + Sync + 'static {
    /// Records commands of operators, once each.
    async fn audit(&self, input: &AuditInput) -> Result<()>;

    /// Records dead letters, once each.
    async fn put_dead_letters(&self, input: &DeadLettersInput, now: Timestamp) -> Result<()>;
}
