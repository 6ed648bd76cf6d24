//! The doors of an installation: each connection that Tidings opens and each address on which it listens, and what protects what goes
//! through (rule 53). `tidings config check` shows the table; the start refuses what it refuses, and warns of the same.

use std::{collections::BTreeMap, net::SocketAddr};

use tidings_model::{host_name::is_this_machine, relay_url::Tls, settings::ServiceUrl};
use tidings_store::PostgresTransport;
use toml::Spanned;

use super::{
    Config, Directory,
    listen::listen,
    problem::{Checks, Problem},
    secret::SecretUrl,
};

/// The words for a listener without TLS. Tidings has no certificate of its own: a proxy with TLS stands in front.
const NONE: &str = "none";

/// A connection, or an address to listen on.
#[derive(Clone, Debug)]
pub struct Door {
    place: String,
    key: String,
    /// Without credentials.
    address: String,
    transport: Transport,
}

/// What protects what goes through a door.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Transport {
    Tls,
    ThisMachine,
    /// Nothing, by these words of the operator.
    InClear(String),
    /// Not enough, and no words say that this is wanted.
    Unsaid {
        /// The risk and what to write.
        remedy: String,
        is_refused: bool,
    },
}

/// Two keys of a listener: its address, and `tls`.
pub(super) struct ListenerKeys {
    pub listen: &'static str,
    pub tls: &'static str,
    /// A listener with passwords or numbers of everybody is refused without words.
    pub is_refused: bool,
}

impl Door {
    /// The problem of a door that no words allow, and whether it stops Tidings.
    fn unsaid(&self) -> Option<(Problem, bool)> {
        let Transport::Unsaid { remedy, is_refused } = &self.transport else { return None };
        let (place, key, value) = (self.place.clone(), self.key.clone(), self.address.clone());
        Some((Problem { place, key, value, problem: remedy.clone() }, *is_refused))
    }

    /// The warning of a door that no words allow, and that stops nothing.
    pub(super) fn warning(&self) -> Option<Problem> {
        self.unsaid().filter(|(_, is_refused)| !is_refused).map(|(problem, _)| problem)
    }

    /// `10.0.0.7:8081, in clear by gateway.api_tls = "none"`.
    fn in_words(&self) -> String {
        let address = &self.address;
        match &self.transport {
            Transport::Tls => format!("{address}, TLS"),
            Transport::ThisMachine => format!("{address}, this machine"),
            Transport::InClear(words) => format!("{address}, in clear by {words}"),
            Transport::Unsaid { .. } => format!("{address}, without words for it"),
        }
    }

    fn service(key: &str, url: &ServiceUrl) -> Self {
        // One with http is of this machine: another one is no `ServiceUrl`.
        let transport = if url.is_https() { Transport::Tls } else { Transport::ThisMachine };
        Self::new(key, url.url()[..url::Position::BeforePath].to_owned(), transport)
    }

    fn postgres(place: &str, key: &str, url: &SecretUrl) -> Option<Self> {
        if url.file().is_some() {
            return None;
        }
        let transport = match PostgresTransport::of(url.reveal())? {
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
        Some(Self { place: place.to_owned(), ..Self::new(key, url.to_string(), transport) })
    }

    fn new(key: &str, address: String, transport: Transport) -> Self {
        Self { place: "here".to_owned(), key: key.to_owned(), address, transport }
    }
}

impl Checks<'_> {
    /// Parses the address of a listener, and refuses one beyond this machine without words for its lack of TLS.
    pub(super) fn listener(
        &mut self,
        keys: &ListenerKeys,
        listen_on: Option<&Spanned<String>>,
        tls: Option<&Spanned<String>>,
    ) -> Option<SocketAddr> {
        let no_tls = |text: &str| {
            let right = "is not \"none\", the one word here: a proxy in front has TLS, not Tidings";
            (text == NONE).then_some(()).ok_or_else(|| right.to_owned())
        };
        let is_said = self.value(keys.tls, tls, no_tls).is_some();
        let address = self.value(keys.listen, listen_on, listen)?;
        let words = format!("{} = \"{NONE}\"", keys.tls);
        let transport = if address.ip().is_loopback() {
            Transport::ThisMachine
        } else if is_said {
            Transport::InClear(words)
        } else {
            let remedy = format!(
                "serves other machines in clear, and everyone on the way could read and change what goes through: listen on 127.0.0.1 \
                 behind a proxy with TLS, or add {words} if you accept that"
            );
            Transport::Unsaid { remedy, is_refused: keys.is_refused }
        };
        let place = listen_on.map(|raw| self.place_of(raw)).unwrap_or_default();
        let door = Door { place, ..Door::new(keys.listen, address.to_string(), transport) };
        if let Some((problem, true)) = door.unsaid() {
            self.report(problem);
        }
        self.listeners.push(door);
        Some(address)
    }
}

