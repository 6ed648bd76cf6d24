//! Statistics for operators. The conditions on `emptied_at` let `digests_to_empty` answer without an index of their own, which
//! every digest would have to write.

use super::columns::row;
use super::dialect::Dialect;
use super::{Sql, number, within_timeout};
use crate::{Result, Statistics};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{query_as, query_scalar};
use tidings_model::records::Reason;
use tidings_model::report::{Counts, Question};
use tidings_model::statistics::{
    Ended, LedgerStatistics, ReportedByKind, ReportedByRelay, Scope, Suppressed, Undelivered,
};
use tidings_model::step::Outcome;
use tracing::instrument;

/// `$1` tenant or empty, `$2` now, `$3` the most rows. An open row collects events of a window that is not due.
pub const UNDELIVERED: &str = "
SELECT tenant, digest_type, COUNT(*) AS digests, MIN(due_at) AS oldest_due_at,
       CAST(SUM(CASE WHEN EXISTS (SELECT 1 FROM attempts WHERE message = digest_id) THEN 1 ELSE 0 END) AS BIGINT)
           AS attempted,
       CAST(SUM(CASE WHEN due_at < $2 THEN 1 ELSE 0 END) AS BIGINT) AS overdue
FROM (
    SELECT digest_id, tenant, digest_type, due_at FROM digests
    WHERE closed_at IS NULL AND emptied_at IS NULL AND state <> 'open' AND ($1 = '' OR tenant = $1) LIMIT $3) waiting
GROUP BY tenant, digest_type ORDER BY tenant, digest_type";

/// `$1` tenant or empty, `$2` since.
pub const ENDED: &str = "
SELECT tenant, digest_type, outcome, COUNT(*) AS digests,
       CAST(SUM((SELECT COUNT(*) FROM events e WHERE e.digest_id = d.digest_id)) AS BIGINT) AS events
FROM digests d
WHERE closed_at >= $2 AND emptied_at IS NULL AND ($1 = '' OR tenant = $1)
GROUP BY tenant, digest_type, outcome ORDER BY tenant, digest_type, outcome";

/// `$1` prefix of the workflow ids of a tenant, `$2` since.
pub const DEAD_LETTERS: &str = "
SELECT COUNT(*) FROM dead_letters WHERE buried_at >= $2 AND substr(workflow_id, 1, length($1)) = $1";

/// `$1` tenant or empty, `$2` since.
pub const REFUSED_CONTENTS: &str =
    "SELECT COUNT(*) FROM events WHERE refused_at >= $2 AND refused_at IS NOT NULL AND ($1 = '' OR tenant = $1)";

/// `$1` since. Their tenant is not known.
pub const WEBHOOK_DEAD_LETTERS: &str = "SELECT COUNT(*) FROM webhook_dead_letters WHERE buried_at >= $1";

/// `$1` tenant or empty, `$2` since.
pub const REPORTED: &str = "
SELECT COALESCE(relay, '') AS relay, CAST(SUM(CASE WHEN kind = 'bounced' AND NOT never_sent THEN 1 ELSE 0 END) AS BIGINT) AS bounces,
       CAST(SUM(CASE WHEN kind = 'complained' THEN 1 ELSE 0 END) AS BIGINT) AS complaints
FROM delivery_events
WHERE received_at >= $2 AND kind IN ('bounced', 'complained') AND ($1 = '' OR tenant = $1)
GROUP BY COALESCE(relay, '') ORDER BY COALESCE(relay, '')";

/// `$1` after, `$2` until.
pub const REPORTED_BY_KIND: &str = "
SELECT COALESCE(relay, '') AS relay, kind, COUNT(*) AS events
FROM delivery_events WHERE received_at > $1 AND received_at <= $2
GROUP BY COALESCE(relay, ''), kind ORDER BY COALESCE(relay, ''), kind";

/// `$1` tenant or empty, `$2` the most rows.
pub const SUPPRESSED: &str = "
SELECT reason, COUNT(*) AS addresses FROM (
    SELECT reason FROM suppressions WHERE ($1 = '' OR tenant = $1) ORDER BY tenant, address_lower, reason LIMIT $2) first
GROUP BY reason ORDER BY reason";

/// Every row.
const ALL: i64 = i64::MAX;

