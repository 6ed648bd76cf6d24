//! Network endpoints: connections, listen addresses, and how the traffic is protected (rule 53). `tidings
//! config check` shows them, with the same errors and warnings as the start.

use std::net::SocketAddr;

use temporalio_client::ConnectionOptions;
use tidings_model::{RelayUrl, host_name::is_this_machine, relay_url::TlsMode, settings::ServiceUrl};
use tidings_store::PostgresTransport;

use super::problem::ConfigProblem;

/// Tidings has no certificate, so a proxy with TLS should stand in front.
const NONE: &str = "none";

#[derive(Clone, Debug)]
pub struct NetworkEndpoint {
    place: String,
    key: String,
    address: String,
    transport: EndpointTransport,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum EndpointTransport {
    Tls,
    ThisMachine,
    /// Unprotected, and the operator accepted this with the given setting, e.g. `sslmode=disable`.
    InClear(String),
    Unsaid {
        remedy: String,
        is_refused: bool,
    },
}

impl NetworkEndpoint {
    /// Returns the problem if no setting accepts the missing protection, and `true` if it prevents the start.
    fn unaccepted_risk(&self) -> Option<(ConfigProblem, bool)> {
        let EndpointTransport::Unsaid { remedy, is_refused } = &self.transport else { return None };
        let problem = ConfigProblem::new(self.place.clone(), self.key.clone(), remedy.clone());
        Some((problem.with_value(self.address.clone()), *is_refused))
    }

    pub(super) fn warning(&self) -> Option<ConfigProblem> {
        self.unaccepted_risk().filter(|(_, is_refused)| !is_refused).map(|(problem, _)| problem)
    }

    /// Formats a table row: the key and e.g. `10.0.0.7:8081, in clear by gateway.api_tls = "none"`.
    pub(super) fn table_row(&self) -> (String, String) {
        let address = &self.address;
        let words = match &self.transport {
            EndpointTransport::Tls => format!("{address}, TLS"),
            EndpointTransport::ThisMachine => format!("{address}, this machine"),
            EndpointTransport::InClear(words) => format!("{address}, in clear by {words}"),
            EndpointTransport::Unsaid { .. } => format!("{address}, no TLS setting"),
        };
        (self.key.clone(), words)
    }

    pub(super) fn relay(name: &str, relay: &RelayUrl) -> Self {
        let transport = match relay.tls {
            TlsMode::Implicit | TlsMode::Required => EndpointTransport::Tls,
            TlsMode::Opportunistic | TlsMode::None if relay.is_loopback() => EndpointTransport::ThisMachine,
            TlsMode::Opportunistic => {
                EndpointTransport::InClear("tls=opportunistic, where the relay has no TLS".to_owned())
            }
            TlsMode::None => EndpointTransport::InClear("tls=none".to_owned()),
        };
        Self::new(&format!("relay.{name}"), relay.to_string(), transport)
    }

    /// An unprotected connection was accepted by a setting, because [`tidings_client::load`] rejects others.
    pub(super) fn temporal(address: String, connection: &ConnectionOptions) -> Option<Self> {
        let transport = match &connection.tls_options {
            Some(_) => EndpointTransport::Tls,
            None if is_this_machine(connection.target.host_str()?) => EndpointTransport::ThisMachine,
            None => EndpointTransport::InClear("TEMPORAL_TLS=false".to_owned()),
        };
        Some(Self::new("temporal", address, transport))
    }

    pub(super) fn issuer(issuer: &str) -> Self {
        let transport =
            if issuer.starts_with("https:") { EndpointTransport::Tls } else { EndpointTransport::ThisMachine };
        Self::new("gateway.oidc.issuer", issuer.to_owned(), transport)
    }

    pub(super) fn service(key: &str, url: &ServiceUrl) -> Self {
        // A `ServiceUrl` with http is always on this machine.
        let transport = if url.is_https() { EndpointTransport::Tls } else { EndpointTransport::ThisMachine };
        Self::new(key, url.url()[..url::Position::BeforePath].to_owned(), transport)
    }

    pub(super) fn postgres(place: &str, key: &str, url: &str, shown: String) -> Option<Self> {
        let transport = match PostgresTransport::from_url(url)? {
            PostgresTransport::ThisMachine => EndpointTransport::ThisMachine,
            PostgresTransport::Tls => EndpointTransport::Tls,
            PostgresTransport::InClear => EndpointTransport::InClear("sslmode=disable".to_owned()),
            PostgresTransport::TlsByDefault => EndpointTransport::Unsaid {
                remedy:
                    "has no sslmode, so Tidings requires TLS and takes any certificate; add sslmode=verify-full, or \
                         sslmode=disable if anyone on the network path may read and change the data"
                        .to_owned(),
                is_refused: false,
            },
        };
        Some(Self { place: place.to_owned(), ..Self::new(key, shown, transport) })
    }

    /// Also returns the problem if the listener is refused. `tls` is the key that accepts clear text;
    /// `is_said` is `true` if it does.
    pub(super) fn listener(
        place: String,
        key: &str,
        address: SocketAddr,
        (tls, is_said): (&str, bool),
        is_refused: bool,
    ) -> (Self, Option<ConfigProblem>) {
        let words = format!("{tls} = \"{NONE}\"");
        let transport = if address.ip().is_loopback() {
            EndpointTransport::ThisMachine
        } else if is_said {
            EndpointTransport::InClear(words)
        } else {
            let remedy = format!(
                "serves other machines in clear, so anyone on the network path could read and change the data: listen on 127.0.0.1 \
                 behind a proxy with TLS, or add {words} if you accept that"
            );
            EndpointTransport::Unsaid { remedy, is_refused }
        };
        let door = Self { place, ..Self::new(key, address.to_string(), transport) };
        let refusal = door.unaccepted_risk().filter(|(_, is_refused)| *is_refused).map(|(problem, _)| problem);
        (door, refusal)
    }

    fn new(key: &str, address: String, transport: EndpointTransport) -> Self {
        Self { place: "here".to_owned(), key: key.to_owned(), address, transport }
    }
}

pub(super) fn no_tls(text: &str) -> Result<(), String> {
    let right = "must be \"none\": TLS is up to the proxy in front, not to Tidings";
    (text == NONE).then_some(()).ok_or_else(|| right.to_owned())
}
