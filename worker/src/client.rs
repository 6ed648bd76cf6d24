//! The client that hands over events, as the commands use it.

use std::time::Duration;

use tidings_client::Client;

use crate::Config;

/// How long Temporal may take for what is on its way. One key may be slow when others, or other processes, are busy.
const DEADLINE: Duration = Duration::from_mins(2);

/// The thin client, connected.
///
/// # Errors
/// Temporal does not answer.
pub(crate) async fn connect(config: &Config) -> anyhow::Result<Client> {
    let temporal = config.temporal.connect().await?;
    let task_queue = config.task_queue.clone();
    let config = tidings_client::Config { task_queue, deadline: DEADLINE, ..Default::default() };
    Ok(Client::new(temporal, config))
}
