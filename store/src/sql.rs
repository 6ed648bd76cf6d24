//! The store in SQL, written once for both databases. [`Dialect`] has the differences.
//!
//! Each method that writes locks the row of the digest first and that of the message next, and decides then. In SQLite it locks
//! the whole database. Calls for the same digest or message therefore run one after the other, repeated and late ones included.

use std::{
    any::Any,
    io,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::Serialize;
use sqlx::query::Query;
use tidings_model::records::NameKind;
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};

use self::{
    columns::Record,
    dialect::Dialect,
    group_commit::{Arrivals, Dots},
    pool::{Pool, Work},
    sessions::unless_dead,
};
use crate::sql::pool::OpenFile;
use crate::{Error, Result, pseudonym::Pseudonyms};

pub(crate) mod columns;
pub(crate) mod dialect;
pub(crate) mod group_commit;
mod pool;
pub(crate) mod postgres;
pub(crate) mod schema;
mod sessions;
mod sqlite;
mod team_query;
mod transport;

pub use self::team_query::{Queried, TeamQuery, WrongQuery};
pub use self::transport::PostgresTransport;

/// A store in one SQLite file: the embedded default.
pub type Sqlite = Sql<sqlx::Sqlite>;
/// A store in a PostgreSQL database.
pub type Postgres = Sql<sqlx::Postgres>;

/// Pairs of names that mean the same, and when they were read.
pub(crate) type Aliases = (Instant, Arc<[(NameKind, String, String)]>);

/// What a test makes of a call.
pub enum Fault {
    /// The call does nothing. The value has the type of its answer.
    Answer(Box<dyn Any + Send>),
    /// The answer comes so much later.
    Late(Duration),
}

/// The fault of a call, by the name of its method.
type Faults = Box<dyn Fn(&str) -> Option<Fault> + Send + Sync>;

/// A store in a SQL database.
pub struct Sql<D: Dialect> {
    /// Connections for transactions that write.
    pub(crate) writer: Arc<Pool<D>>,
    /// Connections for all other statements.
    pub(crate) reader: Arc<Pool<D>>,
    /// The file of the connections, if the database is one.
    pub(crate) file: Option<Arc<OpenFile>>,
    pub(crate) past_the_dot: Dots,
    pub(crate) arrivals: Arrivals,
    /// Read again after a while.
    pub(crate) aliases: Mutex<Option<Aliases>>,
    /// Read when the first pseudonym is needed.
    pub(crate) pseudonyms: OnceCell<Pseudonyms>,
    faults: OnceLock<Faults>,
}

impl<D: Dialect> Sql<D> {
    /// Sets what becomes of calls from now on, for a test. The first one stays.
    pub fn set_faults(&self, faults: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static) {
        let _ = self.faults.set(Box::new(faults));
    }

    pub(crate) async fn call<T: 'static>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let late = match self.faults.get().and_then(|faults| faults(method)) {
            Some(Fault::Answer(answer)) => return Ok(*answer.downcast().expect("the answer of the method")),
            Some(Fault::Late(late)) => Some(late),
            None => None,
        };
        let answer = call.await;
        if let Err(error) = &answer {
            tracing::debug!(%error);
        }
        if let Some(late) = late {
            sleep(late).await;
        }
        answer
    }

    /// For `query(...).try_map(Self::to_record)`.
    pub(crate) fn to_record<T: Record>(row: D::Row) -> sqlx::Result<T> {
        T::read::<D>(&row)
    }

    pub(crate) async fn read_records<T: Record + Send + Unpin>(
        &self,
        rows: Query<'_, D, D::Arguments>,
    ) -> Result<Vec<T>> {
        Ok(rows.try_map(Self::to_record).fetch_all(&mut *self.reader.acquire().await?).await?)
    }

    pub(crate) async fn read_record<T: Record + Send + Unpin>(
        &self,
        row: Query<'_, D, D::Arguments>,
    ) -> Result<Option<T>> {
        Ok(row.try_map(Self::to_record).fetch_optional(&mut *self.reader.acquire().await?).await?)
    }

    pub(crate) async fn write(&self) -> Result<Work<D>> {
        Ok(self.writer.begin(D::BEGIN_WRITE).await?)
    }

    /// Runs a transaction in one call of the database, and reports if the call answers with a row. A call that breaks a unique
    /// constraint answers with none and writes nothing.
    ///
    /// The transaction is one statement, or statements that begin and commit.
    pub(crate) async fn write_at_once(&self, transaction: Query<'_, D, D::Arguments>) -> Result<bool> {
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

    pub(crate) async fn read(&self) -> Result<Work<D>> {
        Ok(self.reader.begin(D::BEGIN_READ).await?)
    }
}

/// Declares the trait of a subject, and implements it for both databases: a method is the function of the same name in
/// `impl<D: Dialect> Sql<D>`, within a span and the time limit of a call.
///
/// `#[span(...)]` has the fields of the span. With `#[limit(each_step)]` the function limits each of its steps instead.
macro_rules! calls {
    (
        $(#[doc = $about:literal])*
        pub trait $subject:ident { $(
            $(#[doc = $doc:literal])*
            $(#[span($($field:tt)*)])?
            $(#[limit($limit:ident)])?
            async fn $method:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $answer:ty;
        )+ }
    ) => {
        $(#[doc = $about])*
        #[async_trait::async_trait]
        pub trait $subject: Send + Sync + 'static { $(
            $(#[doc = $doc])*
            async fn $method(&self $(, $argument: $type)*) -> $answer;
        )+ }

        #[async_trait::async_trait]
        impl<D: $crate::sql::dialect::Dialect> $subject for $crate::sql::Sql<D> { $(
            async fn $method(&self $(, $argument: $type)*) -> $answer {
                let span = tracing::debug_span!(stringify!($method), $($($field)*)?);
                let call = $crate::sql::calls!(@limit $($limit)? Self::$method(self $(, $argument)*));
                tracing::Instrument::instrument(self.call(stringify!($method), call), span).await
            }
        )+ }

        /// A function that is missing, or that this file cannot see, is ambiguous. Otherwise the method would call itself.
        #[expect(dead_code, reason = "its functions are never the ones that are meant")]
        trait Missing {
            $(fn $method() {})+
        }

        impl<D: $crate::sql::dialect::Dialect> Missing for $crate::sql::Sql<D> {}
    };
    (@limit each_step $call:expr) => { $call };
    (@limit $call:expr) => { $crate::sql::within_timeout($call) };
}
pub(crate) use calls;

/// Time limit of a call: four waits for a lock. A call whose connection is dead ends earlier, where the database can say so.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) async fn within_timeout<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let silent = |text: String| Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)).into());
    match timeout(CALL_TIMEOUT, unless_dead(call)).await {
        Ok(Some(answer)) => answer,
        Ok(None) => silent("the connection is dead: the database knows of no call".to_owned()),
        Err(_) => silent(format!("no answer within {CALL_TIMEOUT:?}")),
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Broken(format!("cannot be written as JSON: {error}")))
}

/// The text without NUL, which PostgreSQL cannot store. Text of others must not keep a row from being recorded.
pub(crate) fn no_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Milliseconds since 1970; 0 stands for `None`.
pub(crate) fn or_zero(at: Option<Timestamp>) -> i64 {
    at.map_or(0, Timestamp::as_millisecond)
}

pub(crate) fn number<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| Error::Broken(format!("the count {value} in the database is out of range")))
}
