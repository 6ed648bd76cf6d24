//! The outside world of a workflow: the activities of digests, single messages and retention, and the operations that the
//! command line calls.

mod apart;
mod attempt;
pub mod bounces;
pub mod choices;
mod context;
pub mod delivery_events;
mod deps;
pub mod digest;
mod error;
pub mod history;
pub mod installation;
pub mod message;
pub mod metrics;
mod namespace_claim;
pub mod operations;
pub mod processes;
pub mod recipients;
pub mod relays;
pub mod retention;
pub mod subscriptions;
pub mod sweep;
pub mod team_directory;
mod team_service;
pub mod unsubscribe;
pub mod visibility;

pub use context::Cancellable;
pub use deps::Deps;
pub use digest::DigestActivities;
pub use error::{Error, ErrorKind};
pub use message::MessageActivities;
pub use retention::RetentionActivities;
pub use subscriptions::SubscriptionActivities;
pub use team_directory::TeamDirectory;
