//! The conditions on `emptied_at` are needed for using the index `digests_to_empty`; a separate index would
//! be another write for every digest.

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, query, query_scalar};
use tidings_model::{
    report::{ByWhom, CountedReport, ReportCounts, ReportGrouping, ReportQuery, ReportedBounces},
    statistics::{
        EndedDigests, LedgerStatistics, ReportedByKind, ReportedByRelay, StatisticsScope, SuppressedAddresses,
        UndeliveredDigests,
    },
};
use uuid::Uuid;

use crate::{
    Result,
    sql::{
        SqlStore, calls, checked_number,
        columns::{RowRecord as _, column, record},
        dialect::Dialect,
    },
};

calls! {
    pub trait StatisticsStore {
        /// Counts undelivered digests, and the span's ends, reports and dead letters. Each count uses an
        /// index over undelivered or recent rows; suppressions use their primary key.
        #[span(tenant = scope.tenant)]
        async fn statistics(&self, scope: &StatisticsScope) -> Result<LedgerStatistics>;

        /// Counts claimed digests without an end, by tenant and type: at most `most` rows, from an index of
        /// open digests.
        async fn count_undelivered(&self, most: u32, now: Timestamp) -> Result<Vec<UndeliveredDigests>>;

        /// Counts ids that since then brought other content for final events. Uses an index.
        async fn refused_contents(&self, since: Timestamp) -> Result<u64>;

        async fn count_reported(&self, after: Timestamp, until: Timestamp) -> Result<Vec<ReportedByKind>>;

        /// Counts message results, including messages deleted by retention, by type, template, relay or day
        /// (the number since 1970). Reads the days' messages by the index on tenant and time.
        #[span(tenant = question.tenant)]
        async fn message_report(&self, question: &ReportQuery) -> Result<Vec<(String, ReportCounts)>>;

        /// Counts suppressed addresses by reason: at most `most` rows, by their primary key.
        async fn suppressed_addresses(&self, most: u32) -> Result<Vec<SuppressedAddresses>>;
    }
}

/// Skips open digests, because their windows are not due.
pub const UNDELIVERED: &str = "
SELECT tenant, digest_type, COUNT(*) AS digests, MIN(due_at) AS oldest_due_at,
       CAST(SUM(CASE WHEN EXISTS (SELECT 1 FROM attempts WHERE message = digest_id) THEN 1 ELSE 0 END) AS BIGINT)
           AS attempted,
       CAST(SUM(CASE WHEN due_at < $2 THEN 1 ELSE 0 END) AS BIGINT) AS overdue
FROM (
    SELECT digest_id, tenant, digest_type, due_at FROM digests
    WHERE closed_at IS NULL AND emptied_at IS NULL AND state <> 'open' AND ($1 = '' OR tenant = $1) LIMIT $3) waiting
GROUP BY tenant, digest_type ORDER BY tenant, digest_type";

pub const ENDED: &str = "
SELECT tenant, digest_type, outcome, COUNT(*) AS digests,
       CAST(SUM((SELECT COUNT(*) FROM events e WHERE e.digest_id = d.digest_id)) AS BIGINT) AS events
FROM digests d
WHERE closed_at >= $2 AND emptied_at IS NULL AND ($1 = '' OR tenant = $1)
GROUP BY tenant, digest_type, outcome ORDER BY tenant, digest_type, outcome";

pub const DEAD_LETTERS: &str = "
SELECT COUNT(*) FROM dead_letters WHERE buried_at >= $2 AND substr(workflow_id, 1, length($1)) = $1";

pub const REFUSED_CONTENTS: &str =
    "SELECT COUNT(*) FROM events WHERE refused_at >= $2 AND refused_at IS NOT NULL AND ($1 = '' OR tenant = $1)";

/// `$1` since. Their tenant is unknown.
pub const WEBHOOK_DEAD_LETTERS: &str = "SELECT COUNT(*) FROM webhook_dead_letters WHERE buried_at >= $1";

