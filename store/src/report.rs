//! Counts of what became of messages: those that are stored, and those that retention has deleted.
//!
//! The row of a message has one bit for each kind of report. A message counts when it is stored by its row, and afterwards in
//! `message_days`, to which the transaction that deletes the row adds it.

use sqlx::{AssertSqlSafe, query, query_as};
use tidings_model::report::{Bounced, By, ByWhom, Counted, Counts, Question};
use uuid::Uuid;

use crate::{
    Result,
    sql::{Sql, columns::row, dialect::Dialect},
};

/// Milliseconds of a day of UTC.
const DAY: i64 = 86_400_000;

/// `$2` bits.
pub const MARK_REPORTED: &str = "UPDATE messages SET reported = reported | $2 WHERE id = $1 AND (reported & $2) <> $2";

/// The relay that was given the message last.
const RELAY: &str = "COALESCE((SELECT a.relay FROM attempts a WHERE a.message = m.id AND a.past_the_dot_at IS NOT NULL
                               ORDER BY a.number DESC LIMIT 1), '')";

/// Of one tenant, `$1`: by the index `messages_by_age`.
const OF_TENANT: &str = "messages m WHERE m.tenant = $1 AND";

/// Of every tenant, each by the index `messages_by_age`. `$1` is empty.
const OF_ALL: &str = "
    (WITH RECURSIVE tenants (tenant) AS (
         SELECT MIN(tenant) FROM messages
         UNION ALL
         SELECT (SELECT MIN(n.tenant) FROM messages n WHERE n.tenant > t.tenant) FROM tenants t WHERE t.tenant IS NOT NULL)
     SELECT tenant FROM tenants WHERE tenant IS NOT NULL) t
    JOIN messages m ON m.tenant = t.tenant WHERE $1 = '' AND";

/// `$2` and `$3` are milliseconds, `$4` and `$5` days. The last two read the index `message_days_by_day`, or the primary key.
const REPORT: &str = "
SELECT bucket, {sums} FROM (
    SELECT bucket, {bits} FROM (
        SELECT {live} AS bucket, m.sent_at, m.reported FROM {messages} m.created_at >= $2 AND m.created_at < $3) live
    GROUP BY bucket
    UNION ALL
    SELECT {gone} AS bucket, {columns} FROM message_days
    WHERE (tenant = $1 OR $1 = '') AND day >= $4 AND day < $5) counted
GROUP BY bucket ORDER BY bucket";

/// `{each}` is a message's id in a list of its own. In one order, so that two deletions do not wait for each other.
const ROLL_UP: &str = "
INSERT INTO message_days (tenant, day, digest_type, template, relay, {columns})
SELECT tenant, day, digest_type, template, relay, {bits} FROM (
    SELECT m.tenant, m.created_at / {day} AS day, m.digest_type, m.template, {relay} AS relay, m.sent_at, m.reported
    FROM messages m WHERE m.id IN (SELECT value->>0 FROM {each})) gone
WHERE sent_at IS NOT NULL OR reported <> 0
GROUP BY tenant, day, digest_type, template, relay ORDER BY tenant, day, digest_type, template, relay
ON CONFLICT (tenant, day, digest_type, template, relay) DO UPDATE SET {added}";

impl<D: Dialect> Sql<D> {
    pub(crate) async fn mark_reported(
        connection: &mut D::Connection,
        message: Uuid,
        counted: impl IntoIterator<Item = Counted>,
    ) -> Result<()> {
        let bits = counted.into_iter().fold(0, |bits, counted| bits | counted.bit());
        let mark = query(MARK_REPORTED).bind(message.to_string()).bind(bits);
        mark.execute(connection).await?;
        Ok(())
    }

    /// Adds messages that are going to be deleted to the counts of their days. `messages` is a JSON array.
    pub(crate) async fn roll_up(connection: &mut D::Connection, messages: String) -> Result<()> {
        let statement = roll_up().replace("{each}", D::EACH_OF_1);
        query(AssertSqlSafe(statement)).bind(messages).execute(connection).await?;
        Ok(())
    }

