//! Settings of the client. Temporal's own environment variables and `temporal.toml` configure the connection.

use std::time::Duration;

use temporalio_client::errors::ClientNewError;
use tidings_model::names;
use tokio::time::timeout;

use crate::{ConnectFailure, Credentials, Http, connection};

/// Settings of a [`Client`](crate::Client).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The api of a gateway that takes the events; `None` for signals to Temporal.
    pub http: Option<Http>,
    /// The task queue that the digest workers poll.
    pub task_queue: String,
    /// The longest that one `emit` takes, waiting for memory, pace and retries included.
    pub deadline: Duration,
    /// Bytes of events that wait or are on their way; past it `emit` waits. At least 64 KiB, at most 2 GiB.
    pub memory_bytes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http: None,
            task_queue: names::TASK_QUEUE.to_owned(),
            deadline: Duration::from_secs(30),
            memory_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The client could not connect.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The `TEMPORAL_*` variables or `temporal.toml` do not make sense.
    #[error("TEMPORAL_* environment or temporal.toml: {0}")]
    Config(String),
    /// The server did not answer, or refused the connection.
    #[error("Temporal at {target} {source}; {}", .source.remedy())]
    Connect {
        /// The server's URL.
        target: String,
        /// The reason.
        source: ConnectFailure,
    },
    /// The gateway did not answer.
    #[error("no connection to the gateway at {target}: {source}; is the URL right?")]
    Gateway {
        /// The server's URL.
        target: String,
        /// The error of the connection.
        source: std::io::Error,
    },
}

/// Connects as `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*`, `TEMPORAL_PROFILE` and
/// `temporal.toml` say (<https://docs.temporal.io/develop/environment-configuration>).
pub(crate) async fn connect(limit: Duration) -> Result<temporalio_client::Client, ConnectError> {
    let (connection, client) =
        connection::load(format!("tidings-client@{}", std::process::id())).map_err(ConnectError::Config)?;
    let target = connection.target.to_string();
    let failed = |source| ConnectError::Connect { target: target.clone(), source };
    let connecting = timeout(limit, connection::connect(connection, Credentials::Reread)).await;
    let late = |_| failed(ConnectFailure::NoAnswer(format!("within {limit:?}")));
    let connection = connecting.map_err(late)?.map_err(failed)?;
    let refused = |error: ClientNewError| failed(ConnectFailure::Options(error.to_string()));
    temporalio_client::Client::new(connection, client).map_err(refused)
}
