//! A database that has not this version's tables.

use uuid::Uuid;

use super::{
    Bench,
    bench::{Behind, schema_url},
};
use crate::store::{Postgres, Sqlite, Store as _};

#[tokio::test]
async fn a_database_that_was_not_migrated_names_the_command_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = Sqlite::connect(&format!("sqlite:{}", folder.path().join("empty.db").display())).await.unwrap();
    for error in [sqlite.check().await.unwrap_err(), sqlite.digest(Uuid::nil()).await.unwrap_err()] {
        assert!(error.to_string().contains("run `tidings migrate`"), "{error}");
    }
    sqlite.migrate().await.unwrap();
    sqlite.migrate().await.unwrap();
    sqlite.check().await.unwrap();
    if let Some((url, schema)) = schema_url().await {
        let postgres = Postgres::connect(&url).await.unwrap();
        for error in [postgres.check().await.unwrap_err(), postgres.digest(Uuid::nil()).await.unwrap_err()] {
            assert!(error.to_string().contains("run `tidings migrate`"), "{error}");
        }
        postgres.migrate().await.unwrap();
        postgres.migrate().await.unwrap();
        postgres.check().await.unwrap();
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        Bench { store: Box::new(postgres), behind: Behind::Postgres { pool, schema } }.finish().await;
    }
}
