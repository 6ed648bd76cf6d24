use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    report::{Counts, Question},
    statistics::{LedgerStatistics, ReportedByKind, Scope, Suppressed, Undelivered},
};

use crate::Result;

/// Statistics for operators.
#[async_trait]
pub trait Statistics: Send + Sync + 'static {
    /// Counts undelivered digests, and the ends, reports and dead letters of the span. Each count reads an index of what is
    /// undelivered or recent, except that of suppressions, which reads their primary key.
    async fn statistics(&self, scope: &Scope) -> Result<LedgerStatistics>;

    /// Counts digests that were claimed and have no end, by tenant and type. Reads at most this number of rows, by an index of
    /// what has no end.
    async fn undelivered(&self, most: u32, now: Timestamp) -> Result<Vec<Undelivered>>;

    /// Counts the ids that came since then with other content after their events were over. Reads an index of those.
    async fn refused_contents(&self, since: Timestamp) -> Result<u64>;

    /// Counts the delivery events that were received after the one time and not after the other, by relay and kind.
    async fn reported(&self, after: Timestamp, until: Timestamp) -> Result<Vec<ReportedByKind>>;

    /// Counts what became of messages, those that retention has deleted included, by type, template, relay or day. The text of a day is
    /// its number since 1970. Reads the messages of the days by the index of tenant and time.
    async fn report(&self, question: &Question) -> Result<Vec<(String, Counts)>>;

    /// Counts suppressed addresses by reason. Reads at most this number of rows, by their primary key.
    async fn suppressed_addresses(&self, most: u32) -> Result<Vec<Suppressed>>;
}