#[async_trait]
impl<D: Dialect> Statistics for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(tenant = scope.tenant), err(level = "debug"))]
    async fn statistics(&self, scope: &Scope) -> Result<LedgerStatistics> {
        within_timeout(async {
            let tenant = scope.tenant.clone().unwrap_or_default();
            let since = scope.since.as_millisecond();
            let mut tx = self.read().await?;
            let now = scope.now.as_millisecond();
            let undelivered: Vec<UndeliveredRow> =
                query_as(UNDELIVERED).bind(tenant.clone()).bind(now).bind(ALL).fetch_all(&mut *tx).await?;
            let ended: Vec<EndedRow> = query_as(ENDED).bind(tenant.clone()).bind(since).fetch_all(&mut *tx).await?;
            let letters = query_scalar(DEAD_LETTERS).bind(workflows_of(scope)).bind(since);
            let dead_letters: i64 = letters.fetch_one(&mut *tx).await?;
            let refused = query_scalar(REFUSED_CONTENTS).bind(tenant.clone()).bind(since);
            let refused_contents: i64 = refused.fetch_one(&mut *tx).await?;
            let webhook_dead_letters = match scope.tenant {
                None => query_scalar(WEBHOOK_DEAD_LETTERS).bind(since).fetch_one(&mut *tx).await?,
                Some(_) => 0,
            };
            let reported: Vec<ReportedRow> =
                query_as(REPORTED).bind(tenant.clone()).bind(since).fetch_all(&mut *tx).await?;
            let suppressed: Vec<SuppressedRow> =
                query_as(SUPPRESSED).bind(tenant).bind(ALL).fetch_all(&mut *tx).await?;
            tx.commit().await?;
            Ok(LedgerStatistics {
                undelivered: undelivered.into_iter().map(Into::into).collect(),
                ended: ended.into_iter().map(Into::into).collect(),
                dead_letters: number(dead_letters)?,
                refused_contents: number(refused_contents)?,
                webhook_dead_letters: number(webhook_dead_letters)?,
                reported: reported.into_iter().map(Into::into).collect(),
                suppressed: suppressed.into_iter().map(Into::into).collect(),
            })
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn undelivered(&self, most: u32, now: Timestamp) -> Result<Vec<Undelivered>> {
        within_timeout(async {
            let counted = query_as(UNDELIVERED).bind(String::new()).bind(now.as_millisecond()).bind(i64::from(most));
            let rows: Vec<UndeliveredRow> = counted.fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(rows.into_iter().map(Into::into).collect())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn refused_contents(&self, since: Timestamp) -> Result<u64> {
        within_timeout(async {
            let counted = query_scalar(REFUSED_CONTENTS).bind(String::new()).bind(since.as_millisecond());
            number(counted.fetch_one(&mut *self.reader.acquire().await?).await?)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn reported(&self, after: Timestamp, until: Timestamp) -> Result<Vec<ReportedByKind>> {
        within_timeout(async {
            let counted = query_as(REPORTED_BY_KIND).bind(after.as_millisecond()).bind(until.as_millisecond());
            let rows: Vec<ReportedByKindRow> = counted.fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(rows.into_iter().map(Into::into).collect())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(tenant = question.tenant), err(level = "debug"))]
    async fn report(&self, question: &Question) -> Result<Vec<(String, Counts)>> {
        self.count_messages(question).await
    }

    #[instrument(level = "debug", skip_all, err(level = "debug"))]
    async fn suppressed_addresses(&self, most: u32) -> Result<Vec<Suppressed>> {
        within_timeout(async {
            let counted = query_as(SUPPRESSED).bind(String::new()).bind(i64::from(most));
            let rows: Vec<SuppressedRow> = counted.fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(rows.into_iter().map(Into::into).collect())
        })
        .await
    }
}

/// The prefix of the workflow ids of the scope's tenant; empty for all tenants.
fn workflows_of(scope: &Scope) -> String {
    scope.tenant.as_deref().map(tidings_model::Key::workflow_ids_of).unwrap_or_default()
}

/// Declares the columns of a query with the names of a public struct, and the way from one to the other.
macro_rules! row_of {
    ($row:ident of $record:ident { $($field:ident: $type:ty,)+ }) => {
        row! { pub struct $row { $($field: $type,)+ } }

        impl From<$row> for $record {
            fn from($row { $($field),+ }: $row) -> Self {
                Self { $($field),+ }
            }
        }
    };
}

row_of!(UndeliveredRow of Undelivered {
    tenant: String,
    digest_type: String,
    digests: u64,
    attempted: u64,
    overdue: u64,
    oldest_due_at: Timestamp,
});
row_of!(EndedRow of Ended { tenant: String, digest_type: String, outcome: Outcome, digests: u64, events: u64, });
row_of!(ReportedRow of ReportedByRelay { relay: String, bounces: u64, complaints: u64, });
row_of!(ReportedByKindRow of ReportedByKind { relay: String, kind: String, events: u64, });
row_of!(SuppressedRow of Suppressed { reason: Reason, addresses: u64, });