pub const REPORTED: &str = "
SELECT COALESCE(relay, '') AS relay, CAST(SUM(CASE WHEN kind = 'bounced' AND NOT never_sent THEN 1 ELSE 0 END) AS BIGINT) AS bounces,
       CAST(SUM(CASE WHEN kind = 'complained' THEN 1 ELSE 0 END) AS BIGINT) AS complaints
FROM delivery_events
WHERE received_at >= $2 AND kind IN ('bounced', 'complained') AND ($1 = '' OR tenant = $1)
GROUP BY COALESCE(relay, '') ORDER BY COALESCE(relay, '')";

pub const REPORTED_BY_KIND: &str = "
SELECT COALESCE(relay, '') AS relay, kind, COUNT(*) AS events
FROM delivery_events WHERE received_at > $1 AND received_at <= $2
GROUP BY COALESCE(relay, ''), kind ORDER BY COALESCE(relay, ''), kind";

pub const SUPPRESSED: &str = "
SELECT reason, COUNT(*) AS addresses FROM (
    SELECT reason FROM suppressions WHERE ($1 = '' OR tenant = $1) ORDER BY tenant, address_lower, reason LIMIT $2) first
GROUP BY reason ORDER BY reason";

const ALL: i64 = i64::MAX;

impl<D: Dialect> SqlStore<D> {
    async fn statistics(&self, scope: &StatisticsScope) -> Result<LedgerStatistics> {
        let tenant = scope.tenant.clone().unwrap_or_default();
        let since = scope.since.as_millisecond();
        let mut tx = self.begin_read().await?;
        let now = scope.now.as_millisecond();
        let undelivered = query(UNDELIVERED).bind(tenant.clone()).bind(now).bind(ALL);
        let undelivered = undelivered.try_map(Self::to_record).fetch_all(&mut *tx).await?;
        let ended = query(ENDED).bind(tenant.clone()).bind(since);
        let ended = ended.try_map(Self::to_record).fetch_all(&mut *tx).await?;
        let letters = query_scalar(DEAD_LETTERS).bind(workflows_of(scope)).bind(since);
        let dead_letters: i64 = letters.fetch_one(&mut *tx).await?;
        let refused = query_scalar(REFUSED_CONTENTS).bind(tenant.clone()).bind(since);
        let refused_contents: i64 = refused.fetch_one(&mut *tx).await?;
        let webhook_dead_letters = match scope.tenant {
            None => query_scalar(WEBHOOK_DEAD_LETTERS).bind(since).fetch_one(&mut *tx).await?,
            Some(_) => 0,
        };
        let reported = query(REPORTED).bind(tenant.clone()).bind(since);
        let reported = reported.try_map(Self::to_record).fetch_all(&mut *tx).await?;
        let suppressed = query(SUPPRESSED).bind(tenant).bind(ALL);
        let suppressed = suppressed.try_map(Self::to_record).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(LedgerStatistics {
            undelivered,
            ended,
            dead_letters: checked_number(dead_letters)?,
            refused_contents: checked_number(refused_contents)?,
            webhook_dead_letters: checked_number(webhook_dead_letters)?,
            reported,
            suppressed,
        })
    }

    async fn count_undelivered(&self, most: u32, now: Timestamp) -> Result<Vec<UndeliveredDigests>> {
        let counted = query(UNDELIVERED).bind(String::new()).bind(now.as_millisecond()).bind(i64::from(most));
        self.read_records(counted).await
    }

    async fn refused_contents(&self, since: Timestamp) -> Result<u64> {
        let counted = query_scalar(REFUSED_CONTENTS).bind(String::new()).bind(since.as_millisecond());
        checked_number(counted.fetch_one(&mut *self.reader.acquire().await?).await?)
    }

