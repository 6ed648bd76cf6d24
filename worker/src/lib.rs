//! The binary `tidings` as a library: configuration, run loops and commands, for `main` and for tests.

mod args;
pub mod cli;
mod client;
mod commands;
pub mod config;
mod confirm;
mod dev;
pub mod error;
mod gateway;
mod installation;
mod limits;
mod line_input;
pub mod log;
mod names;
mod phrases;
mod preference_store;
mod signals;
mod storage;
mod worker;

use mimalloc::MiMalloc;

pub use commands::emit;
pub use config::Config;
pub use worker::{recycle, registration, retention_schedule, run, sdk};

/// For each digest, a worker allocates on several threads and frees on others.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
