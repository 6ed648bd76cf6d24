//! The log on standard error: text for people, JSON for machines.

use std::io::{IsTerminal as _, stderr};

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::error::UsageError;

/// The options of the log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Log filter: a level, or target=level pairs, such as `info,tidings_activities=debug`
    #[arg(long, global = true, value_name = "FILTER", env = "TIDINGS_LOG", default_value = "info")]
    log: String,
    /// Log format on standard error
    #[arg(long, global = true, value_name = "FORMAT", env = "TIDINGS_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Starts logging. Call this once per process.
///
/// # Errors
/// The filter is wrong, or a logger is already installed.
pub fn start(options: &LogArgs) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&options.log).map_err(|error| {
        UsageError(format!("--log {:?}: {error}; write for example \"info\" or \"warn,tidings=debug\"", options.log))
    })?;
    // Otherwise a failed write would be reported on standard error, which may panic, too, e.g. on a full
    // disk.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).log_internal_errors(false);
    let started = match options.log_format {
        LogFormat::Text => log.with_ansi(stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot start: {error}"))
}