    async fn count_reported(&self, after: Timestamp, until: Timestamp) -> Result<Vec<ReportedByKind>> {
        let counted = query(REPORTED_BY_KIND).bind(after.as_millisecond()).bind(until.as_millisecond());
        self.read_records(counted).await
    }

    async fn suppressed_addresses(&self, most: u32) -> Result<Vec<SuppressedAddresses>> {
        let counted = query(SUPPRESSED).bind(String::new()).bind(i64::from(most));
        self.read_records(counted).await
    }
}

fn workflows_of(scope: &StatisticsScope) -> String {
    scope.tenant.as_deref().map(tidings_model::Key::workflow_ids_of).unwrap_or_default()
}

record!(row => UndeliveredDigests { tenant, digest_type, digests, attempted, overdue, oldest_due_at });
record!(row => EndedDigests { tenant, digest_type, outcome, digests, events });
record!(row => ReportedByRelay { relay, bounces, complaints });
record!(row => ReportedByKind { relay, kind, events });
record!(row => SuppressedAddresses { reason, addresses });

// Message results. A message's row has one bit per kind of report. The transaction deleting the row adds it
// to `message_days`, where it counts from then on.

const DAY: i64 = 86_400_000;

pub const MARK_REPORTED: &str = "UPDATE messages SET reported = reported | $2 WHERE id = $1 AND (reported & $2) <> $2";

const RELAY: &str = "COALESCE((SELECT a.relay FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL
                               ORDER BY a.number DESC LIMIT 1), '')";

const OF_TENANT: &str = "messages m WHERE m.tenant = $1 AND";

const OF_ALL: &str = "
    (WITH RECURSIVE tenants (tenant) AS (
         SELECT MIN(tenant) FROM messages
         UNION ALL
         SELECT (SELECT MIN(n.tenant) FROM messages n WHERE n.tenant > t.tenant) FROM tenants t WHERE t.tenant IS NOT NULL)
     SELECT tenant FROM tenants WHERE tenant IS NOT NULL) t
    JOIN messages m ON m.tenant = t.tenant WHERE $1 = '' AND";

/// `$2` and `$3` are milliseconds, `$4` and `$5` days. The days use the index `message_days_by_day`, or the
/// primary key.
const REPORT: &str = "
SELECT bucket, {sums} FROM (
    SELECT bucket, {bits} FROM (
        SELECT {live} AS bucket, m.sent_at, m.reported FROM {messages} m.created_at >= $2 AND m.created_at < $3) live
    GROUP BY bucket
    UNION ALL
    SELECT {gone} AS bucket, {columns} FROM message_days
    WHERE (tenant = $1 OR $1 = '') AND day >= $4 AND day < $5) counted
GROUP BY bucket ORDER BY bucket";

/// `{each}` is a one-element list with a message's id. Sorted, so two deletions cannot deadlock.
const ROLL_UP: &str = "
INSERT INTO message_days (tenant, day, digest_type, template, relay, {columns})
SELECT tenant, day, digest_type, template, relay, {bits} FROM (
    SELECT m.tenant, m.created_at / {day} AS day, m.digest_type, m.template, {relay} AS relay, m.sent_at, m.reported
    FROM messages m WHERE m.id IN (SELECT value->>0 FROM {each})) gone
