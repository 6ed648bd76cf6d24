//! A case's store, and steps with which many cases begin.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use sqlx::Row as _;
use tidings_model::{
    Event,
    records::{
        AttemptEnd, AttemptStart, AuditActor, AuditEntry, CapSpan, ClaimCounts, ClaimLimits, ClaimOutcome,
        CloseRequest, Preferences, PreferencesPut,
    },
    settings::DigestCategories,
    window::{DigestOutcome, Window},
};
use tokio::time::timeout;
use uuid::Uuid;

use super::samples::{at, closed, events, key, message, shown, window};
use crate::{PostgresStore, SqliteStore, Store};

/// One case's own store, with direct access to its tables.
pub struct Bench {
    pub store: Box<dyn Store>,
    pub behind: Behind,
}

pub enum Behind {
    Sqlite { pool: sqlx::SqlitePool, _folder: tempfile::TempDir },
    Postgres { pool: sqlx::PgPool, schema: String },
}

impl Bench {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("new/tidings.db").display());
        let store = SqliteStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        Self { store: Box::new(store), behind: Behind::Sqlite { pool, _folder: folder } }
    }

    /// `None` (with a printed note) without a server.
    pub async fn postgres() -> Option<Self> {
        let (url, schema) = schema_url().await?;
        let store = PostgresStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        Some(Self { store: Box::new(store), behind: Behind::Postgres { pool, schema } })
    }

    /// The query's single value, as text.
    pub async fn value(&self, sql: &'static str) -> String {
        let (value,): (Option<String>,) = match &self.behind {
            Behind::Sqlite { pool, .. } => sqlx::query_as(sql).fetch_one(pool).await.unwrap(),
            Behind::Postgres { pool, .. } => sqlx::query_as(sql).fetch_one(pool).await.unwrap(),
        };
        value.unwrap_or_default()
    }

    pub async fn dump(&self) -> String {
        let mut dump = Vec::new();
        for table in self.tables().await {
            let rows = match &self.behind {
                Behind::Sqlite { .. } => {
                    let names = self.columns(&table).await;
                    let texts: Vec<_> =
                        names.iter().map(|name| format!("COALESCE(CAST({name} AS TEXT), '')")).collect();
                    format!("SELECT {} FROM {table}", texts.join(" || '|' || "))
                }
                // Bytes would be in hex.
                Behind::Postgres { .. } if table == "messages" => {
                    format!("SELECT t::text || encode(bytes, 'escape') FROM {table} t")
                }
                Behind::Postgres { .. } => format!("SELECT t::text FROM {table} t"),
            };
            dump.push(format!("-- {table}"));
            dump.extend(self.column(rows).await);
        }
        dump.join("\n")
    }

    /// Bypasses the store.
    pub async fn execute(&self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match &self.behind {
            Behind::Sqlite { pool, .. } => drop(sqlx::query(sql).execute(pool).await.unwrap()),
            Behind::Postgres { pool, .. } => drop(sqlx::query(sql).execute(pool).await.unwrap()),
        }
    }

    pub async fn tables(&self) -> Vec<String> {
        let tables = match &self.behind {
            Behind::Sqlite { .. } => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
            Behind::Postgres { .. } => {
                "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()"
            }
        };
        let tables = self.column(tables.to_owned()).await.into_iter();
        tables.filter(|table| table != "_sqlx_migrations").collect()
    }

    pub async fn columns(&self, table: &str) -> Vec<String> {
        self.column(match &self.behind {
            Behind::Sqlite { .. } => format!("SELECT name FROM pragma_table_info('{table}')"),
            Behind::Postgres { .. } => format!(
                "SELECT CAST(column_name AS TEXT) FROM information_schema.columns
                 WHERE table_schema = current_schema() AND table_name = '{table}'"
            ),
        })
        .await
    }

    /// As `table.column`.
    pub async fn all_columns(&self) -> Vec<String> {
        let columns = match &self.behind {
            Behind::Sqlite { .. } => {
                "SELECT m.name || '.' || c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
            }
            Behind::Postgres { .. } => {
                "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            }
        };
        self.column(columns.to_owned()).await
    }

    pub async fn column(&self, sql: String) -> Vec<String> {
        let sql = sqlx::AssertSqlSafe(sql);
        let rows: Vec<(String,)> = match &self.behind {
            Behind::Sqlite { pool, .. } => sqlx::query_as(sql).fetch_all(pool).await.unwrap(),
            Behind::Postgres { pool, .. } => sqlx::query_as(sql).fetch_all(pool).await.unwrap(),
        };
        rows.into_iter().map(|(text,)| text).collect()
    }

    pub async fn finish(self) {
        if let Behind::Postgres { pool, schema } = self.behind {
            let drop = sqlx::AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"));
            sqlx::query(drop).execute(&pool).await.unwrap();
        }
    }

    /// The plan of a statement; its parameters are placeholders.
    pub async fn plan(&self, statement: &str) -> String {
        match &self.behind {
            Behind::Sqlite { pool, .. } => {
                let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
                let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain).fetch_all(pool).await.unwrap();
                rows.into_iter().map(|(.., detail)| detail).collect::<Vec<_>>().join("\n")
            }
            Behind::Postgres { pool, .. } => {
                let mut connection = pool.acquire().await.unwrap();
                // A small table is read whole at no greater cost.
                sqlx::query("SET enable_seqscan = off").execute(&mut *connection).await.unwrap();
                sqlx::query("SET plan_cache_mode = force_generic_plan").execute(&mut *connection).await.unwrap();
                let parameters = (1..=20).filter(|n| statement.contains(&format!("${n}"))).count();
                let values = vec!["NULL"; parameters].join(", ");
                let prepare = sqlx::AssertSqlSafe(format!("PREPARE planned AS {statement}"));
                sqlx::raw_sql(prepare).execute(&mut *connection).await.unwrap();
                let values = if parameters > 0 { format!(" ({values})") } else { values };
                let explain = sqlx::AssertSqlSafe(format!("EXPLAIN EXECUTE planned{values}"));
                let rows = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
                // The connection with its settings is of no other use.
                connection.close().await.unwrap();
                rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl Bench {
    /// Claims without a cap, with every category on.
    pub async fn claim(&self, window: &Window, events: &[Event], now: Timestamp) -> ClaimCounts {
        self.claim_on(window, events, None, &[], now).await.unwrap()
    }

    /// `Err` if the cap is reached: when the oldest digest counts from.
    pub async fn claim_on(
        &self,
        window: &Window,
        events: &[Event],
        cap: Option<CapSpan>,
        off: &[&str],
        now: Timestamp,
    ) -> Result<ClaimCounts, Timestamp> {
        let off = off.iter().map(|&category| category.to_owned()).collect();
        let limits = ClaimLimits {
            cap,
            slot_at: None,
            off: &off,
            seen: &BTreeSet::new(),
            categories: &DigestCategories::NONE,
            planned: None,
        };
        match self.store.claim(window, events, &limits, now).await.unwrap() {
            ClaimOutcome::Claim(claim) => Ok(claim),
            ClaimOutcome::Capped { oldest } => Err(oldest),
        }
    }

    /// Puts ann's preferences. `Err` contains the current revision if it is not the expected one.
    pub async fn chosen(
        &self,
        preferences: &Preferences,
        expected: Option<u64>,
        entry: &AuditEntry,
    ) -> Result<u64, u64> {
        match self.store.put_preferences(&key("ann"), preferences, expected, entry).await.unwrap() {
            PreferencesPut::Stored { revision, .. } => Ok(revision),
            PreferencesPut::Conflict { current } => Err(current.revision),
        }
    }

    /// Claims the window with its own event. Returns how many events joined that one.
    pub async fn joins(&self, window: &Window, now: Timestamp) -> u64 {
        let own = format!("of {}", window.digest_id);
        self.claim(window, &events(&[&own]), now).await.items - 1
    }

    /// A claimed window with two events and a message.
    pub async fn rendered(&self, n: i64) -> Window {
        let window = window(n);
        let ids = [format!("{n}a"), format!("{n}b")];
        self.claim(&window, &events(&[&ids[0], &ids[1]]), at(1)).await;
        self.store.put_message(&message(&window, "first"), None).await.unwrap();
        window
    }

    /// Begins an attempt that must be allowed. Returns (number, ambiguous).
    pub async fn begin(&self, window: &Window) -> (u32, u32) {
        match self.store.begin_attempt(window.digest_id, "relay", Duration::ZERO, at(200)).await.unwrap() {
            AttemptStart::Proceed { number, ambiguous, .. } => (number, ambiguous),
            AttemptStart::AwaitsReply { .. } => panic!("it awaits no reply"),
            AttemptStart::Closed(closed) => panic!("closed: {closed:?}"),
        }
    }

    pub async fn dot(&self, window: &Window, number: u32) -> bool {
        self.store.mark_in_doubt(window.digest_id, number, at(201)).await.unwrap()
    }

    pub async fn ended(&self, window: &Window, number: u32, end: AttemptEnd) {
        self.store.end_attempt(window.digest_id, number, &end, at(202)).await.unwrap();
    }

    /// Ends the digest like an operator's drop.
    pub async fn drop_digest(&self, window: &Window) {
        let closed = closed(DigestOutcome::Dropped);
        let closing = CloseRequest {
            window,
            events: &[],
            closed: &closed,
            by: AuditActor::Tidings,
            return_events: false,
            planned: None,
            now: at(300),
        };
        self.store.close_digest(closing).await.unwrap();
    }

    /// Runs `call` while a transaction has made `changes` (statements about the digest `$1`), and commits
    /// once the call waits for it. In SQLite, every writing call waits.
    pub async fn while_it_waits<T>(
        &self,
        changes: &[&'static str],
        window: &Window,
        call: impl Future<Output = T>,
    ) -> T {
        const WAITING: &str =
            "SELECT COUNT(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))";
        let id = window.digest_id.to_string();
        let both = async {
            match &self.behind {
                Behind::Sqlite { pool, .. } => {
                    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                    for change in changes {
                        sqlx::query(*change).bind(&id).execute(&mut *transaction).await.unwrap();
                    }
                    tokio::join!(call, async { transaction.commit().await.unwrap() }).0
                }
                Behind::Postgres { pool, .. } => {
                    let mut transaction = pool.begin().await.unwrap();
                    for change in changes {
                        sqlx::query(*change).bind(&id).execute(&mut *transaction).await.unwrap();
                    }
                    let commit = async {
                        while sqlx::query_scalar::<_, i64>(WAITING).fetch_one(&mut *transaction).await.unwrap() == 0 {
                            tokio::task::yield_now().await;
                        }
                        transaction.commit().await.unwrap();
                    };
                    tokio::join!(call, commit).0
                }
            }
        };
        timeout(Duration::from_mins(1), both).await.expect("the call waits for the transaction")
    }

    pub async fn outcome(&self, window: &Window) -> Option<DigestOutcome> {
        let digest = self.store.digest(window.digest_id).await.unwrap().unwrap();
        digest.closed.map(|closed| closed.outcome)
    }

    pub async fn items(&self, window: &Window) -> u64 {
        self.store.contents(window, shown(50)).await.unwrap().items
    }
}

pub async fn schema_url() -> Option<(String, String)> {
    let Ok(server) = std::env::var("TIDINGS_TEST_DATABASE_URL") else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "in CI no test may be left out");
        println!("left out: TIDINGS_TEST_DATABASE_URL is not set");
        return None;
    };
    let schema = format!("tidings_{}", Uuid::new_v4().simple());
    let pool = sqlx::PgPool::connect(&server).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&pool).await.unwrap();
    let mut url = url::Url::parse(&server).unwrap();
    url.query_pairs_mut().append_pair("options", &format!("-csearch_path={schema}"));
    Some((url.into(), schema))
}
