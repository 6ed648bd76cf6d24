//! The store in SQL, written once for both databases. What they say differently is in [`Dialect`].
//!
//! Every method that writes locks the row of the digest, then that of the message, before it decides (SQLite: the whole
//! database), so that the calls for one of them happen one after the other, late and repeated ones included.

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, Pool, Transaction, Type, migrate::Migration};

use super::{Error, Result, error::NOT_MIGRATED};

mod claim;
mod columns;
mod contents;
mod delivery_events;
mod directory;
mod dots;
mod ledger;
mod messages;
mod outbox;
mod postgres;
mod relays;
mod reopen;
mod retired;
mod rows;
mod sqlite;
mod statements;
mod store;
mod suppressions;
mod upkeep;

/// A store in one SQLite file: the embedded default.
pub type Sqlite = Sql<sqlx::Sqlite>;
/// A store in a PostgreSQL database.
pub type Postgres = Sql<sqlx::Postgres>;

/// A store in a SQL database.
pub struct Sql<D: Dialect> {
    /// Transactions that write.
    writer: Pool<D>,
    /// Everything else.
    reader: Pool<D>,
    dots: dots::Dots,
}

/// What the two databases say differently. Parameters and result columns of a statement are the same in both, and so are
/// the types that may be there.
pub trait Dialect:
    sqlx::Database<Arguments: IntoArguments<Self>>
    + for<'c> Implies<&'c mut <Self as sqlx::Database>::Connection, Is: Executor<'c, Database = Self>>
    + Implies<usize, Is: ColumnIndex<Self::Row>>
    + for<'n> Implies<&'n str, Is: ColumnIndex<<Self as sqlx::Database>::Row>>
    + Implies<i64, Is: Value<Self>>
    + Implies<bool, Is: Value<Self>>
    + Implies<String, Is: Value<Self>>
    + Implies<Vec<u8>, Is: Value<Self>>
{
    /// Begins a transaction that writes.
    const BEGIN_WRITE: &'static str;
    /// Begins a transaction that reads one state of the database.
    const BEGIN_READ: &'static str;
    /// `$1` JSON array of recipients, `$2` now.
    const PUT_RECIPIENTS: &'static str;
    /// Tenant, digest type, user, `$4` JSON, `$5` now. Changes a row unless they are the same.
    const PUT_PREFERENCES: &'static str;
    /// Tenant, digest type, user, `$4` JSON array of retracts, each once, `$5` now.
    const PUT_RETRACTS: &'static str;
    /// `$1` digest. Answers with (state, outcome, why) and keeps the row for the transaction.
    const LOCK_DIGEST: &'static str;
    /// `$1` message. Answers with (state, why, sent_at) and keeps the row for the transaction. A digest's row comes first.
    const LOCK_MESSAGE: &'static str;
    /// Tenant, address in lower case. Keeps it for the transaction, whether there is a row of it or not. A message's row
    /// comes first.
    const LOCK_ADDRESS: &'static str;
    /// Tenant, user. Keeps the row for the transaction.
    const LOCK_RECIPIENT: &'static str;
    /// `$1` digest, `$2` JSON array of events, `$3` now.
    const INSERT_EVENTS: &'static str;
    /// Tenant, digest type, user, `$4` JSON array of ids. Answers with (id, digest, its state) of those in the ledger.
    const RECORDED_EVENTS: &'static str;
    /// `$1` digest. Answers with (events, groups, summed counts as a JSON object).
    const TOTALS: &'static str;
    /// `$1` digest, `$2` limit. Answers with the columns of a line, ranked.
    const LINES: &'static str;
    /// `$1` message, `$2` number, `$3` now. Answers with a row when the attempt may send the dot.
    const PAST_THE_DOT: &'static str;
    /// `$1` workflow id, `$2` run id, `$3` JSON array of letters, `$4` now.
    const BURY: &'static str;
    /// Ends a query whose rows are kept for the transaction; those that another one has are left out.
    const SKIP_LOCKED: &'static str;
    /// The rows of the JSON array `$1`, as `value`.
    const EACH_OF_1: &'static str;

    /// How many rows a statement changed.
    fn rows(result: &Self::QueryResult) -> u64;
}

/// What a statement of either database takes and answers.
pub trait Value<D: sqlx::Database>: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D> {}

impl<D: sqlx::Database, T: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D>> Value<D> for T {}

/// Makes a bound on another type, `Implies<i64, Is: Bound>`, part of a trait's own, so that whoever uses the trait need
/// not repeat it. The compiler takes what it knows of a supertrait's `Is` for what it knows of `T`.
pub trait Implies<T>: Same<T, Is = T> {}

impl<D: ?Sized, T> Implies<T> for D {}

/// Every type, as seen from any other.
pub trait Same<T> {
    /// `T`.
    type Is;
}

impl<D: ?Sized, T> Same<T> for D {
    type Is = T;
}

impl<D: Dialect> Sql<D> {
    async fn write(&self) -> Result<Transaction<'_, D>> {
        Ok(self.writer.begin_with(D::BEGIN_WRITE).await?)
    }

    async fn read(&self) -> Result<Transaction<'_, D>> {
        Ok(self.reader.begin_with(D::BEGIN_READ).await?)
    }
}

/// The latest migration's version, which the database must have.
const SCHEMA: i64 = 1;

/// The migrations of one database; `tables` is the first one's text.
fn migrator(tables: &'static str) -> sqlx::migrate::Migrator {
    use sqlx::{SqlSafeStr, migrate::MigrationType::Simple};
    let first = Migration::new(SCHEMA, "tidings".into(), Simple, tables.into_sql_str(), false);
    sqlx::migrate::Migrator::with_migrations(vec![first])
}

impl<D: Dialect> Sql<D> {
    /// Whether [`migrate`](Self::migrate) has run. A newer schema than this version's is fine: migrations only add.
    ///
    /// # Errors
    /// [`Error::Broken`] names the command to run.
    pub async fn check(&self) -> Result<()> {
        let version = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success";
        let (version,): (i64,) = sqlx::query_as(version).fetch_one(&self.reader).await?;
        if version < SCHEMA { Err(Error::Broken(NOT_MIGRATED.to_owned())) } else { Ok(()) }
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Broken(format!("cannot be written as JSON: {error}")))
}

/// PostgreSQL's text has no NUL, and what others wrote must not keep us from recording it.
fn no_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn time(milliseconds: i64) -> Result<Timestamp> {
    Timestamp::from_millisecond(milliseconds).map_err(|error| Error::Broken(format!("a time in the store: {error}")))
}

fn number<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| Error::Broken(format!("a count in the store: {value} is out of range")))
}