WHERE sent_at IS NOT NULL OR reported <> 0
GROUP BY tenant, day, digest_type, template, relay ORDER BY tenant, day, digest_type, template, relay
ON CONFLICT (tenant, day, digest_type, template, relay) DO UPDATE SET {added}";

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn mark_reported(
        connection: &mut D::Connection,
        message: Uuid,
        counted: impl IntoIterator<Item = CountedReport>,
    ) -> Result<()> {
        let bits = counted.into_iter().fold(0, |bits, counted| bits | counted.bit());
        let mark = query(MARK_REPORTED).bind(message.to_string()).bind(bits);
        mark.execute(connection).await?;
        Ok(())
    }

    pub(crate) async fn roll_up(connection: &mut D::Connection, messages: String) -> Result<()> {
        let statement = roll_up().replace("{each}", D::EACH_OF_1);
        query(AssertSqlSafe(statement)).bind(messages).execute(connection).await?;
        Ok(())
    }

    pub(crate) async fn message_report(&self, question: &ReportQuery) -> Result<Vec<(String, ReportCounts)>> {
        let [from, until] = question.days();
        let rows = query(AssertSqlSafe(report_statement(question.by, question.tenant.is_some())))
            .bind(question.tenant.clone().unwrap_or_default())
            .bind(from.saturating_mul(DAY))
            .bind(until.saturating_mul(DAY))
            .bind(from)
            .bind(until);
        let rows = rows.try_map(|row| Ok((column(&row, "bucket")?, ReportCounts::read::<D>(&row)?)));
        Ok(rows.fetch_all(&mut *self.reader.acquire().await?).await?)
    }
}

pub fn report_statement(by: Option<ReportGrouping>, of_tenant: bool) -> String {
    let day = format!("CAST(m.created_at / {DAY} AS TEXT)");
    let (live, gone) = match by {
        None => ("''", "''"),
        Some(ReportGrouping::DigestType) => ("m.digest_type", "digest_type"),
        Some(ReportGrouping::Template) => ("m.template", "template"),
        Some(ReportGrouping::Relay) => (RELAY, "relay"),
        Some(ReportGrouping::Day) => (day.as_str(), "CAST(day AS TEXT)"),
    };
    let messages = if of_tenant { OF_TENANT } else { OF_ALL };
    let statement = REPORT.replace("{live}", live).replace("{gone}", gone).replace("{messages}", messages);
    statement.replace("{sums}", &column_sums()).replace("{bits}", &bit_counts()).replace("{columns}", &column_names())
}

fn roll_up() -> String {
    let added = count_columns().map(|column| format!("{column} = message_days.{column} + excluded.{column}"));
    let statement = ROLL_UP.replace("{columns}", &column_names()).replace("{bits}", &bit_counts());
    let statement = statement.replace("{added}", &added.collect::<Vec<_>>().join(", "));
    statement.replace("{day}", &DAY.to_string()).replace("{relay}", RELAY)
}

fn count_columns() -> impl Iterator<Item = &'static str> {
    ["sent"].into_iter().chain(CountedReport::ALL.into_iter().map(CountedReport::name))
}

fn column_names() -> String {
    count_columns().collect::<Vec<_>>().join(", ")
}

fn column_sums() -> String {
    count_columns().map(|column| format!("CAST(SUM({column}) AS BIGINT) AS {column}")).collect::<Vec<_>>().join(", ")
}

fn bit_counts() -> String {
    let sent = "CAST(SUM(CASE WHEN sent_at IS NOT NULL THEN 1 ELSE 0 END) AS BIGINT) AS sent".to_owned();
    let bit = |counted: CountedReport| {
        let (bit, name) = (counted.bit(), counted.name());
        format!("CAST(SUM(CASE WHEN (reported & {bit}) <> 0 THEN 1 ELSE 0 END) AS BIGINT) AS {name}")
    };
    [sent].into_iter().chain(CountedReport::ALL.into_iter().map(bit)).collect::<Vec<_>>().join(", ")
}

record!(row => ReportCounts {
    sent,
    delivered,
    deferred,
    bounced: ReportedBounces {
        hard: column(row, "bounced_hard")?, soft: column(row, "bounced_soft")?, policy: column(row, "bounced_policy")?,
    },
    never_sent,
    complained,
    unsubscribed,
    opened: ByWhom {
        people: column(row, "opened_people")?, machines: column(row, "opened_machines")?, unknown: column(row, "opened_unknown")?,
    },
    clicked: ByWhom {
        people: column(row, "clicked_people")?, machines: column(row, "clicked_machines")?, unknown: column(row, "clicked_unknown")?,
    },
});
