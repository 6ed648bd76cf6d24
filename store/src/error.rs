//! Errors of the store, and the decision which of them pass by themselves.

use crate::archive;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot answer now: connection, lock, disk. A later call may succeed.
    #[error("the store is unavailable: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// The database is not what this version expects, or a row cannot be read. A later call fails too.
    #[error("{0}")]
    Broken(String),
    /// The archive cannot be written. The rows stay in the database.
    #[error(transparent)]
    Archive(#[from] archive::Error),
}

/// The result of a call of the store.
pub type Result<T> = std::result::Result<T, Error>;

pub(super) const NOT_MIGRATED: &str =
    "the database does not have the tables that this version needs: run `tidings migrate`";

/// SQLite's primary result codes (sqlite.org/rescode.html): BUSY, LOCKED, NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN,
/// PROTOCOL.
const SQLITE_PASSING: [i32; 8] = [5, 6, 7, 9, 10, 13, 14, 15];
/// PostgreSQL's classes (Appendix A): connection, transaction rollback (serialization, deadlock), resources, operator
/// intervention, system error; and 55P03 `lock_not_available`, 25006 `read_only_sql_transaction` (a fail-over), 25P03
/// `idle_in_transaction_session_timeout`.
const POSTGRES_PASSING: [&str; 8] = ["08", "40", "53", "57", "58", "55P03", "25006", "25P03"];

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match &error {
            // Protocol is what sqlx makes of a connection that PostgreSQL takes and closes as it goes down.
            E::Io(_)
            | E::Tls(_)
            | E::Protocol(_)
            | E::PoolTimedOut
            | E::PoolClosed
            | E::WorkerCrashed
            | E::BeginFailed => Self::Unavailable(error),
            E::Database(database) => {
                let code = database.code().unwrap_or_default();
                match verdict(&code, database.message()) {
                    Verdict::Passing => Self::Unavailable(error),
                    Verdict::NotMigrated => Self::Broken(format!("{NOT_MIGRATED} ({})", database.message())),
                    Verdict::Broken => Self::Broken(format!("the database refused ({code}): {}", database.message())),
                }
            }
            other => Self::Broken(other.to_string()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for Error {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError as M;
        match error {
            M::Execute(error) => error.into(),
            M::VersionMissing(version) => Self::Broken(format!(
                "a later version of Tidings migrated the database (migration {version}): this version works on its tables as they \
                 are, and needs no `tidings migrate`"
            )),
            other => Self::Broken(format!("cannot migrate the database: {other}")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passing,
    NotMigrated,
    Broken,
}

/// SQLite's codes are numbers of up to four digits, PostgreSQL's always have five characters.
fn verdict(code: &str, message: &str) -> Verdict {
    let passing = match code.parse::<i32>() {
        Ok(extended) if code.len() < 5 => SQLITE_PASSING.contains(&(extended & 0xff)),
        _ => POSTGRES_PASSING.iter().any(|class| code.starts_with(class)),
    };
    // 42P01 undefined_table, 42703 undefined_column.
    let missing = ["42P01", "42703"].contains(&code)
        || (code == "1" && (message.starts_with("no such table") || message.contains("no such column")));
    match (passing, missing) {
        (true, _) => Verdict::Passing,
        (_, true) => Verdict::NotMigrated,
        _ => Verdict::Broken,
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt as _, net::TcpListener};

    use super::*;
    use crate::Postgres;

    #[test]
    fn passing_errors_differ_from_lasting_ones() {
        for (code, message, expected) in [
            ("5", "database is locked", Verdict::Passing),
            ("517", "database is locked", Verdict::Passing),
            ("13", "database or disk is full", Verdict::Passing),
            ("778", "disk I/O error", Verdict::Passing),
            ("14", "unable to open database file", Verdict::Passing),
            ("1", "no such table: events", Verdict::NotMigrated),
            ("1", "near \"x\": syntax error", Verdict::Broken),
            ("1555", "UNIQUE constraint failed", Verdict::Broken),
            ("11", "database disk image is malformed", Verdict::Broken),
            ("40001", "could not serialize access", Verdict::Passing),
            ("40P01", "deadlock detected", Verdict::Passing),
            ("53100", "disk full", Verdict::Passing),
            ("57P01", "terminating connection", Verdict::Passing),
            ("08006", "connection failure", Verdict::Passing),
            ("55P03", "lock not available", Verdict::Passing),
            ("25006", "cannot execute in a read-only transaction", Verdict::Passing),
            ("25P03", "terminating connection due to idle-in-transaction timeout", Verdict::Passing),
            ("42P01", "relation \"events\" does not exist", Verdict::NotMigrated),
            ("42703", "column does not exist", Verdict::NotMigrated),
            ("22P05", "unsupported Unicode escape sequence", Verdict::Broken),
            ("23505", "duplicate key", Verdict::Broken),
            ("28P01", "password authentication failed", Verdict::Broken),
        ] {
            assert_eq!(verdict(code, message), expected, "{code} {message}");
        }
    }

    #[test]
    fn the_drivers_own_errors_are_told_apart_too() {
        for passing in
            [sqlx::Error::PoolTimedOut, sqlx::Error::WorkerCrashed, sqlx::Error::Io(std::io::Error::other("x"))]
        {
            assert!(matches!(Error::from(passing), Error::Unavailable(_)));
        }
        for broken in [sqlx::Error::RowNotFound, sqlx::Error::Decode("x".into())] {
            assert!(matches!(Error::from(broken), Error::Broken(_)));
        }
    }

    #[tokio::test]
    async fn a_database_that_closes_its_connections_is_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("postgres://tidings@{}/tidings", listener.local_addr().expect("it has an address"));
        let closes = async {
            let (mut connection, _) = listener.accept().await.expect("somebody comes");
            connection.read_exact(&mut [0; 8]).await.expect("an SSLRequest is 8 bytes");
        };
        let (connected, ()) = tokio::join!(Postgres::connect(&url), closes);
        let error = connected.err().expect("nobody is there");
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
    }
}
