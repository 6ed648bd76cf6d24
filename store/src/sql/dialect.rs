//! The differences between the two databases.

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, Type};

#[derive(Clone, Copy)]
pub struct StatementVariants {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

pub type DatabaseOptions<D> = <<D as sqlx::Database>::Connection as sqlx::Connection>::Options;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSession {
    pub pid: i32,
    /// Needed because process ids are reused.
    pub started: String,
}

/// A database for the store. The bounds list the types of parameters and columns.
pub trait Dialect:
    sqlx::Database<Arguments: IntoArguments<Self>>
    + for<'c> ImpliedBound<&'c mut <Self as sqlx::Database>::Connection, Is: Executor<'c, Database = Self>>
    + ImpliedBound<usize, Is: ColumnIndex<Self::Row>>
    + for<'n> ImpliedBound<&'n str, Is: ColumnIndex<<Self as sqlx::Database>::Row>>
    + ImpliedBound<i64, Is: SqlValue<Self>>
    + ImpliedBound<bool, Is: SqlValue<Self>>
    + ImpliedBound<String, Is: SqlValue<Self>>
    + ImpliedBound<Vec<u8>, Is: SqlValue<Self>>
{
    const BEGIN_WRITE: &'static str;
    /// Begins a transaction that reads one consistent state.
    const BEGIN_READ: &'static str;
    /// A suffix for queries: locks the rows for this transaction, skipping rows locked by others.
    const SKIP_LOCKED: &'static str;
    const EACH_OF_1: &'static str;

    /// The database is another process and may close a connection.
    const HANGS_UP: bool;

    fn prepare_connection(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Option<ServerSession>>> + Send;

    fn at_work(
        connection: &mut Self::Connection,
        pids: &[i32],
    ) -> impl Future<Output = sqlx::Result<Vec<ServerSession>>> + Send;

    fn end_session(
        connection: &mut Self::Connection,
        session: &ServerSession,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    fn database_place(said: &str) -> String;

    fn pick_variant(statement: StatementVariants) -> &'static str;

    fn changed_rows(result: &Self::QueryResult) -> u64;
}

pub trait SqlValue<D: sqlx::Database>: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D> {}

impl<D: sqlx::Database, T: Type<D> + for<'q> Encode<'q, D> + for<'r> Decode<'r, D>> SqlValue<D> for T {}

/// Makes a bound on another type, `Implies<i64, Is: Bound>`, part of a trait's own bounds, so users need not
/// repeat it. Works because the compiler applies the bounds on a supertrait's associated type `Is` to `T`, as
/// the two are equal.
pub trait ImpliedBound<T>: SameType<T, Is = T> {}

impl<D: ?Sized, T> ImpliedBound<T> for D {}

/// Makes `T` available as an associated type of any other type.
pub trait SameType<T> {
    type Is;
}

impl<D: ?Sized, T> SameType<T> for D {
    type Is = T;
}
