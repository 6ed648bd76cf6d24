//! The store in SQL, written once for both databases. [`Dialect`] has the differences.
//!
//! Each method that writes locks the row of the digest first and that of the message next, and decides then. In SQLite it locks
//! the whole database. Calls for the same digest or message therefore run one after the other, repeated and late ones included.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use serde::Serialize;
use sqlx::query::Query;
use tokio::{sync::OnceCell, time::timeout};

use self::{
    dialect::Dialect,
    group_commit::{Arrivals, Dots},
    open_file::OpenFile,
    pool::{Pool, Work},
    sessions::unless_dead,
};
use crate::{Error, Result, pseudonym::Pseudonyms};

pub(crate) mod answers;
pub(crate) mod attempts;
pub(crate) mod audit;
mod breakers;
pub(crate) mod claim;
mod columns;
mod contents;
pub(crate) mod copy;
pub(crate) mod dialect;
mod digest;
pub(crate) mod directory;
mod dots;
mod ending;
mod erasure;
pub(crate) mod events;
mod exclusion;
mod generations;
mod group_commit;
mod health;
mod inbox;
mod installation;
mod jobs;
mod last_attempt;
pub(crate) mod ledger;
pub(crate) mod listings;
mod message;
pub(crate) mod names;
pub(crate) mod notices;
mod open_file;
mod orphans;
mod outbox;
pub(crate) mod pauses;
mod people;
mod pool;
mod postgres;
mod readings;
mod rendered_claim;
pub(crate) mod report;
mod reports;
mod retention;
mod retries;
mod returned;
mod schema;
mod sessions;
mod sqlite;
pub(crate) mod statistics;
pub(crate) mod suppressions;
mod team_query;
mod tokens;
mod transport;
pub(crate) mod troubled_runs;
pub(crate) mod waiting;
mod webhook_requests;

pub use self::team_query::{Queried, TeamQuery, WrongQuery};
pub use self::transport::PostgresTransport;

/// A store in one SQLite file: the embedded default.
pub type Sqlite = Sql<sqlx::Sqlite>;
/// A store in a PostgreSQL database.
pub type Postgres = Sql<sqlx::Postgres>;

/// A store in a SQL database.
pub struct Sql<D: Dialect> {
    /// Connections for transactions that write.
    writer: Arc<Pool<D>>,
    /// Connections for all other statements.
    reader: Arc<Pool<D>>,
    /// The file of the connections, if the database is one.
    file: Option<Arc<OpenFile>>,
    past_the_dot: Dots,
    arrivals: Arrivals,
    /// Read when the first pseudonym is needed.
    tenant_aliases: Mutex<Option<names::TenantAliases>>,
    /// Read when the first pseudonym is needed.
    pseudonyms: OnceCell<Pseudonyms>,
}

impl<D: Dialect> Sql<D> {
    async fn write(&self) -> Result<Work<D>> {
        Ok(self.writer.begin(D::BEGIN_WRITE).await?)
    }

    /// Runs a transaction in one call of the database, and reports if the call answers with a row. A call that breaks a unique
    /// constraint answers with none and writes nothing.
    ///
    /// The transaction is one statement, or statements that begin and commit.
    async fn write_at_once(&self, transaction: Query<'_, D, D::Arguments>) -> Result<bool> {
        let mut work = self.writer.work().await?;
        match transaction.fetch_all(&mut *work).await {
            Ok(rows) => {
                work.release();
                Ok(!rows.is_empty())
            }
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                work.rollback().await?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn read(&self) -> Result<Work<D>> {
        Ok(self.reader.begin(D::BEGIN_READ).await?)
    }
}

/// Time limit of a call: four waits for a lock. A call whose connection is dead ends earlier, where the database can say so.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);

async fn within_timeout<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let silent = |text: String| Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)).into());
    match timeout(CALL_TIMEOUT, unless_dead(call)).await {
        Ok(Some(answer)) => answer,
        Ok(None) => silent("the connection is dead: the database knows of no call".to_owned()),
        Err(_) => silent(format!("no answer within {CALL_TIMEOUT:?}")),
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Broken(format!("cannot be written as JSON: {error}")))
}

/// The text without NUL, which PostgreSQL cannot store. Text of others must not keep a row from being recorded.
fn no_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Milliseconds since 1970; 0 stands for `None`.
fn or_zero(at: Option<Timestamp>) -> i64 {
    at.map_or(0, Timestamp::as_millisecond)
}

fn number<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| Error::Broken(format!("the count {value} in the database is out of range")))
}
