//! The connection to Temporal. As in other Temporal programs, it is configured by Temporal's environment
//! variables (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*`, ...) and
//! `temporal.toml`.

use std::fmt;

use temporalio_client::{Client, ClientOptions, ConnectionOptions, GrpcCompression};
use tidings_client::{ConnectFailure, CredentialSource};
use url::Url;

use super::problem::ConfigProblem;

#[derive(Clone)]
pub struct TemporalConfig {
    pub connection: ConnectionOptions,
    pub credentials: CredentialSource,
    pub client: ClientOptions,
}

#[derive(Debug, thiserror::Error)]
#[error("Temporal at {address} {failure}; {remedy}")]
pub struct TemporalConnectError {
    address: String,
    failure: ConnectFailure,
    remedy: &'static str,
}

impl TemporalConfig {
    pub(super) fn load() -> Result<Self, ConfigProblem> {
        let (connection, client) =
            tidings_client::load(identity()).map_err(|error| ConfigProblem::new("environment", "TEMPORAL_*", error))?;
        Ok(Self { connection, credentials: CredentialSource::Reread, client })
    }

    /// Ignores the environment, and connects to the dev server on this port.
    pub(crate) fn dev_server(port: u16) -> Result<Self, url::ParseError> {
        let target: Url = format!("http://127.0.0.1:{port}").parse()?;
        let connection =
            ConnectionOptions::new(target).identity(identity()).grpc_compression(GrpcCompression::None).build();
        Ok(Self { connection, credentials: CredentialSource::Fixed, client: ClientOptions::new("default").build() })
    }

    #[must_use]
    pub fn address(&self) -> String {
        self.connection.target.as_str().trim_end_matches('/').to_owned()
    }

    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.client.namespace
    }

    /// Connects to the server. Retries for some seconds.
    ///
    /// # Errors
    /// The server does not respond, or is not Temporal.
    pub async fn connect(&self) -> Result<Client, TemporalConnectError> {
        let unreachable = |failure: ConnectFailure| TemporalConnectError {
            address: self.address(),
            remedy: remedy(&failure, &self.connection),
            failure,
        };
        let connection = tidings_client::connect(self.connection.clone(), self.credentials).await;
        Client::new(connection.map_err(unreachable)?, self.client.clone())
            .map_err(|error| unreachable(ConnectFailure::Options(error.to_string())))
    }
}

fn identity() -> String {
    format!("tidings {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id())
}

fn remedy(failure: &ConnectFailure, options: &ConnectionOptions) -> &'static str {
    let by_default = options.target.as_str() == "http://localhost:7233/";
    match failure {
        ConnectFailure::NoAnswer(_) if by_default => {
            "start one with `tidings dev`, or name another in TEMPORAL_ADDRESS"
        }
        failure => failure.remedy(),
    }
}

pub(crate) fn no_namespace(namespace: &str) -> String {
    format!(
        "Temporal has no namespace {namespace}; create it with `temporal operator namespace create -n {namespace} --retention 72h`, or \
         name another in TEMPORAL_NAMESPACE. `tidings recover` reads closed workflows, which Temporal keeps that long: 72 hours \
         outlast a weekend"
    )
}

impl fmt::Debug for TemporalConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Temporal({}, {})", self.address(), self.namespace())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_about_a_namespace_has_the_command_that_makes_it() {
        assert!(no_namespace("acme").contains("`temporal operator namespace create -n acme --retention 72h`"));
    }

    #[test]
    fn only_the_address_by_default_is_answered_with_the_dev_server() {
        let away = ConnectFailure::NoAnswer("connection refused".to_owned());
        let expired = ConnectFailure::Tls("certificate expired".to_owned());
        for (address, failure, dev) in [
            ("http://localhost:7233", &away, true),
            ("http://localhost:7233", &expired, false),
            ("http://127.0.0.1:7234", &away, false),
            ("http://temporal.internal:7233", &away, false),
        ] {
            let options = ConnectionOptions::new(address.parse::<Url>().unwrap()).build();
            assert_eq!(remedy(failure, &options).contains("tidings dev"), dev, "{address} {failure}");
        }
    }
}