    pub(crate) async fn report(&self, question: &Question) -> Result<Vec<(String, Counts)>> {
        let [from, until] = question.days();
        let rows = query_as(AssertSqlSafe(report(question.by, question.tenant.is_some())))
            .bind(question.tenant.clone().unwrap_or_default())
            .bind(from.saturating_mul(DAY))
            .bind(until.saturating_mul(DAY))
            .bind(from)
            .bind(until);
        let rows: Vec<CountsRow> = rows.fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(rows.into_iter().map(|row| (row.bucket.clone(), row.into())).collect())
    }
}

/// The statement of a report. `$1` tenant or empty, `$2` to `$5` the days.
pub fn report(by: Option<By>, of_tenant: bool) -> String {
    let day = format!("CAST(m.created_at / {DAY} AS TEXT)");
    let (live, gone) = match by {
        None => ("''", "''"),
        Some(By::Type) => ("m.digest_type", "digest_type"),
        Some(By::Template) => ("m.template", "template"),
        Some(By::Relay) => (RELAY, "relay"),
        Some(By::Day) => (day.as_str(), "CAST(day AS TEXT)"),
    };
    let messages = if of_tenant { OF_TENANT } else { OF_ALL };
    let statement = REPORT.replace("{live}", live).replace("{gone}", gone).replace("{messages}", messages);
    statement.replace("{sums}", &sums()).replace("{bits}", &bits()).replace("{columns}", &names())
}

fn roll_up() -> String {
    let added = columns().map(|column| format!("{column} = message_days.{column} + excluded.{column}"));
    let statement = ROLL_UP.replace("{columns}", &names()).replace("{bits}", &bits());
    let statement = statement.replace("{added}", &added.collect::<Vec<_>>().join(", "));
    statement.replace("{day}", &DAY.to_string()).replace("{relay}", RELAY)
}

fn columns() -> impl Iterator<Item = &'static str> {
    ["sent"].into_iter().chain(Counted::ALL.into_iter().map(Counted::name))
}

fn names() -> String {
    columns().collect::<Vec<_>>().join(", ")
}

/// Sums of columns that are counts.
fn sums() -> String {
    columns().map(|column| format!("CAST(SUM({column}) AS BIGINT) AS {column}")).collect::<Vec<_>>().join(", ")
}

/// Counts of messages by their bits.
fn bits() -> String {
    let sent = "CAST(SUM(CASE WHEN sent_at IS NOT NULL THEN 1 ELSE 0 END) AS BIGINT) AS sent".to_owned();
    let bit = |counted: Counted| {
        let (bit, name) = (counted.bit(), counted.name());
        format!("CAST(SUM(CASE WHEN (reported & {bit}) <> 0 THEN 1 ELSE 0 END) AS BIGINT) AS {name}")
    };
    [sent].into_iter().chain(Counted::ALL.into_iter().map(bit)).collect::<Vec<_>>().join(", ")
}

row! {
/// Columns of a report.
pub struct CountsRow {
    bucket: String,
    sent: u64,
    delivered: u64,
    deferred: u64,
    bounced_hard: u64,
    bounced_soft: u64,
    bounced_policy: u64,
    never_sent: u64,
    complained: u64,
    unsubscribed: u64,
    opened_people: u64,
    opened_machines: u64,
    opened_unknown: u64,
    clicked_people: u64,
    clicked_machines: u64,
    clicked_unknown: u64,
}
}

impl From<CountsRow> for Counts {
    fn from(row: CountsRow) -> Self {
        Self {
            sent: row.sent,
            delivered: row.delivered,
            deferred: row.deferred,
            bounced: Bounced { hard: row.bounced_hard, soft: row.bounced_soft, policy: row.bounced_policy },
            never_sent: row.never_sent,
            complained: row.complained,
            unsubscribed: row.unsubscribed,
            opened: ByWhom { people: row.opened_people, machines: row.opened_machines, unknown: row.opened_unknown },
            clicked: ByWhom {
                people: row.clicked_people,
                machines: row.clicked_machines,
                unknown: row.clicked_unknown,
            },
        }
    }
}
