//! Connections to Temporal and the gateway.

use std::{env, time::Duration};

use tidings_client::{Client, CommandError, Commands, ConnectError, Http, WrongHttp};
use tidings_model::{Key, foreign_text::clean_edges};

use crate::{Config, error::Usage, installation};

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

/// Fails with [`Usage`] if the URL is wrong, or the token in the environment is.
pub(crate) fn http(url: &str) -> Result<Http, Usage> {
    let token = env::var(TOKEN).unwrap_or_default();
    if clean_edges(&token).is_empty() {
        let make = "set it to what `tidings tokens create --tenant TENANT --scope events:write` prints";
        return Err(Usage(format!("--http: the variable {TOKEN} has no token; {make}")));
    }
    Http::new(url, &token).map_err(|wrong| match wrong {
        WrongHttp::Url | WrongHttp::InClear => Usage(format!("--http: {wrong}")),
        WrongHttp::Token(wrong) => Usage(format!("{TOKEN} {wrong}")),
    })
}

pub(crate) async fn connect_over(http: Http) -> Result<Client, ConnectError> {
    Client::connect(tidings_client::Config { http: Some(http), deadline: DEADLINE, ..Default::default() }).await
}

pub(crate) async fn commands(config: &Config) -> anyhow::Result<Commands> {
    Ok(Commands::new(installation::connect(config).await?, &config.task_queue))
}

/// If no worker responded, notes that one may still carry out the command.
pub(crate) fn explain(key: &Key, error: CommandError) -> anyhow::Error {
    match error {
        CommandError::Unanswered { .. } => {
            anyhow::anyhow!("{error} A worker may still carry out the command; see tidings status {key}")
        }
        error => error.into(),
    }
}
