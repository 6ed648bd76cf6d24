//! PostgreSQL.

use std::{io, str::FromStr, time::Duration};

use sqlx::{
    Connection as _,
    postgres::{PgConnectOptions, PgPoolOptions, PgQueryResult},
    raw_sql,
};
use tokio::time::timeout;

use super::{Dialect, Sql, dots::Dots, migrator, statements::items_and_groups};
use crate::Result;

const CONNECTIONS: u32 = 16;
/// How long a call waits for a connection before the store counts as unavailable.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take to be in order when a call gives it back, which may have ended amid a statement. Nobody gets
/// one that is not.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// A worker whose host is gone closes no connection: what it has locked is free again after a minute, and who waits for that
/// gives its connection back after half a minute: a delivery has heard of a cancel by then. PostgreSQL's own defaults are two
/// hours, and for ever.
const SESSION: &str = "
SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '60s';
SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3";

impl Sql<sqlx::Postgres> {
    /// Connects to the database of `postgres://...`.
    ///
    /// # Errors
    /// The address cannot be read, or the database does not answer.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = PgConnectOptions::from_str(url)?.application_name("tidings");
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(ACQUIRE_TIMEOUT);
        let pool = pool.after_connect(|connection, _| {
            Box::pin(async move { raw_sql(SESSION).execute(connection).await.map(drop) })
        });
        let pool = pool.after_release(|connection, _| {
            Box::pin(async move {
                let in_order = timeout(RELEASE_TIMEOUT, connection.ping()).await;
                in_order.map_err(|_| sqlx::Error::Io(io::ErrorKind::TimedOut.into()))?.map(|()| true)
            })
        });
        let pool = pool.connect_with(options).await?;
        Ok(Self { writer: pool.clone(), reader: pool, dots: Dots::default() })
    }

    /// Brings the tables to this version's.
    ///
    /// # Errors
    /// A statement failed, or another version of Tidings migrated the database differently.
    pub async fn migrate(&self) -> Result<()> {
        Ok(migrator(include_str!("../../migrations/postgres/0001_tidings.sql")).run(&self.writer).await?)
    }
}

/// Cut to what an i64 holds: a sum that cannot be read would fail its digest for ever.
macro_rules! summed_counts {
    ($events:literal) => {
        concat!(
            "(SELECT COALESCE(json_object_agg(name, total), '{}')::text
              FROM (SELECT c.key AS name,
                           LEAST(GREATEST(SUM(c.value::bigint), -9223372036854775808), 9223372036854775807) AS total
                    FROM events e CROSS JOIN jsonb_each_text(e.counts) c WHERE ",
            $events,
            " GROUP BY c.key) sums)"
        )
    };
}

impl Dialect for sqlx::Postgres {
    const BEGIN_WRITE: &'static str = "BEGIN";
    const BEGIN_READ: &'static str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    const PUT_RECIPIENTS: &'static str = "
INSERT INTO recipients (tenant, user_id, address, address_lower, name, zone, locale, zone_revision, zone_changed_at)
SELECT value->>'tenant', value->>'user', value->>'address', value->>'address_lower', value->>'name', value->>'zone',
       value->>'locale', CASE WHEN value->>'zone' = '' THEN 0 ELSE 1 END, NULL
FROM jsonb_array_elements($1::jsonb)
ON CONFLICT (tenant, user_id) DO UPDATE SET address = excluded.address, address_lower = excluded.address_lower,
    name = excluded.name, zone = excluded.zone, locale = excluded.locale,
    zone_revision = recipients.zone_revision + CASE WHEN recipients.zone = excluded.zone THEN 0 ELSE 1 END,
    zone_changed_at = CASE WHEN recipients.zone = excluded.zone THEN recipients.zone_changed_at ELSE $2::bigint END";
    const PUT_PREFERENCES: &'static str = "
INSERT INTO preferences (tenant, digest_type, user_id, chosen, revision, changed_at)
VALUES ($1, $2, $3, $4::jsonb, 1, $5)
ON CONFLICT (tenant, digest_type, user_id) DO UPDATE SET chosen = excluded.chosen,
    revision = preferences.revision + 1, changed_at = excluded.changed_at WHERE preferences.chosen <> excluded.chosen";
    const PUT_RETRACTS: &'static str = "
INSERT INTO retracts (tenant, digest_type, user_id, event_id, category, entity_type, entity_id, until_at, retracted_at)
SELECT $1, $2, $3, value->>'event_id', value->>'category', value->>'entity_type', value->>'entity_id', (value->>'until_at')::bigint, $5::bigint
FROM jsonb_array_elements($4::jsonb) WHERE TRUE
ON CONFLICT (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) DO UPDATE SET
    until_at = excluded.until_at, retracted_at = excluded.retracted_at WHERE retracts.until_at < excluded.until_at";
    const LOCK_DIGEST: &'static str = "SELECT state, outcome, why FROM digests WHERE digest_id = $1 FOR UPDATE";
    const LOCK_MESSAGE: &'static str = "SELECT state, why, sent_at FROM messages WHERE id = $1 FOR UPDATE";
    const LOCK_ADDRESS: &'static str = "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))";
    const LOCK_RECIPIENT: &'static str = "SELECT user_id FROM recipients WHERE tenant = $1 AND user_id = $2 FOR UPDATE";
    const INSERT_EVENTS: &'static str = "
INSERT INTO events (tenant, digest_type, user_id, digest_id, event_id, category, entity_type, entity_id, actor,
                    occurred_at, counts, urgent, payload, recorded_at, returned_at)
SELECT d.tenant, d.digest_type, d.user_id, d.digest_id, e.value->>'event_id', e.value->>'category',
       e.value->>'entity_type', e.value->>'entity_id', e.value->>'actor', (e.value->>'occurred_at')::bigint,
       (e.value->>'counts')::jsonb, (e.value->>'urgent')::boolean, (e.value->>'payload')::json, $3, d.returned_at
FROM digests d CROSS JOIN jsonb_array_elements($2::jsonb) e
WHERE d.digest_id = $1 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = d.digest_id)
ON CONFLICT DO NOTHING";
    const RECORDED_EVENTS: &'static str = "
SELECT e.event_id, e.digest_id, d.state FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.tenant = $1 AND e.digest_type = $2 AND e.user_id = $3
  AND e.event_id = ANY (ARRAY(SELECT jsonb_array_elements_text($4::jsonb)))";
    const TOTALS: &'static str = items_and_groups!(summed_counts!("e.digest_id = $1"));
    const LINES: &'static str = concat!(
        "WITH lines AS MATERIALIZED (
    SELECT category, entity_type, entity_id, COUNT(*) AS items, MIN(occurred_at) AS first_at,
           MAX(occurred_at) AS last_at
    FROM events WHERE digest_id = $1
    GROUP BY category, entity_type, entity_id
    ORDER BY items DESC, last_at DESC, category, entity_type, entity_id LIMIT $2)
