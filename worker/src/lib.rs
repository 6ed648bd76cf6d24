//! The binary `tidings` as a library: configuration, the worker's run loop and the commands, for `main` and for tests.

pub mod cli;
pub mod config;
mod dev;
mod emit;
mod intake;
pub mod log;
mod migrate;
mod operate;
pub mod registration;
mod run;
mod show;
mod storage;
mod template;

pub use config::Config;
pub use run::run;
