//! Network endpoints: connections that Tidings opens, addresses it listens on, and how the traffic is
//! protected (rule 53). `tidings config check` shows them, with the same errors and warnings as the start.

use std::net::SocketAddr;

use temporalio_client::ConnectionOptions;
use tidings_model::{RelayUrl, host_name::is_this_machine, relay_url::Tls, settings::ServiceUrl};
use tidings_store::PostgresTransport;

use super::problem::Problem;

/// Tidings has no certificate, so a proxy with TLS should stand in front.
const NONE: &str = "none";

#[derive(Clone, Debug)]
pub struct Door {
    place: String,
    key: String,
    address: String,
    transport: Transport,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Transport {
    Tls,
    ThisMachine,
    /// Unprotected, and the operator accepted this with the given setting, e.g. `sslmode=disable`.
    InClear(String),
    Unsaid {
        remedy: String,
        is_refused: bool,
    },
}

impl Door {
    /// Returns the problem if no setting accepts the missing protection, and `true` if it prevents the start.
    fn unsaid(&self) -> Option<(Problem, bool)> {
        let Transport::Unsaid { remedy, is_refused } = &self.transport else { return None };
        let problem = Problem::new(self.place.clone(), self.key.clone(), remedy.clone());
        Some((problem.of(self.address.clone()), *is_refused))
    }

    pub(super) fn warning(&self) -> Option<Problem> {
        self.unsaid().filter(|(_, is_refused)| !is_refused).map(|(problem, _)| problem)
    }

    /// Formats a table row: the key and e.g. `10.0.0.7:8081, in clear by gateway.api_tls = "none"`.
    pub(super) fn row(&self) -> (String, String) {
        let address = &self.address;
        let words = match &self.transport {
            Transport::Tls => format!("{address}, TLS"),
            Transport::ThisMachine => format!("{address}, this machine"),
            Transport::InClear(words) => format!("{address}, in clear by {words}"),
            Transport::Unsaid { .. } => format!("{address}, without words for it"),
        };
        (self.key.clone(), words)
    }

    pub(super) fn relay(name: &str, relay: &RelayUrl) -> Self {
        let transport = match relay.tls {
            Tls::Implicit | Tls::Required => Transport::Tls,
            Tls::Opportunistic | Tls::None if relay.is_loopback() => Transport::ThisMachine,
            Tls::Opportunistic => Transport::InClear("tls=opportunistic, where the relay has no TLS".to_owned()),
            Tls::None => Transport::InClear("tls=none".to_owned()),
        };
        Self::new(&format!("relay.{name}"), relay.to_string(), transport)
    }

    /// An unprotected connection was accepted by a setting, because [`tidings_client::load`] rejects others.
    pub(super) fn temporal(address: String, connection: &ConnectionOptions) -> Option<Self> {
        let transport = match &connection.tls_options {
            Some(_) => Transport::Tls,
            None if is_this_machine(connection.target.host_str()?) => Transport::ThisMachine,
            None => Transport::InClear("TEMPORAL_TLS=false".to_owned()),
        };
        Some(Self::new("temporal", address, transport))
    }

    pub(super) fn issuer(issuer: &str) -> Self {
        let transport = if issuer.starts_with("https:") { Transport::Tls } else { Transport::ThisMachine };
        Self::new("gateway.oidc.issuer", issuer.to_owned(), transport)
    }

    pub(super) fn service(key: &str, url: &ServiceUrl) -> Self {
        // A `ServiceUrl` with http is always on this machine.
        let transport = if url.is_https() { Transport::Tls } else { Transport::ThisMachine };
        Self::new(key, url.url()[..url::Position::BeforePath].to_owned(), transport)
    }

    pub(super) fn postgres(place: &str, key: &str, url: &str, shown: String) -> Option<Self> {
        let transport = match PostgresTransport::of(url)? {
            PostgresTransport::ThisMachine => Transport::ThisMachine,
            PostgresTransport::Tls => Transport::Tls,
            PostgresTransport::InClear => Transport::InClear("sslmode=disable".to_owned()),
            PostgresTransport::TlsByDefault => Transport::Unsaid {
                remedy: "has no sslmode, so that Tidings demands TLS and takes any certificate; add sslmode=verify-full, or \
                         sslmode=disable if everyone on the way may read and change what goes there"
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
    ) -> (Self, Option<Problem>) {
        let words = format!("{tls} = \"{NONE}\"");
        let transport = if address.ip().is_loopback() {
            Transport::ThisMachine
        } else if is_said {
            Transport::InClear(words)
        } else {
            let remedy = format!(
                "serves other machines in clear, and everyone on the way could read and change what goes through: listen on 127.0.0.1 \
                 behind a proxy with TLS, or add {words} if you accept that"
            );
            Transport::Unsaid { remedy, is_refused }
        };
        let door = Self { place, ..Self::new(key, address.to_string(), transport) };
        let refusal = door.unsaid().filter(|(_, is_refused)| *is_refused).map(|(problem, _)| problem);
        (door, refusal)
    }

    fn new(key: &str, address: String, transport: Transport) -> Self {
        Self { place: "here".to_owned(), key: key.to_owned(), address, transport }
    }
}

pub(super) fn no_tls(text: &str) -> Result<(), String> {
    let right = "is not \"none\", the one word here: a proxy in front has TLS, not Tidings";
    (text == NONE).then_some(()).ok_or_else(|| right.to_owned())
}
