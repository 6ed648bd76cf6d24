//! A single message: its key, its commands, and what its workflow asks of activities.

pub mod command;
pub mod contract;
