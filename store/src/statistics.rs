use async_trait::async_trait;
use tidings_model::statistics::{LedgerStatistics, Scope};

use crate::Result;

/// Statistics for operators.
#[async_trait]
pub trait Statistics: Send + Sync + 'static {
    /// Counts undelivered digests, and the ends, reports and dead letters of the span. Each count reads an index of what is
    /// undelivered or recent, except that of suppressions, which reads their primary key.
    async fn statistics(&self, scope: &Scope) -> Result<LedgerStatistics>;
}
