//! Connections of the commands to Temporal.

use std::time::Duration;

use tidings_client::{Client, CommandError, Commands};
use tidings_model::Key;

use crate::{Config, config::Unreachable};

/// The longest time for one event. One key may be slow while others, or other processes, are busy.
const DEADLINE: Duration = Duration::from_mins(2);

/// Connects the client that emits events.
///
/// # Errors
/// Temporal does not answer.
pub(crate) async fn connect(config: &Config) -> Result<Client, Unreachable> {
    let temporal = config.temporal.connect().await?;
    let task_queue = config.task_queue.clone();
    let config = tidings_client::Config { task_queue, deadline: DEADLINE, ..Default::default() };
    Ok(Client::new(temporal, config))
}

/// Connects the commands to workflows.
///
/// # Errors
/// Temporal does not answer.
pub(crate) async fn commands(config: &Config) -> Result<Commands, Unreachable> {
    Ok(Commands::new(config.temporal.connect().await?, &config.task_queue))
}

/// Adds to an unanswered command that a worker may still carry it out.
pub(crate) fn explain(key: &Key, error: CommandError) -> anyhow::Error {
    match error {
        CommandError::Unanswered { .. } => {
            anyhow::anyhow!("{error} A worker may still carry out the command; see tidings status {key}")
        }
        error => error.into(),
    }
}
