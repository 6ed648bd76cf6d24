//! Where Temporal is. Its own environment variables (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`,
//! `TEMPORAL_TLS_*`, ...) and its `temporal.toml` say so, as for every other Temporal program.

use std::{error::Error, fmt};

use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, envconfig::LoadClientConfigProfileOptions,
    errors::ClientConnectError,
};

use super::Problem;

/// How to reach Temporal.
#[derive(Clone)]
pub struct Temporal {
    /// Address, TLS and API key.
    pub connection: ConnectionOptions,
    /// The namespace.
    pub client: ClientOptions,
}

/// Temporal does not answer.
#[derive(Debug, thiserror::Error)]
#[error("Temporal at {address} does not answer ({reason}); `tidings dev` starts one, TEMPORAL_ADDRESS names another")]
pub struct Unreachable {
    address: String,
    reason: String,
}

/// The innermost cause: what is around it only repeats it.
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
    /// What the environment and Temporal's file say.
    pub(super) fn load() -> Result<Self, Problem> {
        let (mut connection, client) = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default())
            .map_err(|error| Problem {
                place: "environment".to_owned(),
                key: "TEMPORAL_*".to_owned(),
                value: String::new(),
                problem: tidings_client::unquoted(&error),
            })?;
        connection.identity = format!("tidings {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id());
        Ok(Self { connection, client })
    }

    /// The server's URL.
    #[must_use]
    pub fn address(&self) -> String {
        self.connection.target.as_str().trim_end_matches('/').to_owned()
    }

    /// The namespace that holds the digests.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.client.namespace
    }

    /// Connects, and asks the server whether it is there.
    ///
    /// # Errors
    /// No answer, or not from Temporal.
    pub async fn connect(&self) -> Result<Client, Unreachable> {
        let unreachable = |error: ClientConnectError| Unreachable { address: self.address(), reason: reason(&error) };
        let connection = Connection::connect(self.connection.clone()).await.map_err(unreachable)?;
        Client::new(connection, self.client.clone()).map_err(|error| unreachable(error.into()))
    }
}

impl fmt::Debug for Temporal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Temporal({}, {})", self.address(), self.namespace())
    }
}
