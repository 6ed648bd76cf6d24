//! The store holds everything that Tidings remembers outside of Temporal.
//!
//! Each subject has a trait of its own:
//!
//! | trait | subject |
//! |---|---|
//! | [`Directory`] | recipients, preferences, consent |
//! | [`People`] | the listing of recipients, and everything that is held about a person |
//! | [`Erasure`] | the erasure of a person |
//! | [`Generations`] | the people who have one id after the other, and the ids that one person had |
//! | [`Suppressions`] | addresses that a tenant must not email |
//! | [`Ledger`] | digests, their events and their ends |
//! | [`Claims`] | the step from a due window to a digest with contents |
//! | [`Outbox`] | messages, each with its final bytes |
//! | [`Attempts`] | attempts to deliver a message, and the fence between them |
//! | [`Reports`] | delivery events that providers report |
//! | [`Retries`] | digests and messages that an operator gives another try |
//! | [`AuditTrail`] | commands of operators, and dead letters |
//! | [`Pauses`] | operators' pauses of tenants and digest types |
//! | [`Breakers`] | the breakers of relays |
//! | [`Retention`] | deletion of old rows |
//! | [`Statistics`] | counts for operators |
//! | [`Listings`] | pages of the ledger for operators |
//! | [`Tokens`] | tokens of the api |
//! | [`Notices`] | notices to services that subscribed |
//! | [`Inbox`] | accepted events that wait for the workflow of their key |
//! | [`Jobs`] | operators' orders to many keys |
//! | [`TroubledRuns`] | runs in Temporal that no code of ours brings to an end |
//! | [`Names`] | names of digest types and tenants that mean the same |
//! | [`Installations`] | the identity of the installation |
//! | [`Health`] | the state of the database |
//!
//! [`Store`] is all of them. [`Sqlite`] and [`Postgres`] implement each trait, and one conformance suite runs against both.
//!
//! **Idempotence.** After a crash or a lost answer the caller repeats the call. Each method says what a repeated call does.
//!
//! **Time.** The caller passes `now`. Times are stored in milliseconds. A call gives up after two minutes, a wait for a lock
//! after 30 seconds (PostgreSQL) or 10 seconds (SQLite).
//!
//! **Errors.** [`Error::Unavailable`] passes by itself: repeat the call later. [`Error::Broken`] does not: an operator does what it says.
//! [`REFUSALS`] has what the databases refuse for, and [`ErrorEnd`] what becomes of the work that an error stops.
//!
//! **Tracing.** Each call is a `tracing` span at `debug`, named after the method, with the key or the id as field. Spans never
//! contain an address.

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
        /// The methods of all traits: `use tidings_store::prelude::*;`. Calls through `dyn Store` do not need it.
        pub mod prelude {
            pub use crate::{$($subject as _),+};
        }

        /// All subjects of the store.
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
