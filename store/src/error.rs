//! Store errors, and which of them are temporary.

use crate::archive;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is temporarily unavailable (connection, lock, disk).
    #[error("the store is unavailable: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// The schema has another version, or a row cannot be read. Retrying would fail too.
    #[error("{0}")]
    Broken(String),
    /// The rows stay in the database.
    #[error(transparent)]
    Archive(#[from] archive::ArchiveError),
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// When, during an attempt, a store call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePhase {
    /// Before the final dot, or in a step which sends nothing: retrying is harmless.
    BeforeDot,
    /// After the final dot: only this process has the relay's reply.
    PastDot,
}

/// How work stopped by an error continues (rule 52).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorEnd {
    /// Retries with exponential backoff from 1 s up to a minute, until the error has passed.
    Repeats,
    /// Retries every half second, until a capable worker takes the step.
    AnotherWorker,
    /// Retries with exponential backoff from 1 s up to an hour, until an operator has fixed the cause or
    /// gives a command.
    WaitsForOperator,
    /// As above, but after seven days the digest ends as `unknown` with this error as the reason (rule 33).
    GivesUp,
    /// Skips the lost part, with a dead letter for it.
    DeadLetter,
    /// Keeps the attempt's outcome in the process, then in its workflow, until the ledger accepts it. Nothing
    /// is sent again.
    KeepsOutcome,
    /// Another attempt or end was faster; the workflow reads its result.
    Superseded,
}

impl StoreError {
    /// Returns `true` if the server has no TLS, or none we can trust.
    #[must_use]
    pub const fn is_about_tls(&self) -> bool {
        matches!(self, Self::Unavailable(sqlx::Error::Tls(_)))
    }

    #[must_use]
    pub const fn error_end(&self, moment: FailurePhase) -> ErrorEnd {
        match (moment, self) {
            (FailurePhase::PastDot, _) => ErrorEnd::KeepsOutcome,
            (FailurePhase::BeforeDot, Self::Unavailable(_)) => ErrorEnd::Repeats,
            (FailurePhase::BeforeDot, Self::Broken(_) | Self::Archive(_)) => ErrorEnd::WaitsForOperator,
        }
    }
}

pub(super) const NOT_MIGRATED: &str =
    "the database does not have the tables that this version needs: run `tidings migrate`";

/// A class of database errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseRefusal {
    pub about: &'static str,
    /// SQLite result codes (sqlite.org/rescode.html): primary, or extended in an earlier row.
    pub sqlite: &'static [i32],
    /// PostgreSQL error codes or their two-character classes (PostgreSQL documentation, appendix A).
    pub postgres: &'static [&'static str],
    /// What an operator should do; empty if temporary.
    pub remedy: &'static str,
}

/// The first row with a matching code decides. `docs/operations.md` has the same table.
pub const REFUSALS: [DatabaseRefusal; 12] = [
    DatabaseRefusal {
        about: "there is no folder for temporary files",
        sqlite: &[6410], // IOERR_GETTEMPPATH
        postgres: &[],
        remedy: "set TMPDIR to a folder that the process may write to",
    },
    DatabaseRefusal {
        about: "the database is read-only",
        sqlite: &[8], // READONLY
        postgres: &[],
        remedy: "give the worker's user write access to the file and its folder",
    },
    // 25006: a standby, or a server during failover.
    DatabaseRefusal { about: "this server is a standby", sqlite: &[], postgres: &["25006"], remedy: "" },
    // BUSY, LOCKED, INTERRUPT; lock_not_available, idle_in_transaction_session_timeout, rollbacks such as a deadlock.
    DatabaseRefusal {
        about: "another writer holds the lock",
        sqlite: &[5, 6, 9],
        postgres: &["55P03", "25P03", "40"],
        remedy: "",
    },
    // FULL, NOMEM; resources, such as a full disk or too many connections.
    DatabaseRefusal { about: "a resource is exhausted", sqlite: &[13, 7], postgres: &["53"], remedy: "" },
    // IOERR, CANTOPEN, PROTOCOL; connections, shutdowns, the system.
    DatabaseRefusal {
        about: "the database is unavailable",
        sqlite: &[10, 14, 15],
        postgres: &["08", "57", "58"],
        remedy: "",
    },
    DatabaseRefusal {
        about: "the role lacks a permission",
        sqlite: &[3, 23], // PERM, AUTH
        postgres: &["28", "42501"],
        remedy: "check the password, LOGIN and the grants of the role in database_url",
    },
    DatabaseRefusal {
        about: "the database accepts no connections",
        sqlite: &[],
        postgres: &["55000", "3D000"],
        remedy: "allow connections to the database in database_url, or name another",
    },
    DatabaseRefusal {
        about: "the tables have another version",
        sqlite: &[],
        postgres: &["42P01", "42703"],
        remedy: "run `tidings migrate`",
    },
    // duplicate_prepared_statement, invalid_sql_statement_name.
    DatabaseRefusal {
        about: "a pooler shares the session between clients",
        sqlite: &[],
        postgres: &["42P05", "26000"],
        remedy: "set pool_mode = session in PgBouncer for this database, or connect to PostgreSQL directly",
    },
    DatabaseRefusal {
        about: "a constraint or trigger rejected the row",
        sqlite: &[19], // CONSTRAINT
        postgres: &["23", "P0"],
        remedy: "remove a constraint or trigger that is not Tidings' own; after a logical copy run `tidings migrate`",
    },
    DatabaseRefusal {
        about: "the database is damaged",
        sqlite: &[11, 26], // CORRUPT, NOTADB
        postgres: &["XX"],
        remedy: "restore it from a backup",
    },
];

