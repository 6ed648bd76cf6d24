//! The PostgreSQL dialect.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use sqlx::{AssertSqlSafe, PgConnection, postgres::PgQueryResult, query, query_as, raw_sql};
use tokio::sync::OnceCell;

use super::{
    SqlStore,
    dialect::{Dialect, ServerSession, StatementVariants},
    group_commit::{ArrivalQueue, CommitQueue},
    pool::DatabasePool,
    schema::{self, migrator},
    sessions::SILENT,
    transport::connect_options,
};
use crate::{Result, StoreError};

const CONNECTIONS: usize = 16;
/// After waiting this long for a connection, the store is unavailable.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Session settings. If a worker's host disappears, its locks are released after 60 seconds. A lock wait ends
/// after 30 seconds, less than a delivery needs to notice a cancel. We use generic plans, because planning
/// takes ten times as long as the execution.
const SESSION: &str = "
SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '60s'; SET plan_cache_mode = force_generic_plan;
SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '60s'";

const SESSION_COLUMNS: &str = "pid, backend_start::text";

/// Advances sequences that are behind their rows, because logical replication (used by managed services for
/// upgrades) does not copy them. Skipped if the role may only read and write rows.
pub(crate) const CATCH_UP: &str = "
DO $$
DECLARE
    numbered RECORD;
    latest BIGINT;
BEGIN
    FOR numbered IN
        SELECT t.oid::regclass::text AS name, a.attname AS number, pg_get_serial_sequence(t.oid::regclass::text, a.attname) AS sequence
        FROM pg_attribute a JOIN pg_class t ON t.oid = a.attrelid JOIN pg_namespace n ON n.oid = t.relnamespace
        WHERE n.nspname = current_schema() AND t.relkind = 'r' AND a.attidentity <> ''
    LOOP
        CONTINUE WHEN NOT (has_sequence_privilege(numbered.sequence, 'SELECT') AND has_sequence_privilege(numbered.sequence, 'UPDATE'));
        EXECUTE format('SELECT MAX(%I) FROM %s', numbered.number, numbered.name) INTO latest;
        IF latest > COALESCE(pg_sequence_last_value(numbered.sequence::regclass), 0) THEN
            PERFORM setval(numbered.sequence, latest);
        END IF;
    END LOOP;
END $$";

/// The oldest supported version, in the format of `server_version_num`.
const OLDEST: i32 = 130_000;

impl SqlStore<sqlx::Postgres> {
    /// Connects to `postgres://...`.
    ///
    /// # Errors
    /// The URL is invalid, or the database does not reply.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = connect_options(url)?.application_name("tidings");
        let pool = Arc::new(DatabasePool::<sqlx::Postgres>::new(options, CONNECTIONS, ACQUIRE_TIMEOUT));
        pool.acquire().await?.release();
        Ok(Self {
            writer: Arc::clone(&pool),
            reader: pool,
            file: None,
            past_the_dot: CommitQueue::default(),
            arrivals: ArrivalQueue::default(),
            aliases: Mutex::default(),
            pseudonyms: OnceCell::new(),
            faults: OnceLock::new(),
        })
    }

    /// Migrates the tables to this version, and advances sequences that are behind.
    ///
    /// # Errors
    /// A statement failed, another version of Tidings migrated the database differently, or the server is too
    /// old.
    pub async fn migrate(&self) -> Result<()> {
        let mut connection = self.writer.acquire().await?;
        // If there is nothing to migrate, the role should need no right to do so.
        if self.check_schema().await.is_err() {
            let version: (i32,) =
                query_as("SELECT current_setting('server_version_num')::int").fetch_one(&mut *connection).await?;
            check_supported(version.0)?;
            migrator(&schema::POSTGRES).run(&mut *connection).await?;
        }
        raw_sql(CATCH_UP).execute(&mut *connection).await?;
        Ok(())
    }
}

fn check_supported(version: i32) -> Result<()> {
    if version >= OLDEST {
        return Ok(());
    }
    let (major, oldest) = (version / 10_000, OLDEST / 10_000);
    Err(StoreError::Broken(format!(
        "PostgreSQL {major} is too old: Tidings needs {oldest} or newer, and is tested up to 18"
    )))
}

