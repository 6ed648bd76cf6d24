//! A database without this version's tables.

use std::{fs, os::unix::fs::PermissionsExt as _};

use futures::future::try_join_all;
use uuid::Uuid;

use super::{
    Bench,
    bench::{Behind, schema_url},
};
use crate::{Ledger as _, PostgresStore, SqliteStore};

#[tokio::test]
async fn a_new_database_file_is_readable_by_its_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("new/folder");
    let sqlite = SqliteStore::connect(&format!("sqlite:{}", folder.join("new.db").display())).await.unwrap();
    sqlite.migrate().await.unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.clone()), 0o700);
    assert_eq!(["new.db", "new.db-wal", "new.db-shm"].map(|file| mode(folder.join(file))), [0o600; 3]);
}

#[tokio::test]
async fn a_database_that_was_not_migrated_names_the_command_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::connect(&format!("sqlite:{}", folder.path().join("empty.db").display())).await.unwrap();
    for error in [sqlite.check_schema().await.unwrap_err(), sqlite.digest(Uuid::nil()).await.unwrap_err()] {
        assert!(error.to_string().contains("run `tidings migrate`"), "{error}");
    }
    sqlite.migrate().await.unwrap();
    sqlite.migrate().await.unwrap();
    sqlite.check_schema().await.unwrap();
    if let Some((url, schema)) = schema_url().await {
        let postgres = PostgresStore::connect(&url).await.unwrap();
        for error in [postgres.check_schema().await.unwrap_err(), postgres.digest(Uuid::nil()).await.unwrap_err()] {
            assert!(error.to_string().contains("run `tidings migrate`"), "{error}");
        }
        postgres.migrate().await.unwrap();
        postgres.migrate().await.unwrap();
        postgres.check_schema().await.unwrap();
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        Bench { store: Box::new(postgres), behind: Behind::Postgres { pool, schema } }.finish().await;
    }
}

#[tokio::test]
async fn of_many_migrations_at_once_each_finds_what_the_others_did() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("new.db").display());
    let mut stores = Vec::new();
    for _ in 0..6 {
        stores.push(SqliteStore::connect(&url).await.unwrap());
    }
    try_join_all(stores.iter().map(SqliteStore::migrate)).await.unwrap();
    stores[0].check_schema().await.unwrap();
}

#[tokio::test]
async fn a_migration_that_was_broken_off_says_what_to_do() {
    let bench = Bench::sqlite().await;
    let Behind::Sqlite { pool, .. } = &bench.behind else { return };
    let broken = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        VALUES (9001, 'later', FALSE, x'00', 0)";
    sqlx::query(broken).execute(pool).await.unwrap();
    let file: String = sqlx::query_scalar("SELECT file FROM pragma_database_list").fetch_one(pool).await.unwrap();
    let error = SqliteStore::connect(&format!("sqlite:{file}")).await.unwrap().migrate().await.unwrap_err().to_string();
    assert!(
        error.contains("WHERE version = 9001 AND NOT success`, and run `tidings migrate` of the version"),
        "{error}"
    );
}
