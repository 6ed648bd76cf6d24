//! Reads rows into structs. A column is read by name, as its Rust type.

use std::fmt;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::{ColumnIndex, Decode, Row, Type, error::BoxDynError};
use tidings_model::{
    attempt::{AttemptClass, AttemptPhase},
    breaker::BreakerCause,
    inbox,
    job::{JobState, KeyState},
    records::{AuditActor, DependentKind, DigestState, MessageState, NameKind, SuppressionReason},
    settings::StreamName,
    subscription::NoticeType,
    troubled_run::RunTrouble,
    window::DigestOutcome,
};
use uuid::Uuid;

use super::dialect::Dialect;

/// A type stored in a column as one of the databases' own types.
pub trait ColumnValue: Sized {
    type Stored;

    fn read(stored: Self::Stored) -> Result<Self, BoxDynError>;
}

/// Reads the column `name`.
///
/// # Errors
/// The row has no such column, or its value cannot be read. The error names the column and the value.
pub fn column<'r, R, T>(row: &'r R, name: &str) -> sqlx::Result<T>
where
    R: Row,
    T: ColumnValue<Stored: Decode<'r, R::Database> + Type<R::Database>>,
    for<'n> &'n str: ColumnIndex<R>,
{
    T::read(row.try_get(name)?).map_err(|source| sqlx::Error::ColumnDecode { index: name.to_owned(), source })
}

pub fn text_column<'r, R>(row: &'r R, name: &str) -> sqlx::Result<String>
where
    R: Row,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
    for<'n> &'n str: ColumnIndex<R>,
{
    Ok(column::<_, Option<String>>(row, name)?.unwrap_or_default())
}

/// Declares a struct of columns and how to read it from a row, like `#[derive(sqlx::FromRow)]`, which would
/// make the build compile SQLx and its drivers a second time.
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        $vis struct $name { $($(#[$field_meta])* pub $field: $type,)+ }

        impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for $name
        where
            for<'n> &'n str: sqlx::ColumnIndex<R>,
            $(<$type as $crate::sql::columns::ColumnValue>::Stored:
                sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)+
        {
            fn from_row(row: &'r R) -> sqlx::Result<Self> {
                Ok(Self { $($field: $crate::sql::columns::column(row, stringify!($field))?,)+ })
            }
        }
    };
}
pub(crate) use row;

pub trait RowRecord: Sized {
    fn read<D: Dialect>(row: &D::Row) -> sqlx::Result<Self>;
}

/// Declares how to read a record from a row. Each field is the column with its name, or `field = "column"`,
/// or `field: value`, computed from the row.
macro_rules! record {
    ($row:ident => $record:ident { $($field:ident $(= $column:literal)? $(: $value:expr)?),+ $(,)? }) => {
        impl $crate::sql::columns::RowRecord for $record {
            fn read<D: $crate::sql::dialect::Dialect>($row: &D::Row) -> sqlx::Result<Self> {
                Ok(Self { $($field: $crate::sql::columns::record!(@ $row $field $(= $column)? $(: $value)?)),+ })
            }
        }
    };
    (@ $row:ident $field:ident) => { $crate::sql::columns::column($row, stringify!($field))? };
    (@ $row:ident $field:ident = $column:literal) => { $crate::sql::columns::column($row, $column)? };
    (@ $row:ident $field:ident : $value:expr) => { $value };
}
pub(crate) use record;

macro_rules! stored_unchanged {
    ($($type:ty),+) => { $(
        impl ColumnValue for $type {
            type Stored = Self;

            fn read(stored: Self) -> Result<Self, BoxDynError> {
                Ok(stored)
            }
        }
    )+ };
}
stored_unchanged!(bool, i64, String, Vec<u8>);

impl<T: ColumnValue> ColumnValue for Option<T> {
    type Stored = Option<T::Stored>;

    fn read(stored: Self::Stored) -> Result<Self, BoxDynError> {
        stored.map(T::read).transpose()
    }
}

impl ColumnValue for Timestamp {
    type Stored = i64;

    fn read(milliseconds: i64) -> Result<Self, BoxDynError> {
        Ok(Self::from_millisecond(milliseconds)?)
    }
}

macro_rules! counts {
    ($($type:ty),+) => { $(
        impl ColumnValue for $type {
            type Stored = i64;

            fn read(count: i64) -> Result<Self, BoxDynError> {
                Self::try_from(count).map_err(|_| format!("the count {count} is out of range").into())
            }
        }
    )+ };
}
counts!(u32, u64);

impl ColumnValue for Uuid {
    type Stored = String;

    fn read(text: String) -> Result<Self, BoxDynError> {
        text.parse().map_err(|_| format!("{text:?} is not a UUID").into())
    }
}

pub struct JsonColumn<T>(pub T);

impl<T: DeserializeOwned> ColumnValue for JsonColumn<T> {
    type Stored = String;

    fn read(text: String) -> Result<Self, BoxDynError> {
        Ok(Self(serde_json::from_str(&text)?))
    }
}

macro_rules! names {
    ($($set:ty: $what:literal),+ $(,)?) => { $(
        impl ColumnValue for $set {
            type Stored = String;

            fn read(name: String) -> Result<Self, BoxDynError> {
                Self::named(&name).ok_or_else(|| unknown_word($what, &name))
            }
        }
    )+ };
}
names!(
    AttemptClass: "class of an attempt",
    BreakerCause: "cause of an open breaker",
    DigestState: "state of a digest",
    inbox::InboxItemKind: "kind of an item",
    JobState: "state of a job",
    KeyState: "state of a key of a job",
    MessageState: "state of a message",
    DependentKind: "thing that hangs on a name",
    NameKind: "kind of a name",
    NoticeType: "type of a notice",
    DigestOutcome: "outcome",
    AttemptPhase: "phase of an attempt",
    SuppressionReason: "reason of a suppression",
    StreamName: "stream",
    RunTrouble: "trouble of a run",
);

impl ColumnValue for AuditActor {
    type Stored = String;

    fn read(word: String) -> Result<Self, BoxDynError> {
        Ok(Self::from(word))
    }
}

pub fn unknown_word(what: impl fmt::Display, word: &str) -> BoxDynError {
    format!("{word:?} is not a known {what}; a later version of Tidings may have written it").into()
}