SELECT l.category, l.entity_type, l.entity_id, l.items, l.first_at, l.last_at, ",
        summed_counts!(
            "(e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)"
        ),
        " AS counts, latest.actor, latest.payload::text AS payload,
       (SELECT COUNT(DISTINCT e.actor) FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)) AS actor_count,
       (SELECT COALESCE(json_agg(actor ORDER BY last_at DESC, actor), '[]')::text
        FROM (SELECT e.actor, MAX(e.occurred_at) AS last_at FROM events e WHERE e.actor <> '' AND
        (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
        GROUP BY e.actor ORDER BY last_at DESC, e.actor LIMIT 3) actors) AS actors
FROM lines l CROSS JOIN LATERAL (
    SELECT e.actor, e.payload FROM events e
    WHERE (e.digest_id, e.category, e.entity_type, e.entity_id) = ($1, l.category, l.entity_type, l.entity_id)
    ORDER BY e.occurred_at DESC, e.event_id DESC LIMIT 1) latest
ORDER BY l.items DESC, l.last_at DESC, l.category, l.entity_type, l.entity_id"
    );
    /// The message's row is locked before it is looked at: a close that commits meanwhile wins.
    const PAST_THE_DOT: &'static str = "
UPDATE attempts SET past_the_dot_at = COALESCE(past_the_dot_at, $3)
FROM (SELECT id FROM messages WHERE id = $1 AND closed_at IS NULL FOR UPDATE) m
WHERE attempts.message = m.id AND attempts.number = $2 AND attempts.class IS NULL";
    const BURY: &'static str = "
INSERT INTO dead_letters (workflow_id, run_id, seq, reason, encoding, size, sha256, head, buried_at)
SELECT $1, $2, (value->>'seq')::bigint, value->>'reason', value->>'encoding', (value->>'size')::bigint,
       value->>'sha256', value->>'head', $4
FROM jsonb_array_elements($3::jsonb) ON CONFLICT DO NOTHING";
    const SKIP_LOCKED: &'static str = " FOR UPDATE SKIP LOCKED";
    const EACH_OF_1: &'static str = "jsonb_array_elements($1::jsonb)";

    fn rows(result: &PgQueryResult) -> u64 {
        result.rows_affected()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use sqlx::PgPool;
    use tokio::{
        io::copy_bidirectional,
        net::{TcpListener, TcpStream},
        sync::watch,
    };
    use uuid::Uuid;

    use super::*;
    use crate::{Error, Postgres, Store as _, conformance::schema_url};

    /// A way to `server`. What came on it before a signal hears nothing any more then, and is not closed.
    async fn way_to(server: String, gone: watch::Receiver<()>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = TcpStream::connect(&server).await.unwrap();
                let mut gone = gone.clone();
                gone.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = gone.changed() => std::future::pending().await,
                    }
                });
            }
        });
        port
    }

    #[tokio::test]
    async fn calls_and_their_connections_end_when_the_host_of_the_database_is_gone() {
        let Some((url, schema)) = schema_url().await else { return };
        let direct = PgPool::connect(&url).await.unwrap();
        let mut by_way = url::Url::parse(&url).unwrap();
        let server = format!("{}:{}", by_way.host_str().unwrap(), by_way.port().unwrap_or(5432));
        let (went, gone) = watch::channel(());
        by_way.set_host(Some("127.0.0.1")).unwrap();
        by_way.set_port(Some(way_to(server, gone).await)).unwrap();
        let store = Postgres::connect(by_way.as_str()).await.unwrap();
        store.migrate().await.unwrap();

        let mut lock = direct.begin().await.unwrap();
        raw_sql("LOCK TABLE digests").execute(&mut *lock).await.unwrap();
        let calls = join_all((0..CONNECTIONS).map(|_| store.digest(Uuid::nil())));
        let all_wait = async {
            let waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'digests'::regclass";
            while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut *lock).await.unwrap() < i64::from(CONNECTIONS) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            went.send(()).unwrap();
        };
        let (answers, ()) = tokio::join!(calls, all_wait);
        for answer in answers {
            assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
        }
        lock.rollback().await.unwrap();
        // It is there again, at the same address.
        assert_eq!(store.digest(Uuid::nil()).await.unwrap(), None);
        raw_sql(sqlx::AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&direct).await.unwrap();
    }
}
