//! Settings of the client. Temporal's own environment variables and `temporal.toml` configure the connection.

use std::{env::VarError, time::Duration};

use temporalio_client::{
    ClientOptions, GrpcCompression,
    envconfig::{ConfigError, LoadClientConfigProfileOptions},
    errors::ClientConnectError,
};
use tidings_model::names;

use crate::{Http, connection};

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
    #[error("no connection to Temporal at {target}: {source}; is TEMPORAL_ADDRESS right?")]
    Connect {
        /// The server's URL.
        target: String,
        /// The error of the SDK.
        source: Box<ClientConnectError>,
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
pub(crate) async fn connect(timeout: Duration) -> Result<temporalio_client::Client, ConnectError> {
    let (mut connection, client) = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default())
        .map_err(|error| ConnectError::Config(unquoted(&error)))?;
    connection.grpc_compression = GrpcCompression::None;
    connection.identity = format!("tidings-client@{}", std::process::id());
    connection.connect_timeout = Some(timeout);
    let target = connection.target.to_string();
    let failed = |source| ConnectError::Connect { target: target.clone(), source: Box::new(source) };
    let connection = connection::connect(connection).await.map_err(failed)?;
    temporalio_client::Client::new(connection, client).map_err(|error| failed(error.into()))
}

/// Returns the error without quoting the configuration. A variable that is not UTF-8 may hold an API key, and so may the
/// line of the file that temporalio-client 1.1.1 shows below the first line of its error. Its errors can be shown as they are
/// when the test below passes with `error.to_string()`.
#[must_use]
pub fn unquoted(error: &ConfigError) -> String {
    match error {
        ConfigError::LoadError(cause) if cause.is::<VarError>() => "a variable is not UTF-8".to_owned(),
        _ => error.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use temporalio_client::envconfig::DataSource;

    use super::*;

    #[test]
    fn an_error_in_temporal_toml_names_the_place_and_hides_the_line() {
        for (text, said) in [
            ("[profile.default]\napi_key = \"hunter2", "line 2, column 19"),
            ("[profile.default]\napi_key = hunter2", "line 2, column 11"),
            ("[profile.default]\napi_key = [\"hunter2\"]", "line 2, column 11"),
            ("profile.default = \"hunter2\"", "line 1, column 19"),
        ] {
            let data = DataSource::Data(text.into());
            let options = LoadClientConfigProfileOptions::builder().config_source(data).build();
            let error = unquoted(&ClientOptions::load_from_config(options).err().unwrap());
            assert!(error.contains(said) && !error.contains("hunter2"), "{text:?} says {error}");
        }
        let error = unquoted(&VarError::NotUnicode("hunter2".into()).into());
        assert_eq!(error, "a variable is not UTF-8");
    }
}
