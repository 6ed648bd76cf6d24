//! The connection to Temporal. As for every other Temporal program, Temporal's own environment variables
//! (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*`, ...) and `temporal.toml` describe it.

use std::{error::Error, fmt};

use temporalio_client::{
    Client, ClientOptions, ConnectionOptions, GrpcCompression, envconfig::LoadClientConfigProfileOptions,
    errors::ClientConnectError,
};

use super::problem::Problem;

/// The options of the connection.
#[derive(Clone)]
pub struct Temporal {
    /// Address, TLS and API key.
    pub connection: ConnectionOptions,
    /// The namespace.
    pub client: ClientOptions,
}

/// Temporal does not answer.
#[derive(Debug, thiserror::Error)]
#[error(
    "Temporal at {address} does not answer ({reason}); start one with `tidings dev`, or name another in TEMPORAL_ADDRESS"
)]
pub struct Unreachable {
    address: String,
    reason: String,
}

/// Returns the innermost cause. The outer ones only repeat it.
fn reason(error: &ClientConnectError) -> String {
    if let ClientConnectError::SystemInfoCallError(status) = error {
        return status.message().to_owned();
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

impl Temporal {
    /// Loads the options from the environment and from Temporal's file.
    pub(super) fn load() -> Result<Self, Problem> {
        let (mut connection, client) = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default())
            .map_err(|error| Problem {
                place: "environment".to_owned(),
                key: "TEMPORAL_*".to_owned(),
                value: String::new(),
                problem: tidings_client::unquoted(&error),
            })?;
        // Requests are small: to compress them costs a digest more CPU than it saves.
        connection.grpc_compression = GrpcCompression::None;
        connection.identity = format!("tidings {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id());
        Ok(Self { connection, client })
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn address(&self) -> String {
        self.connection.target.as_str().trim_end_matches('/').to_owned()
    }

    /// Returns the namespace of the digests.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.client.namespace
    }

    /// Connects to the server.
    ///
    /// # Errors
    /// The server does not answer, or is not Temporal.
    pub async fn connect(&self) -> Result<Client, Unreachable> {
        let unreachable = |error: ClientConnectError| Unreachable { address: self.address(), reason: reason(&error) };
        let connection = tidings_client::connect(self.connection.clone()).await.map_err(unreachable)?;
        Client::new(connection, self.client.clone()).map_err(|error| unreachable(error.into()))
    }
}

impl fmt::Debug for Temporal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Temporal({}, {})", self.address(), self.namespace())
    }
}
