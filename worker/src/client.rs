//! Connections to Temporal and the gateway.

use std::{env, time::Duration};

use tidings_client::{Client, CommandError, ConnectError, HttpGateway, WorkflowCommands, WrongHttp};
use tidings_model::{Key, foreign_text::clean_edges};

use crate::{Config, error::UsageError, installation};

/// The API token for `--http`.
const TOKEN: &str = "TIDINGS_TOKEN";

/// Deadline per event. A key may be slow while others, or other processes, are busy.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

/// For emitting events.
pub(crate) async fn connect(config: &Config) -> anyhow::Result<Client> {
    let temporal = installation::connect(config).await?;
    let task_queue = config.task_queue.clone();
    let config = tidings_client::Config { task_queue, deadline: DEADLINE, ..Default::default() };
    Ok(Client::new(temporal, config))
}

/// Fails with [`UsageError`] if the URL is wrong, or the token in the environment is.
pub(crate) fn http(url: &str) -> Result<HttpGateway, UsageError> {
    let token = env::var(TOKEN).unwrap_or_default();
    if clean_edges(&token).is_empty() {
        let make = "set it to what `tidings tokens create --tenant TENANT --scope events:write` prints";
        return Err(UsageError(format!("--http: the variable {TOKEN} has no token; {make}")));
    }
    HttpGateway::new(url, &token).map_err(|wrong| match wrong {
        WrongHttp::Url | WrongHttp::InClear => UsageError(format!("--http: {wrong}")),
        WrongHttp::Token(wrong) => UsageError(format!("{TOKEN} {wrong}")),
    })
}

pub(crate) async fn connect_over(http: HttpGateway) -> Result<Client, ConnectError> {
    Client::connect(tidings_client::Config { http: Some(http), deadline: DEADLINE, ..Default::default() }).await
}

pub(crate) async fn connect_commands(config: &Config) -> anyhow::Result<WorkflowCommands> {
    Ok(WorkflowCommands::new(installation::connect(config).await?, &config.task_queue))
}

/// If no worker responded, notes that one may still carry out the command.
pub(crate) fn explain_unanswered(key: &Key, error: CommandError) -> anyhow::Error {
    match error {
        CommandError::Unanswered { .. } => {
            anyhow::anyhow!("{error} A worker may still carry out the command; see tidings status {key}")
        }
        error => error.into(),
    }
}
