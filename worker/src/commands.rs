//! One file for each subcommand.

pub(crate) mod audit;
pub(crate) mod bounces;
pub(crate) mod config;
pub(crate) mod consent;
pub(crate) mod dead_letters;
pub(crate) mod digest;
pub(crate) mod digests;
pub mod emit;
pub(crate) mod flush;
pub(crate) mod gateway;
pub(crate) mod keys;
pub(crate) mod messages;
pub(crate) mod migrate;
mod page;
pub(crate) mod pauses;
pub(crate) mod preferences;
pub(crate) mod recipients;
pub(crate) mod recover;
pub(crate) mod relays;
pub(crate) mod retention;
pub(crate) mod retract;
pub(crate) mod send;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod suppressions;
pub(crate) mod template;
pub(crate) mod worker;
