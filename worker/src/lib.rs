//! The binary `tidings` as a library: configuration, the worker's run loop and the commands, for `main` and for tests.

mod choices;
pub mod cli;
pub mod config;
mod dev;
pub mod emit;
mod failures;
mod intake;
pub mod log;
mod messages;
mod metrics;
mod migrate;
mod operate;
mod recipients;
pub mod recycle;
pub mod registration;
mod relays;
mod retract;
mod run;
pub mod sdk;
mod send;
mod show;
mod slots;
mod storage;
mod suppressions;
mod table;
mod template;
pub mod upkeep;

pub use config::Config;
pub use operate::recover::{Recovered, Recovery};
pub use run::run;
pub use storage::Storage;