impl DatabaseRefusal {
    /// The row for a code. SQLite codes have up to four digits, PostgreSQL codes always five characters.
    fn for_code(code: &str, message: &str) -> Option<&'static Self> {
        match code.parse::<i32>() {
            Ok(1) if message.starts_with("no such table") || message.contains("no such column") => {
                REFUSALS.iter().find(|row| row.postgres.contains(&"42P01"))
            }
            Ok(extended) if code.len() < 5 => {
                let codes = [extended, extended & 0xff];
                REFUSALS.iter().find(|row| row.sqlite.iter().any(|code| codes.contains(code)))
            }
            _ => REFUSALS.iter().find(|row| row.postgres.iter().any(|class| code.starts_with(class))),
        }
    }

    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.remedy.is_empty()
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        match &error {
            // sqlx reports `Protocol` if PostgreSQL accepts a connection and closes it while shutting down.
            E::Io(_)
            | E::Tls(_)
            | E::Protocol(_)
            | E::PoolTimedOut
            | E::PoolClosed
            | E::WorkerCrashed
            | E::BeginFailed => Self::Unavailable(error),
            E::Database(database) => {
                let code = database.code().unwrap_or_default();
                let refused = format!("the database refused ({code}): {}", database.message());
                match DatabaseRefusal::for_code(&code, database.message()) {
                    Some(refusal) if refusal.is_temporary() => Self::Unavailable(error),
                    Some(refusal) => Self::Broken(format!("{refused}; {}: {}", refusal.about, refusal.remedy)),
                    None => Self::Broken(refused),
                }
            }
            other => Self::Broken(other.to_string()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError as M;
        match error {
            M::Execute(error) => error.into(),
            M::VersionMissing(version) => Self::Broken(format!(
                "a later version of Tidings migrated the database (migration {version}): this version works on its tables as they \
                 are, and needs no `tidings migrate`"
            )),
            M::Dirty(version) => Self::Broken(format!(
                "database migration {version} was interrupted: delete its row with `DELETE FROM _sqlx_migrations WHERE \
                 version = {version} AND NOT success`, and run `tidings migrate` of the version that began it, which \
                 repeats the step"
            )),
            other => Self::Broken(format!("cannot migrate the database: {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::PostgresStore;

    #[test]
    fn passing_errors_differ_from_lasting_ones() {
        for (code, message, about) in [
            ("5", "database is locked", "another writer holds the lock"),
            ("517", "database is locked", "another writer holds the lock"),
            ("13", "database or disk is full", "a resource is exhausted"),
            ("778", "disk I/O error", "the database is unavailable"),
            ("14", "unable to open database file", "the database is unavailable"),
            ("6410", "disk I/O error", "there is no folder for temporary files"),
            ("8", "attempt to write a readonly database", "the database is read-only"),
            ("1032", "attempt to write a readonly database", "the database is read-only"),
            ("1", "no such table: events", "the tables have another version"),
            ("1555", "UNIQUE constraint failed", "a constraint or trigger rejected the row"),
            ("1811", "refused by a trigger", "a constraint or trigger rejected the row"),
            ("11", "database disk image is malformed", "the database is damaged"),
            ("40001", "could not serialize access", "another writer holds the lock"),
            ("40P01", "deadlock detected", "another writer holds the lock"),
            ("53100", "disk full", "a resource is exhausted"),
            ("57P01", "terminating connection", "the database is unavailable"),
            ("08006", "connection failure", "the database is unavailable"),
            ("55P03", "lock not available", "another writer holds the lock"),
            ("25006", "cannot execute in a read-only transaction", "this server is a standby"),
            ("25P03", "terminating connection due to idle-in-transaction timeout", "another writer holds the lock"),
            ("42P01", "relation \"events\" does not exist", "the tables have another version"),
            ("42703", "column does not exist", "the tables have another version"),
            ("42501", "permission denied for table attempts", "the role lacks a permission"),
            ("28000", "role \"tidings\" is not permitted to log in", "the role lacks a permission"),
            ("28P01", "password authentication failed", "the role lacks a permission"),
            ("55000", "database is not currently accepting connections", "the database accepts no connections"),
            ("23505", "duplicate key", "a constraint or trigger rejected the row"),
            ("42P05", "prepared statement \"sqlx_s_1\" already exists", "a pooler shares the session between clients"),
            ("26000", "prepared statement \"sqlx_s_1\" does not exist", "a pooler shares the session between clients"),
            ("P0001", "refused by a trigger", "a constraint or trigger rejected the row"),
            ("XX001", "invalid page in block 0", "the database is damaged"),
        ] {
            assert_eq!(DatabaseRefusal::for_code(code, message).map(|row| row.about), Some(about), "{code} {message}");
        }
        for (code, message) in [("1", "near \"x\": syntax error"), ("22P05", "unsupported Unicode escape sequence")] {
            assert_eq!(DatabaseRefusal::for_code(code, message), None, "{code} {message}");
        }
    }

    #[test]
    fn past_the_dot_every_error_keeps_the_outcome() {
        for (error, before) in [
            (StoreError::Unavailable(sqlx::Error::PoolTimedOut), ErrorEnd::Repeats),
            (StoreError::Broken("the database refused (42501)".into()), ErrorEnd::WaitsForOperator),
        ] {
            assert_eq!(
                (error.error_end(FailurePhase::BeforeDot), error.error_end(FailurePhase::PastDot)),
                (before, ErrorEnd::KeepsOutcome)
            );
        }
    }

    #[test]
    fn the_drivers_own_errors_are_told_apart_too() {
        for passing in
            [sqlx::Error::PoolTimedOut, sqlx::Error::WorkerCrashed, sqlx::Error::Io(std::io::Error::other("x"))]
        {
            assert!(matches!(StoreError::from(passing), StoreError::Unavailable(_)));
        }
        for broken in [sqlx::Error::RowNotFound, sqlx::Error::Decode("x".into())] {
            assert!(matches!(StoreError::from(broken), StoreError::Broken(_)));
        }
    }

    #[tokio::test]
    async fn a_database_without_tls_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let url = format!("postgres://tidings@{address}/tidings?sslmode=require");
        let refuses = async {
            let (mut connection, _) = listener.accept().await.expect("somebody comes");
            connection.read_exact(&mut [0; 8]).await.expect("an SSLRequest is 8 bytes");
            connection.write_all(b"N").await.expect("it waits for the answer");
            connection
        };
        let (connected, _connection) = tokio::join!(PostgresStore::connect(&url), refuses);
        let error = connected.err().expect("it demands TLS");
        assert!(error.is_about_tls(), "{error}");
    }

    #[tokio::test]
    async fn a_database_that_closes_its_connections_is_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("postgres://tidings@{}/tidings", listener.local_addr().expect("it has an address"));
        let closes = async {
            let (mut connection, _) = listener.accept().await.expect("somebody comes");
            connection.read_exact(&mut [0; 8]).await.expect("an SSLRequest is 8 bytes");
        };
        let (connected, ()) = tokio::join!(PostgresStore::connect(&url), closes);
        let error = connected.err().expect("nobody is there");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    }
}
