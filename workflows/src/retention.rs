//! Retention: purges rows that are older than their retention, batch by batch. A schedule starts this workflow every night.

pub mod activities;
mod state;
mod workflow;

pub use state::Report;
pub use workflow::RetentionRun;
