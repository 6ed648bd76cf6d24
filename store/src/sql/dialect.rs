//! The differences between the two databases.

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, Type};

/// A statement that the two databases write differently. Parameters and columns are the same in both.
#[derive(Clone, Copy)]
pub struct Variants {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// The options with which a connection of the database is made.
pub type Options<D> = <<D as sqlx::Database>::Connection as sqlx::Connection>::Options;

/// A session of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub pid: i32,
    /// Numbers of processes are used again.
    pub started: String,
}

/// A database that can hold the store. The bounds list the types that parameters and columns may have.
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
    /// Ends a query that locks its rows for the transaction, and leaves out those that another transaction has locked.
    const SKIP_LOCKED: &'static str;
    /// The elements of the JSON array `$1`, as `value`.
    const EACH_OF_1: &'static str;

    /// The database is another process, and may end a connection.
    const HANGS_UP: bool;

    /// Prepares a new connection. Returns its session, where the database is a server.
    fn prepare(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<Option<Session>>> + Send;

    /// Returns those of the sessions with these numbers that work, or did something just now.
    fn at_work(
        connection: &mut Self::Connection,
        pids: &[i32],
    ) -> impl Future<Output = sqlx::Result<Vec<Session>>> + Send;

    /// Ends a session. Returns `true` once there is no such session any more.
    fn end(connection: &mut Self::Connection, session: &Session) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// The place of the database, from what a statement says of it.
    fn place(said: &str) -> String;

    /// This database's variant of a statement.
    fn pick(statement: Variants) -> &'static str;

    /// The number of rows that a statement changed.
    fn rows(result: &Self::QueryResult) -> u64;
}

/// A type that a statement takes as parameter and returns as column.
pub trait Value<D: sqlx::Database>: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D> {}

impl<D: sqlx::Database, T: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D>> Value<D> for T {}

/// Makes a bound on another type, `Implies<i64, Is: Bound>`, part of a trait's own bounds. A user of the trait then need not
/// repeat it. The compiler applies the bounds of a supertrait's associated type `Is` to `T`, because the two are equal.
pub trait Implies<T>: Same<T, Is = T> {}

impl<D: ?Sized, T> Implies<T> for D {}

/// Names the type `T` as an associated type of any other type.
pub trait Same<T> {
    /// `T`.
    type Is;
}

impl<D: ?Sized, T> Same<T> for D {
    type Is = T;
}
