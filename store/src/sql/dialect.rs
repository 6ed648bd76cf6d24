//! The differences between the two databases.

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, Type};

#[derive(Clone, Copy)]
pub struct Variants {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

pub type Options<D> = <<D as sqlx::Database>::Connection as sqlx::Connection>::Options;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub pid: i32,
    /// Needed because process ids are reused.
    pub started: String,
}

/// A database for the store. The bounds list the types allowed for parameters and columns.
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
    const BEGIN_WRITE: &'static str;
    /// Begins a transaction that reads one consistent state.
    const BEGIN_READ: &'static str;
    /// A suffix for queries: locks the rows for this transaction and skips rows locked by others.
    const SKIP_LOCKED: &'static str;
    const EACH_OF_1: &'static str;

    /// `true` if the database is another process and may close a connection.
    const HANGS_UP: bool;

    fn prepare(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<Option<Session>>> + Send;

    fn at_work(
        connection: &mut Self::Connection,
        pids: &[i32],
    ) -> impl Future<Output = sqlx::Result<Vec<Session>>> + Send;

    fn end(connection: &mut Self::Connection, session: &Session) -> impl Future<Output = sqlx::Result<bool>> + Send;

    fn place(said: &str) -> String;

    fn pick(statement: Variants) -> &'static str;

    fn rows(result: &Self::QueryResult) -> u64;
}

pub trait Value<D: sqlx::Database>: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D> {}

impl<D: sqlx::Database, T: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D>> Value<D> for T {}

/// Makes a bound on another type, `Implies<i64, Is: Bound>`, part of a trait's own bounds, so users need not
/// repeat it. This works because the compiler applies the bounds on a supertrait's associated type `Is` to
/// `T`, as the two are equal.
pub trait Implies<T>: Same<T, Is = T> {}

impl<D: ?Sized, T> Implies<T> for D {}

/// Makes `T` available as an associated type of any other type.
pub trait Same<T> {
    type Is;
}

impl<D: ?Sized, T> Same<T> for D {
    type Is = T;
}