impl Dialect for sqlx::Postgres {
    const BEGIN_WRITE: &'static str = "BEGIN";
    const BEGIN_READ: &'static str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    const SKIP_LOCKED: &'static str = " FOR UPDATE SKIP LOCKED";
    const EACH_OF_1: &'static str = "jsonb_array_elements($1::jsonb)";

    const HANGS_UP: bool = true;

    async fn prepare_connection(connection: &mut PgConnection) -> sqlx::Result<Option<ServerSession>> {
        raw_sql(SESSION).execute(&mut *connection).await?;
        let own = format!("SELECT {SESSION_COLUMNS} FROM pg_stat_activity WHERE pid = pg_backend_pid()");
        let found: Option<(i32, Option<String>)> = query_as(AssertSqlSafe(own)).fetch_optional(connection).await?;
        Ok(found.and_then(|(pid, started)| Some(ServerSession { pid, started: started? })))
    }

    async fn at_work(connection: &mut PgConnection, pids: &[i32]) -> sqlx::Result<Vec<ServerSession>> {
        // The server may be configured not to track session activity.
        let at_work = format!(
            "SELECT {SESSION_COLUMNS} FROM pg_stat_activity
             WHERE pid = ANY($1) AND (state IS NULL OR state = 'active' OR clock_timestamp() - state_change < make_interval(secs => $2))"
        );
        let found: Vec<(i32, String)> =
            query_as(AssertSqlSafe(at_work)).bind(pids).bind(SILENT.as_secs_f64()).fetch_all(connection).await?;
        Ok(found.into_iter().map(|(pid, started)| ServerSession { pid, started }).collect())
    }

    async fn end_session(connection: &mut PgConnection, session: &ServerSession) -> sqlx::Result<bool> {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2";
        let asked = query(end).bind(session.pid).bind(&session.started).fetch_all(connection).await?;
        Ok(asked.is_empty())
    }

    fn database_place(said: &str) -> String {
        format!("postgres/{said}")
    }

