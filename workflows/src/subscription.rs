//! Deliveries to a subscription: one workflow each, which runs while there is something to deliver.

pub mod activities;
mod state;
mod workflow;

pub use state::SubscriptionStatus;
pub use workflow::Deliveries;
