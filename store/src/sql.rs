//! The store in SQL, written once for both databases; [`Dialect`] has their differences.
//!
//! Each writing method locks the digest's row, then the message's, and only then decides, so calls for the
//! same digest or message run one after another.

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
    columns::RowRecord,
    dialect::Dialect,
    group_commit::{ArrivalQueue, CommitQueue},
    pool::{DatabasePool, StoreTransaction},
    sessions::unless_dead,
};
use crate::sql::pool::OpenFile;
use crate::{Result, StoreError, pseudonym::Pseudonyms};

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

pub use self::team_query::{TeamQuery, TeamQueryOutcome, WrongQuery};
pub use self::transport::PostgresTransport;

pub type SqliteStore = SqlStore<sqlx::Sqlite>;
pub type PostgresStore = SqlStore<sqlx::Postgres>;

pub(crate) type CachedAliases = (Instant, Arc<[(NameKind, String, String)]>);

pub enum InjectedFault {
    /// The call does nothing and returns this value, which must have the method's return type.
    Answer(Box<dyn Any + Send>),
    Late(Duration),
}

type FaultInjector = Box<dyn Fn(&str) -> Option<InjectedFault> + Send + Sync>;

pub struct SqlStore<D: Dialect> {
    pub(crate) writer: Arc<DatabasePool<D>>,
    pub(crate) reader: Arc<DatabasePool<D>>,
    pub(crate) file: Option<Arc<OpenFile>>,
    pub(crate) past_the_dot: CommitQueue,
    pub(crate) arrivals: ArrivalQueue,
    pub(crate) aliases: Mutex<Option<CachedAliases>>,
    pub(crate) pseudonyms: OnceCell<Pseudonyms>,
    faults: OnceLock<FaultInjector>,
}

impl<D: Dialect> SqlStore<D> {
    /// Injects faults into all later calls of a test. Only the first call counts.
    pub fn set_faults(&self, faults: impl Fn(&str) -> Option<InjectedFault> + Send + Sync + 'static) {
        let _ = self.faults.set(Box::new(faults));
    }

    pub(crate) async fn run_call<T: 'static>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let late = match self.faults.get().and_then(|faults| faults(method)) {
            Some(InjectedFault::Answer(answer)) => return Ok(*answer.downcast().expect("the answer of the method")),
            Some(InjectedFault::Late(late)) => Some(late),
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
    pub(crate) fn to_record<T: RowRecord>(row: D::Row) -> sqlx::Result<T> {
        T::read::<D>(&row)
    }

    pub(crate) async fn read_records<T: RowRecord + Send + Unpin>(
        &self,
        rows: Query<'_, D, D::Arguments>,
    ) -> Result<Vec<T>> {
        Ok(rows.try_map(Self::to_record).fetch_all(&mut *self.reader.acquire().await?).await?)
    }

    pub(crate) async fn read_record<T: RowRecord + Send + Unpin>(
        &self,
        row: Query<'_, D, D::Arguments>,
    ) -> Result<Option<T>> {
        Ok(row.try_map(Self::to_record).fetch_optional(&mut *self.reader.acquire().await?).await?)
    }

    pub(crate) async fn begin_write(&self) -> Result<StoreTransaction<D>> {
        Ok(self.writer.begin(D::BEGIN_WRITE).await?)
    }

    /// Runs a transaction in one round trip. Returns `true` if it returns a row, or `false` on a unique
    /// violation, writing nothing.
    ///
    /// The transaction is one statement, or several that include their own begin and commit.
    pub(crate) async fn write_at_once(&self, transaction: Query<'_, D, D::Arguments>) -> Result<bool> {
        let mut work = self.writer.lease_transaction().await?;
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

    pub(crate) async fn begin_read(&self) -> Result<StoreTransaction<D>> {
        Ok(self.reader.begin(D::BEGIN_READ).await?)
    }
}

/// Declares a trait and implements it for both databases: each method calls the function with the same name
/// in `impl<D: Dialect> Sql<D>`, in a span and with the call timeout.
///
/// `#[span(...)]` lists the span's fields. With `#[limit(each_step)]` the function should limit each step
/// itself.
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
        impl<D: $crate::sql::dialect::Dialect> $subject for $crate::sql::SqlStore<D> { $(
            async fn $method(&self $(, $argument: $type)*) -> $answer {
                let span = tracing::debug_span!(stringify!($method), $($($field)*)?);
                let call = $crate::sql::calls!(@limit $($limit)? Self::$method(self $(, $argument)*));
                tracing::Instrument::instrument(self.run_call(stringify!($method), call), span).await
            }
        )+ }

        /// Makes a missing or invisible function a compile error (ambiguity). Otherwise the method would call
        /// itself.
        #[expect(dead_code, reason = "its functions are never the ones that are meant")]
        trait Missing {
            $(fn $method() {})+
        }

        impl<D: $crate::sql::dialect::Dialect> Missing for $crate::sql::SqlStore<D> {}
    };
    (@limit each_step $call:expr) => { $call };
    (@limit $call:expr) => { $crate::sql::within_timeout($call) };
}
pub(crate) use calls;

/// Allows four waits for a lock. A call on a dead connection fails earlier, if the database can detect this.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) async fn within_timeout<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let silent = |text: String| Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)).into());
    match timeout(CALL_TIMEOUT, unless_dead(call)).await {
        Ok(Some(answer)) => answer,
        Ok(None) => silent("the connection is dead: the database knows of no call".to_owned()),
        Err(_) => silent(format!("no answer within {CALL_TIMEOUT:?}")),
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Broken(format!("cannot be written as JSON: {error}")))
}

/// Replaces NUL, which PostgreSQL cannot store: foreign text should never keep a row from being recorded.
pub(crate) fn no_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Milliseconds since 1970, or 0 for `None`.
pub(crate) fn or_zero(at: Option<Timestamp>) -> i64 {
    at.map_or(0, Timestamp::as_millisecond)
}

pub(crate) fn checked_number<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| StoreError::Broken(format!("the count {value} in the database is out of range")))
}