impl Config {
    /// The doors by their keys, in words.
    #[must_use]
    pub fn doors_in_words(&self) -> BTreeMap<String, String> {
        self.doors().into_iter().map(|door| (door.key.clone(), door.in_words())).collect()
    }

    /// Each connection and each listener. Asks name servers about those of which nothing says how they travel.
    pub(super) fn doors(&self) -> Vec<Door> {
        let mut doors = self.listeners.clone();
        doors.extend(self.named_relays().filter_map(|(name, relay)| {
            let relay = relay.settings().ok()?.relay;
            let transport = match relay.tls {
                Tls::Implicit | Tls::Required => Transport::Tls,
                Tls::Opportunistic | Tls::None if relay.is_loopback() => Transport::ThisMachine,
                Tls::Opportunistic => Transport::InClear("tls=opportunistic, where the relay has no TLS".to_owned()),
                Tls::None => Transport::InClear("tls=none".to_owned()),
            };
            Some(Door::new(&format!("relay.{name}"), relay.to_string(), transport))
        }));
        doors.extend(self.temporal_door());
        doors.extend(Door::postgres("here", "database_url", &self.database_url));
        match &self.directory {
            Some(Directory::Service { url, .. }) => doors.push(Door::service("directory.url", url.service())),
            Some(Directory::Query { database_url: Some(url), place, .. }) => {
                doors.extend(Door::postgres(place, "directory.database_url", url));
            }
            _ => {}
        }
        let tenants = self.tenants.iter().flat_map(|(tenant, settings)| {
            settings
                .digests
                .iter()
                .map(move |(name, digest)| (format!("tenant.{tenant}.digest.{name}.seen_url"), digest))
        });
        let digests =
            self.digests.iter().map(|(name, digest)| (format!("digest.{name}.seen_url"), digest)).chain(tenants);
        doors.extend(digests.filter_map(|(key, digest)| Some(Door::service(&key, &digest.seen.as_ref()?.url))));
        doors.extend(
            self.subscriptions.iter().map(|one| Door::service(&format!("subscribe.{}.url", one.name), &one.url)),
        );
        doors.extend(self.gateway.oidc.iter().map(|trust| {
            let transport = if trust.issuer.starts_with("https:") { Transport::Tls } else { Transport::ThisMachine };
            Door::new("gateway.oidc.issuer", trust.issuer.clone(), transport)
        }));
        doors
    }

    /// What is in clear here has words: [`tidings_client::load`] refuses it otherwise.
    fn temporal_door(&self) -> Option<Door> {
        let connection = &self.temporal.connection;
        let transport = match &connection.tls_options {
            Some(_) => Transport::Tls,
            None if is_this_machine(connection.target.host_str()?) => Transport::ThisMachine,
            None => Transport::InClear("TEMPORAL_TLS=false".to_owned()),
        };
        Some(Door::new("temporal", self.temporal.address(), transport))
    }
}
