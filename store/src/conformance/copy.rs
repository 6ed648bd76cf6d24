//! Copies a SQLite file with everything in it to PostgreSQL.

use std::{collections::BTreeSet, path::Path};

use sqlx::{AssertSqlSafe, PgPool, raw_sql};
use tempfile::TempDir;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{Bench, at, bench::Behind, message, schema_url, window};
use crate::{
    CopiedTable, CopyProgress, InstallationStore as _, Ledger as _, Outbox as _, PostgresStore, Result, SoleFile,
    SqliteStore, StoreBackend,
};

const ADDRESS: &str = "postgres://***@db.example/tidings";

/// Text that a copy could change, and a value of each type.
const ROWS: &str = r#"
INSERT INTO audit (audit_id, acted_at, tenant, digest_type, user_id, actor, action, why)
VALUES (101, 1, 'acme', 'activity', 'ann', 'bo', 'hold', 'tab' || char(9) || 'line' || char(13, 10) || '\N \. \\ "ü" 😀 end'),
       (102, 2, 'acme', 'activity', 'ann', 'bo', 'drop', 'a' || char(0) || 'b'),
       (103, 3, 'acme', 'activity', '', 'bo', 'pause', '');
INSERT INTO preferences (tenant, digest_type, user_id, chosen, revision, changed_at)
VALUES ('acme', 'activity', 'ann', '{ "zone":"Europe/Berlin",  "cadence":"daily 08:00", "off":["like"] }', 3, 9007199254740993);
INSERT INTO consents (tenant, digest_type, user_id, consent, changed_at)
VALUES ('acme', 'activity', 'ann', 0, 1), ('acme', 'activity', 'bob', 1, 1);
INSERT INTO pauses (pause_id, tenant, digest_type, messages, paused_at, paused_by, why)
VALUES ('00000000-0000-0000-0000-000000000001', 'acme', '', 1, 1, 'bo', 'wrong prices');
INSERT INTO subscriptions (name, event, tenant, digest_type) VALUES ('crm', 'recipient.unsubscribed', '', '');
INSERT INTO notices (subscription, event, lane, tenant, digest_type, user_id, occurred_at, recorded_at)
VALUES ('crm', 'recipient.unsubscribed', 'acme/activity/ann', 'acme', 'activity', 'ann', 1, 1);
INSERT INTO inbox (workflow_id, tenant, user_id, kind, json, bytes, received_at)
VALUES ('digest/acme/activity/ann', 'acme', 'ann', 'event', '{"a":"\u0000"}', 2, 1),
       ('digest/acme/activity/ann', 'acme', 'ann', 'event', '{}', 2, 1);
DELETE FROM inbox WHERE id = 2"#;

const AUDITED: &str = "SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE actor = 'bo'";

/// A file with rows, opened by nobody.
async fn filled() -> (TempDir, String) {
    let bench = Bench::sqlite().await;
    bench.store.put_installation(Uuid::from_u128(1), false).await.unwrap();
    let window = bench.rendered(0).await;
    let (number, _) = bench.begin(&window).await;
    assert!(bench.dot(&window, number).await);
    let Behind::Sqlite { pool, _folder: folder } = bench.behind else { panic!("it is SQLite") };
    raw_sql(ROWS).execute(&pool).await.unwrap();
    pool.close().await;
    drop(bench.store);
    let url = url_of(folder.path());
    (folder, url)
}

fn url_of(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("new/tidings.db").display())
}

struct Target {
    store: PostgresStore,
    behind: PgPool,
    schema: String,
}

impl Target {
    async fn new() -> Option<Self> {
        let (url, schema) = schema_url().await?;
        let behind = PgPool::connect(&url).await.unwrap();
        Some(Self { store: PostgresStore::connect(&url).await.unwrap(), behind, schema })
    }

    async fn value(&self, sql: &'static str) -> String {
        sqlx::query_scalar::<_, Option<String>>(sql).fetch_one(&self.behind).await.unwrap().unwrap_or_default()
    }

