//! Services shared by activities and operations: relays, preferences, the team's own directory, digest
//! emails, installations and their processes, metrics, visibility.

pub mod apart;
pub mod choices;
pub mod delivery_events;
pub mod deps;
pub mod digest_email;
pub mod error;
pub mod history;
pub mod installation;
pub mod message_configuration;
pub mod metrics;
mod namespace_claim;
pub mod processes;
pub mod recipients;
pub mod relays;
pub mod team_directory;
pub mod team_service;
pub mod unsubscribe;
pub mod visibility;

pub use deps::StepServices;
pub use error::{ErrorKind, StepError};
pub use team_directory::TeamDirectory;
