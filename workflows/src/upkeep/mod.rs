//! Upkeep: what is older than its retention leaves the store, batch by batch. A schedule starts this workflow every night.

pub mod activities;
mod state;
mod workflow;

pub use state::Report;
pub use workflow::Upkeep;