    async fn finish(self) {
        raw_sql(AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", self.schema))).execute(&self.behind).await.unwrap();
    }
}

async fn copy(url: &str, target: &Target) -> Result<Vec<CopiedTable>> {
    SoleFile::open(url).await?.copy_to(&target.store, ADDRESS, at(5), &mut |_| {}).await
}

async fn refusal(url: &str, target: &Target) -> String {
    copy(url, target).await.unwrap_err().to_string()
}

#[tidings_needs::needs(postgres)]
#[tokio::test]
async fn a_copy_has_every_row_of_every_table() {
    let Some(target) = Target::new().await else { return };
    let (_folder, url) = filled().await;
    let planned = SqliteStore::connect(&url).await.unwrap().plan_copy(&target.store).await.unwrap();
    let none = target.value("SELECT CAST(to_regclass('audit') AS TEXT)").await;
    assert_eq!(none, "", "a plan makes no tables");

    let copied = copy(&url, &target).await.unwrap();
    let rows = |tables: &[CopiedTable]| tables.iter().map(|t| (t.table.clone(), t.rows)).collect::<BTreeSet<_>>();
    assert_eq!(rows(&copied), rows(&planned));
    let tables = "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema() AND tablename <> '_sqlx_migrations'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&target.behind).await.unwrap();
    let names: BTreeSet<_> = copied.iter().map(|table| table.table.clone()).collect();
    assert_eq!(names, tables.into_iter().collect::<BTreeSet<_>>(), "tables that only one of the databases has");

    for (sql, expected) in [
        ("SELECT why FROM audit WHERE audit_id = 101", "tab\tline\r\n\\N \\. \\\\ \"ü\" 😀 end"),
        ("SELECT why FROM audit WHERE audit_id = 102", "a\u{fffd}b"),
        ("SELECT why FROM audit WHERE audit_id = 103", ""),
        ("SELECT chosen->>'zone' FROM preferences", "Europe/Berlin"),
        ("SELECT CAST(changed_at AS TEXT) FROM preferences", "9007199254740993"),
        ("SELECT string_agg(user_id, ',') FROM consents WHERE NOT consent", "ann"),
        ("SELECT CAST(until_at AS TEXT) FROM pauses WHERE messages", ""),
        ("SELECT json FROM inbox", r#"{"a":"\u0000"}"#),
        // No trigger wrote another one.
        ("SELECT CAST(COUNT(*) AS TEXT) FROM notices", "1"),
        (
            "SELECT CAST(COUNT(*) AS TEXT) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
          JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND tgenabled = 'D'",
            "0",
        ),
    ] {
        assert_eq!(target.value(sql).await, expected, "{sql}");
    }
    let window = window(0);
    let bytes = target.store.message_bytes(&window.key.tenant, window.digest_id).await.unwrap();
    assert_eq!(bytes, Some(message(&window, "first").bytes));
    assert_eq!(target.store.digest(window.digest_id).await.unwrap().unwrap().items, 2);
    // A number that was given is not given again, though its row is gone.
    let next = "INSERT INTO inbox (workflow_id, tenant, user_id, kind, json, bytes, received_at)
        VALUES ('', '', '', 'event', '', 0, 0) RETURNING CAST(id AS TEXT)";
    assert_eq!(target.value(next).await, "3");
    let next = "INSERT INTO audit (acted_at, tenant, digest_type, user_id, actor, action, why)
        VALUES (0, '', '', '', '', '', '') RETURNING CAST(audit_id AS TEXT)";
    assert_eq!(target.value(next).await, "104");
    target.finish().await;
}

#[tidings_needs::needs(postgres)]
#[tokio::test]
async fn a_copied_file_is_refused_until_it_is_taken_up_again() {
    let Some(target) = Target::new().await else { return };
    let (_folder, url) = filled().await;
    // `tidings migrate` there, before: the installation is the file's all the same.
    target.store.migrate().await.unwrap();
    target.store.put_installation(Uuid::from_u128(2), false).await.unwrap();
    copy(&url, &target).await.unwrap();
    let there = target.store.installation().await.unwrap().unwrap();
    assert_eq!(there.identity, Uuid::from_u128(1));

    let file = SqliteStore::connect(&url).await.unwrap();
    let here = file.installation().await.unwrap().unwrap();
    assert_ne!(here.identity, there.identity, "an earlier version is refused by the namespace");
    drop(file);
    let ready = async || {
        StoreBackend::connect(&url).await.unwrap().checked_store().await.map(drop).map_err(|error| error.to_string())
    };
    let error = ready().await.unwrap_err();
    assert!(error.contains(ADDRESS) && error.contains("tidings copy --undo"), "{error}");
    assert!(refusal(&url, &target).await.contains(ADDRESS));

    assert!(SoleFile::open(&url).await.unwrap().take_back().await.unwrap());
    assert_eq!(ready().await, Ok(()));
    let file = SqliteStore::connect(&url).await.unwrap();
    let again = file.installation().await.unwrap().unwrap();
    assert_eq!((again.identity, again.beat), (there.identity, there.beat));
    drop(file);
    assert!(!SoleFile::open(&url).await.unwrap().take_back().await.unwrap(), "there is nothing more to undo");
    target.finish().await;
}

#[tidings_needs::needs(postgres)]
#[tokio::test]
async fn a_database_with_rows_of_its_own_is_not_copied_into() {
    let Some(target) = Target::new().await else { return };
    let (_folder, url) = filled().await;
    target.store.migrate().await.unwrap();
    let row = "INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at) VALUES ('acme', 'a', 'complaint', '', 0)";
    raw_sql(row).execute(&target.behind).await.unwrap();
    let plan = SqliteStore::connect(&url).await.unwrap().plan_copy(&target.store).await.unwrap_err().to_string();
    for error in [plan, refusal(&url, &target).await] {
        assert!(error.contains("has rows already, in the table suppressions"), "{error}");
    }
    assert_eq!(target.value(AUDITED).await, "0");
    StoreBackend::connect(&url).await.unwrap().checked_store().await.map(drop).unwrap();

    // Where a worker was at work, it is not a fresh one.
    raw_sql("DELETE FROM suppressions; INSERT INTO installation (one, identity, beat, before_beat, beat_at) VALUES (1, 'x', 'x', 'x', 1)")
        .execute(&target.behind)
        .await
        .unwrap();
    assert!(refusal(&url, &target).await.contains("in the table installation"));
    // Nor one of a later version.
    raw_sql("DELETE FROM installation; UPDATE _sqlx_migrations SET version = 9999 WHERE version = 1")
        .execute(&target.behind)
        .await
        .unwrap();
    assert!(refusal(&url, &target).await.contains("a later version"));
    target.finish().await;
}

#[tidings_needs::needs(postgres)]
#[tokio::test]
async fn an_interrupted_copy_leaves_nothing_and_is_repeated() {
    let Some(target) = Target::new().await else { return };
    let (_folder, url) = filled().await;
    let file = SoleFile::open(&url).await.unwrap();
    let stop = Notify::new();
    let mut show = |progress: &CopyProgress| {
        if progress.checking {
            stop.notify_one();
        }
    };
    tokio::select! {
        biased;
        () = stop.notified() => {}
        copied = file.copy_to(&target.store, ADDRESS, at(5), &mut show) => panic!("it came to its end: {copied:?}"),
    }
    drop(file);
    assert_eq!(target.value(AUDITED).await, "0");
    StoreBackend::connect(&url).await.unwrap().checked_store().await.map(drop).unwrap();
    copy(&url, &target).await.unwrap();
    assert_eq!(target.value(AUDITED).await, "3");
    target.finish().await;
}

/// As after a crash between the commit in one database and the mark in the other.
#[tidings_needs::needs(postgres)]
#[tokio::test]
async fn a_copy_that_lacks_only_the_mark_is_ended_and_not_made_twice() {
    let Some(target) = Target::new().await else { return };
    let (_folder, url) = filled().await;
    let first = copy(&url, &target).await.unwrap();
    let take_back = async || assert!(SoleFile::open(&url).await.unwrap().take_back().await.unwrap());
    take_back().await;
    let again = copy(&url, &target).await.unwrap();
    let rows = |tables: &[CopiedTable]| tables.iter().map(|table| table.rows).collect::<Vec<_>>();
    assert_eq!(rows(&first), rows(&again));
    assert_eq!(target.value(AUDITED).await, "3");
    take_back().await;
    // Somebody worked with it meanwhile.
    raw_sql("UPDATE consents SET consent = TRUE").execute(&target.behind).await.unwrap();
    assert!(refusal(&url, &target).await.contains("has rows already, in the table consents"));
    target.finish().await;
}

#[tidings_needs::needs(postgres)]
#[tokio::test]
async fn a_row_that_the_database_refuses_leaves_it_empty_and_the_file_in_use() {
    let Some(target) = Target::new().await else { return };
    let (_folder, url) = filled().await;
    target.store.migrate().await.unwrap();
    raw_sql("ALTER TABLE notices ADD CONSTRAINT refuses CHECK (tenant <> 'acme')")
        .execute(&target.behind)
        .await
        .unwrap();
    let error = refusal(&url, &target).await;
    assert!(error.contains("refuses"), "{error}");
    assert_eq!(target.value(AUDITED).await, "0");
    StoreBackend::connect(&url).await.unwrap().checked_store().await.map(drop).unwrap();
    raw_sql("ALTER TABLE notices DROP CONSTRAINT refuses").execute(&target.behind).await.unwrap();
    copy(&url, &target).await.unwrap();
    target.finish().await;
}

#[tokio::test]
async fn a_file_that_another_connection_has_open_is_not_opened_alone() {
    let (_folder, url) = filled().await;
    let worker = SqliteStore::connect(&url).await.unwrap();
    let error = SoleFile::open(&url).await.err().unwrap().to_string();
    assert!(error.contains("stop every worker, gateway and command"), "{error}");
    drop(worker);
    SoleFile::open(&url).await.map(drop).unwrap();
}
