//! Stores everything Tidings remembers outside Temporal. Each subject has its own trait:
//!
//! | trait | subject |
//! |---|---|
//! | [`DirectoryStore`] | recipients, preferences, consent |
//! | [`PeopleStore`] | everything stored about a person |
//! | [`ErasureStore`] | erasing a person |
//! | [`GenerationStore`] | which person had an id when |
//! | [`SuppressionStore`] | addresses a tenant must not email |
//! | [`Ledger`] | digests, their events and their ends |
//! | [`ClaimStore`] | turning a due window into a digest |
//! | [`Outbox`] | messages with their final bytes |
//! | [`AttemptStore`] | delivery attempts and their fence |
//! | [`ReportStore`] | delivery events from providers |
//! | [`RetryStore`] | retrying digests and messages |
//! | [`AuditTrail`] | operator commands, dead letters |
//! | [`PauseStore`] | pauses of tenants and digest types |
//! | [`BreakerStore`] | circuit breakers of relays |
//! | [`RetentionStore`] | deleting old rows |
//! | [`StatisticsStore`] | counts for operators |
//! | [`LedgerListings`] | pages of the ledger |
//! | [`TokenStore`] | API tokens |
//! | [`NoticeStore`] | notices for subscribed services |
//! | [`InboxStore`] | accepted events waiting for their workflow |
//! | [`JobStore`] | bulk commands |
//! | [`TroubledRuns`] | stuck or ended workflow runs |
//! | [`NameStore`] | equivalent names of digest types and tenants |
//! | [`InstallationStore`] | the installation's identity |
//! | [`DatabaseHealth`] | database health checks |
//!
//! [`Store`] combines them. [`SqliteStore`] and [`PostgresStore`] implement each trait, and one conformance suite runs
//! against both.
//!
//! **Idempotence.** After a crash or a lost reply the caller should repeat the call. Each method documents
//! the effect.
//!
//! **Time.** The caller passes `now`. Times are stored in milliseconds. A call times out after two minutes, a
//! wait for a lock after 30 seconds (PostgreSQL) or 10 seconds (SQLite).
//!
//! **Errors.** [`StoreError::Unavailable`] is temporary: retry later. [`StoreError::Broken`] is not: its text has the
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
mod commit_attempts;
#[cfg(test)]
mod conformance;
mod contents;
mod copy;
mod digest;
mod directory;
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
    attempts::AttemptStore,
    audit::AuditTrail,
    breakers::BreakerStore,
    claims::ClaimStore,
    copy::{CopiedTable, CopyProgress, SoleFile},
    directory::DirectoryStore,
    erasure::ErasureStore,
    error::{DatabaseRefusal, ErrorEnd, FailurePhase, REFUSALS, Result, StoreError},
    generations::GenerationStore,
    inbox::InboxStore,
    installations::InstallationStore,
    jobs::JobStore,
    ledger::Ledger,
    listings::LedgerListings,
    names::NameStore,
    notices::NoticeStore,
    outbox::Outbox,
    pauses::PauseStore,
    people::PeopleStore,
    reports::ReportStore,
    retention::RetentionStore,
    retries::RetryStore,
    sql::{InjectedFault, PostgresStore, PostgresTransport, SqliteStore, TeamQuery, TeamQueryOutcome, WrongQuery},
    statistics::StatisticsStore,
    storage::{DatabaseHealth, StoreBackend},
    suppressions::SuppressionStore,
    tokens::{StoredToken, TokenStore},
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
    DirectoryStore,
    PeopleStore,
    ErasureStore,
    GenerationStore,
    SuppressionStore,
    Ledger,
    ClaimStore,
    Outbox,
    AttemptStore,
    ReportStore,
    RetryStore,
    AuditTrail,
    PauseStore,
    BreakerStore,
    RetentionStore,
    StatisticsStore,
    LedgerListings,
    NameStore,
    TokenStore,
    NoticeStore,
    InboxStore,
    JobStore,
    TroubledRuns,
    InstallationStore,
    DatabaseHealth,
];