    fn pick_variant(statement: StatementVariants) -> &'static str {
        statement.postgres
    }

    fn changed_rows(result: &PgQueryResult) -> u64 {
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
    use crate::{BreakerStore as _, InboxStore as _, Ledger as _, PostgresStore, conformance::schema_url};

    /// A proxy to `server`. After a signal, open connections stay open but silent.
    async fn proxy_to(server: String, gone: watch::Receiver<()>) -> u16 {
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

    #[test]
    fn a_server_that_is_too_old_is_refused_by_name() {
        assert!(check_supported(120_022).unwrap_err().to_string().contains("PostgreSQL 12 is too old"));
        assert!([130_000, 150_014, 180_000].into_iter().all(|version| check_supported(version).is_ok()));
    }

    /// As for a role that may only read and write rows.
    #[tidings_needs::needs(postgres)]
    #[tokio::test]
    async fn a_migration_with_nothing_to_do_needs_no_right_to_make_tables() {
        let Some((url, schema)) = schema_url().await else { return };
        let direct = PgPool::connect(&url).await.unwrap();
        PostgresStore::connect(&url).await.unwrap().migrate().await.unwrap();
        let role = format!("role_{schema}");
        let grants = format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'role'; GRANT USAGE ON SCHEMA {schema} TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
        );
        raw_sql(sqlx::AssertSqlSafe(grants)).execute(&direct).await.unwrap();
        let mut as_role = url::Url::parse(&url).unwrap();
        as_role.set_username(&role).unwrap();
        as_role.set_password(Some("role")).unwrap();
        let migrated = PostgresStore::connect(as_role.as_str()).await.unwrap().migrate().await;
        let end = format!("DROP OWNED BY {role}; DROP ROLE {role}; DROP SCHEMA {schema} CASCADE");
        raw_sql(sqlx::AssertSqlSafe(end)).execute(&direct).await.unwrap();
        migrated.unwrap();
    }

    /// As after a logical copy.
    #[tidings_needs::needs(postgres)]
    #[tokio::test]
    async fn numbers_go_on_behind_the_rows_that_are_there() {
        let Some((url, schema)) = schema_url().await else { return };
        let direct = PgPool::connect(&url).await.unwrap();
        let store = PostgresStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let copied = "INSERT INTO audit (audit_id, acted_at, tenant, digest_type, user_id, actor, action, why)
            OVERRIDING SYSTEM VALUE VALUES (7, 0, '', '', '', '', '', '')";
        raw_sql(copied).execute(&direct).await.unwrap();
        let next = "INSERT INTO audit (acted_at, tenant, digest_type, user_id, actor, action, why)
            VALUES (0, '', '', '', '', '', '') RETURNING audit_id";
        let next = async || sqlx::query_scalar::<_, i64>(next).fetch_one(&direct).await.unwrap();
        for expected in [8, 9] {
            store.migrate().await.unwrap();
            assert_eq!(next().await, expected);
        }
        raw_sql(sqlx::AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&direct).await.unwrap();
    }

    /// A store with its schema. The sender makes the network drop its connections.
    async fn behind_a_proxy(url: &str) -> (PostgresStore, watch::Sender<()>) {
        let mut by_proxy = url::Url::parse(url).unwrap();
        let server = format!("{}:{}", by_proxy.host_str().unwrap(), by_proxy.port().unwrap_or(5432));
        let (went, gone) = watch::channel(());
        by_proxy.set_host(Some("127.0.0.1")).unwrap();
        by_proxy.set_port(Some(proxy_to(server, gone).await)).unwrap();
        (PostgresStore::connect(by_proxy.as_str()).await.unwrap(), went)
    }

    #[tidings_needs::needs(postgres)]
    #[tokio::test]
    async fn a_call_over_a_forgotten_connection_ends_and_the_next_one_works() {
        let Some((url, schema)) = schema_url().await else { return };
        let (store, went) = behind_a_proxy(&url).await;
        store.migrate().await.unwrap();
        // Each connection was in use just now, so that it is not asked before the next call.
        for _ in 0..CONNECTIONS {
            assert_eq!(store.waiting_keys("", 1).await.unwrap(), []);
        }
        went.send(()).unwrap();
        let error = store.waiting_keys("", 1).await.unwrap_err().to_string();
        assert!(error.contains("the connection is dead"), "{error}");
        assert_eq!(store.waiting_keys("", 1).await.unwrap(), []);
        let direct = PgPool::connect(&url).await.unwrap();
        raw_sql(sqlx::AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&direct).await.unwrap();
    }

    #[tidings_needs::needs(postgres)]
    #[tokio::test]
    async fn an_abandoned_call_leaves_no_session_behind() {
        const WAITING: &str = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'digests'::regclass";
        let Some((url, schema)) = schema_url().await else { return };
        let direct = PgPool::connect(&url).await.unwrap();
        let store = PostgresStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let mut lock = direct.begin().await.unwrap();
        raw_sql("LOCK TABLE digests").execute(&mut *lock).await.unwrap();
        let abandoned = tokio::time::timeout(Duration::from_secs(1), store.digest(Uuid::nil())).await;
        assert!(abandoned.is_err(), "it waits for the lock");
        let waiting =
            async |lock: &mut PgConnection| sqlx::query_scalar::<_, i64>(WAITING).fetch_one(lock).await.unwrap();
        assert_eq!(waiting(&mut lock).await, 1, "and goes on in the server");
        // The next call over its connection finds it silent.
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        while waiting(&mut lock).await > 0 {
            assert!(tokio::time::Instant::now() < until, "the session is still there");
            store.breakers().await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        lock.rollback().await.unwrap();
        raw_sql(sqlx::AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&direct).await.unwrap();
    }

    #[tidings_needs::needs(postgres)]
    #[tokio::test]
    async fn calls_end_when_the_host_of_the_database_disappears() {
        let Some((url, schema)) = schema_url().await else { return };
        let direct = PgPool::connect(&url).await.unwrap();
        let (store, went) = behind_a_proxy(&url).await;
        store.migrate().await.unwrap();

        let mut lock = direct.begin().await.unwrap();
        raw_sql("LOCK TABLE digests").execute(&mut *lock).await.unwrap();
        let calls = join_all((0..CONNECTIONS).map(|_| store.digest(Uuid::nil())));
        let all_wait = async {
            let waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'digests'::regclass";
            while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut *lock).await.unwrap()
                < i64::try_from(CONNECTIONS).unwrap()
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            went.send(()).unwrap();
        };
        let (answers, ()) = tokio::join!(calls, all_wait);
        for answer in answers {
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
        lock.rollback().await.unwrap();
        // The proxy serves new connections.
        assert_eq!(store.digest(Uuid::nil()).await.unwrap(), None);
        raw_sql(sqlx::AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&direct).await.unwrap();
    }
}
