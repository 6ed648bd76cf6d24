//! The outside world of a workflow: the activities of digests, single messages and retention, and the operations that the
//! command line calls.

mod alert;
mod apart;
mod attempt;
pub mod bounces;
mod cancellable;
pub mod choices;
mod clock;
pub mod delivery_events;
mod deps;
pub mod digest;
mod error;
mod heartbeat;
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
pub mod task_queue;
pub mod team_directory;
mod team_service;
pub mod unsubscribe;
mod visibility;

pub use cancellable::Cancellable;
pub use deps::Deps;
pub use digest::DigestActivities;
pub use error::{Error, ErrorKind};
pub use message::MessageActivities;
pub use retention::RetentionActivities;
pub use subscriptions::SubscriptionActivities;
pub use team_directory::TeamDirectory;
