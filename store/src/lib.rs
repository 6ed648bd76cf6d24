//! Stores everything Tidings remembers outside Temporal. Each subject has its own trait:
//!
//! | trait | subject |
//! |---|---|
//! | [`Directory`] | recipients, preferences, consent |
//! | [`People`] | everything stored about a person |
//! | [`Erasure`] | erasing a person |
//! | [`Generations`] | which person had an id when |
//! | [`Suppressions`] | addresses a tenant must not email |
//! | [`Ledger`] | digests, their events and their ends |
//! | [`Claims`] | turning a due window into a digest |
//! | [`Outbox`] | messages with their final bytes |
//! | [`Attempts`] | delivery attempts and their fence |
//! | [`Reports`] | delivery events from providers |
//! | [`Retries`] | retrying digests and messages |
//! | [`AuditTrail`] | operator commands, dead letters |
//! | [`Pauses`] | pauses of tenants and digest types |
//! | [`Breakers`] | circuit breakers of relays |
//! | [`Retention`] | deleting old rows |
//! | [`Statistics`] | counts for operators |
//! | [`Listings`] | pages of the ledger |
//! | [`Tokens`] | API tokens |
//! | [`Notices`] | notices for subscribed services |
//! | [`Inbox`] | accepted events waiting for their workflow |
//! | [`Jobs`] | bulk commands |
//! | [`TroubledRuns`] | stuck or ended workflow runs |
//! | [`Names`] | equivalent names of digest types and tenants |
//! | [`Installations`] | the installation's identity |
//! | [`Health`] | database health checks |
//!
//! [`Store`] combines them. [`Sqlite`] and [`Postgres`] implement each trait, and one conformance suite runs
//! against both.
//!
//! **Idempotence.** After a crash or a lost reply the caller should repeat the call. Each method documents
//! the effect.
//!
//! **Time.** The caller passes `now`. Times are stored in milliseconds. A call times out after two minutes, a
//! wait for a lock after 30 seconds (PostgreSQL) or 10 seconds (SQLite).
//!
//! **Errors.** [`Error::Unavailable`] is temporary: retry later. [`Error::Broken`] is not: its text has the
//! action for an operator. [`REFUSALS`] lists the database errors we distinguish, and [`ErrorEnd`] how the
//! stopped work continues.
//!
//! **Tracing.** Each call is a `tracing` span at `debug`, named after the method, with the key or the id as a
//! field. Spans never contain an address.

pub mod archive;
mod attempts;
mod audit;
mod breakers;
mod catalogue;
mod claims;
#[cfg(test)]
mod conformance;
mod contents;
mod copy;
mod digest;
mod directory;
mod dots;
mod ending;
mod erasure;
mod error;
mod events;
mod exclusion;
mod generations;
mod inbox;
mod installations;
mod jobs;
mod ledger;
mod lines;
mod listings;
mod names;
mod notices;
mod outbox;
mod pauses;
mod people;
pub mod pseudonym;
mod reports;
mod retention;
mod retries;
mod sql;
mod statistics;
mod storage;
mod suppressions;
mod tokens;
mod troubled_runs;
mod waiting;
mod webhook_requests;

pub use self::{
    attempts::Attempts,
    audit::AuditTrail,
    breakers::Breakers,
    claims::Claims,
    copy::{CopiedTable, CopyProgress, SoleFile},
    directory::Directory,
    erasure::Erasure,
    error::{Error, ErrorEnd, Moment, REFUSALS, Refusal, Result},
    generations::Generations,
    inbox::Inbox,
    installations::Installations,
    jobs::Jobs,
    ledger::Ledger,
    listings::Listings,
    names::Names,
    notices::Notices,
    outbox::Outbox,
    pauses::Pauses,
    people::People,
    reports::Reports,
    retention::Retention,
    retries::Retries,
    sql::{Fault, Postgres, PostgresTransport, Queried, Sqlite, TeamQuery, WrongQuery},
    statistics::Statistics,
    storage::{Health, Storage},
    suppressions::Suppressions,
    tokens::{StoredToken, Tokens},
    troubled_runs::{ListedRun, TroubledRuns},
};

macro_rules! subjects {
    ($($subject:ident),+ $(,)?) => {
        pub mod prelude {
            pub use crate::{$($subject as _),+};
        }

        pub trait Store: $($subject +)+ {}

        impl<S> Store for S where S: $($subject +)+ {}
    };
}
subjects![
    Directory,
    People,
    Erasure,
    Generations,
    Suppressions,
    Ledger,
    Claims,
    Outbox,
    Attempts,
    Reports,
    Retries,
    AuditTrail,
    Pauses,
    Breakers,
    Retention,
    Statistics,
    Listings,
    Names,
    Tokens,
    Notices,
    Inbox,
    Jobs,
    TroubledRuns,
    Installations,
    Health,
];
