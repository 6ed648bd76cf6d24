//! The configuration: `tidings.toml`, overridden by the environment.
//!
//! This module checks every value once and reports all problems together, so a [`Config`] is always valid.

use std::{
    collections::BTreeMap,
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tidings_gateway::webhooks::Hook;
use tidings_mail::dkim::{Dkim, Signers, StreamSigners};
use tidings_model::{
    foreign_text::decode_file,
    inbox::Limits,
    settings::{self, DigestSettings, FormerNames, Pages, Sender, Settings, UnknownRecipients},
    subscription::Subscription,
    zone_data,
};
use tidings_services::TeamDirectory;
use tidings_store::WrongQuery;

mod category;
mod checks;
mod digest;
mod directory;
mod dkim;
mod door;
mod file;
mod former;
mod gateway;
mod keys;
mod problem;
mod relay;
mod retention;
mod secret;
mod sections;
mod stream;
mod subscribe;
mod temporal;
mod tenant;
#[cfg(test)]
mod tests;

pub(crate) use digest::show as show_digest;
pub use directory::Directory;
pub use dkim::DkimConfig;
use door::Door;
use file::{RawConfig, Recipients};
pub(crate) use former::was;
pub use gateway::Gateway;
pub use keys::{Origin, Origins};
pub(crate) use keys::{Show, Shown, Table, ToTable, unless_empty};
pub use problem::{Environment, Problem};
pub use relay::Relay;
pub use retention::Retention;
pub(crate) use secret::database_url;
pub use secret::{LinkKeysConfig, SecretUrl};
pub use stream::{Stream, Streams};
pub(crate) use subscribe::show as show_subscription;
pub(crate) use temporal::no_namespace;
pub use temporal::{Temporal, Unreachable};
pub use tenant::Tenant;

pub const DEFAULT_PATH: &str = "tidings.toml";

#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://FILE` or `postgres://...`.
    pub database_url: SecretUrl,
    pub relays: BTreeMap<String, Relay>,
    pub streams: Streams,
    /// Where a worker serves `GET /metrics`.
    pub metrics_listen: Option<SocketAddr>,
    /// Maximum workflows in memory. `None` means as many as the process has memory for.
    pub cached_workflows: Option<usize>,
    /// Overrides and extends the embedded ones.
    pub templates: Option<PathBuf>,
    pub task_queue: String,
    pub sender: Sender,
    /// Default for both streams.
    pub dkim: Option<DkimConfig>,
    pub digests: BTreeMap<String, DigestSettings>,
    /// Only tenants with their own table.
    pub tenants: BTreeMap<String, Tenant>,
    pub names: FormerNames,
    /// Limits across all digest types.
    pub recipients: Recipients,
    /// Set if recipients come from the team's own directory.
    pub directory: Option<Directory>,
    pub retention: Retention,
    pub gateway: Gateway,
    pub inbox: Limits,
    pub subscriptions: Vec<Subscription>,
    pub link_keys: LinkKeysConfig,
    pub temporal: Temporal,
    /// Fingerprint per table, for comparing processes.
    pub sections: BTreeMap<String, String>,
    listeners: Vec<Door>,
    /// Set if other users on the machine can read a password in the file.
    exposed_password: Option<Problem>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {reason}; --config or TIDINGS_CONFIG names the configuration file", path.display())]
    Unreadable { path: PathBuf, reason: io::Error },
    #[error("{}", problem::lines(.0))]
    Wrong(Vec<Problem>),
}

impl Error {
    fn unless_none(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Wrong(problems)) }
    }
}

impl Config {
    /// DKIM keys come from [`Config::signers`].
    ///
    /// # Errors
    /// The environment lacks a relay's address, a key, or a secret.
    pub fn settings(&self, unknown_recipients: UnknownRecipients) -> Result<Settings, Error> {
        let relays = self.named_relays().filter_map(|(_, relay)| relay.settings().err());
        let services = self.seen_problems().into_iter().chain(self.directory_problem());
        let services = services.chain(self.subscription_problems());
        let problems: Vec<_> = relays.chain(self.key_problems()).chain(services).collect();
        Error::unless_none(problems)?;
        Ok(Settings { unknown_recipients, ..self.unsigned() })
    }

    /// Includes tenants with different keys.
    ///
    /// # Errors
    /// Each key that cannot be read or cannot sign. The error never shows the key.
    pub fn signers(&self) -> Result<Signers, Error> {
        let mut problems = Vec::new();
        let mut signer = |stream: &Stream| -> Option<Dkim> {
            let signer = stream.dkim.as_ref().map(DkimConfig::signer).transpose();
            signer.map_err(|problem| problems.push(problem)).ok().flatten()
        };
        let mut both = |streams: &Streams| {
            let (bulk, transactional) = (signer(&streams.bulk), signer(&streams.transactional));
            StreamSigners { bulk, transactional }
        };
        let keys = |streams: &Streams| streams.both().map(|stream| stream.dkim.clone());
        let differs = |tenant: &Tenant| keys(&tenant.streams) != keys(&self.streams);
        let general = both(&self.streams);
        let tenants = self.tenants.iter().filter(|(_, tenant)| differs(tenant));
        let tenants = tenants.flat_map(|(name, tenant)| {
            let signers = both(&tenant.streams);
            self.names.tenants(name).into_iter().map(move |name| (name, signers.clone()))
        });
        let tenants = tenants.collect();
        Error::unless_none(problem::distinct(problems))?;
        Ok(Signers { general, tenants })
    }

    /// Only tenants with a table are found.
    ///
    /// # Errors
    /// There is no such table. The message lists the existing ones.
    pub fn tenant(&self, name: &str) -> Result<(&String, &Tenant), String> {
        self.tenants.get_key_value(self.names.tenant(name)).ok_or_else(|| {
            let names: Vec<_> = self.tenants.keys().map(String::as_str).collect();
            let there = if names.is_empty() {
                "no tenant has one".to_owned()
            } else {
                format!("there are: {}", names.join(", "))
            };
            format!("there is no [tenant.{name}], so that the general settings apply; {there}")
        })
    }

    fn every_stream(&self) -> impl Iterator<Item = &Stream> {
        let tenants = self.tenants.values().map(|tenant| &tenant.streams);
        [&self.streams].into_iter().chain(tenants).flat_map(Streams::both)
    }

    /// For commands that send nothing: relays without an address are left out.
    #[must_use]
    pub fn unsigned(&self) -> Settings {
        let relays = self.named_relays().filter_map(|(name, relay)| Some((name.clone(), relay.settings().ok()?)));
        Settings {
            digests: self.digests.clone(),
            tenants: self.tenants.iter().map(|(name, tenant)| (name.clone(), tenant.settings())).collect(),
            names: self.names.clone(),
            cap: self.recipients.cap,
            capped: self.recipients.capped,
            soft_bounces: self.recipients.soft_bounces,
            relays: relays.collect(),
            reports_for: self.relays.iter().map(|(name, relay)| (name.clone(), relay.other_names())).collect(),
            relays_were: self.relays.iter().map(|(name, relay)| (name.clone(), relay.was().to_vec())).collect(),
            streams: self.streams.settings(),
            pages: self.gateway.pages.clone(),
            link_keys: self.link_keys.keys().cloned(),
            unknown_recipients: UnknownRecipients::Wait,
        }
    }

    /// Checks if the gateway can serve.
    ///
    /// # Errors
    /// The public address or the signing keys are missing.
    pub fn serves(&self) -> Result<(), Error> {
        let missing = self.gateway.pages.public_url.is_none().then(|| self.gateway.missing_address());
        Error::unless_none(missing.into_iter().chain(self.key_problems()).collect())
    }

    /// A configured gateway needs a public address.
    #[must_use]
    pub fn gateway_problem(&self) -> Option<Problem> {
        self.gateway.address_problem()
    }

    /// Finds unreadable keys, and return paths and links without keys. Commands that send nothing work
    /// without them.
    #[must_use]
    pub fn key_problems(&self) -> Vec<Problem> {
        if let Some(unreadable) = self.link_keys.problem() {
            return vec![unreadable];
        }
        let return_paths = self.every_stream().filter_map(|stream| stream.return_path_problem(self.link_keys.keys()));
        problem::distinct(return_paths.chain(self.gateway.key_problems(self.link_keys.keys().is_some())))
    }

    /// Finds `seen_url` services without their secret.
    #[must_use]
    pub fn seen_problems(&self) -> Vec<Problem> {
        let problem = |(_, digest): (_, &DigestSettings)| digest::seen_problem(digest.seen.as_ref()?);
        problem::distinct(self.digest_tables().filter_map(problem))
    }

    /// Set if the environment lacks the secret or address of the directory.
    #[must_use]
    pub fn directory_problem(&self) -> Option<Problem> {
        self.directory.as_ref().and_then(Directory::problem)
    }

    /// This opens no connection.
    ///
    /// # Errors
    /// The environment lacks its secret or address.
    pub fn team_directory(&self) -> Result<Option<Arc<TeamDirectory>>, Error> {
        let source = self.directory.as_ref().map(Directory::source).transpose();
        let source = source.map_err(|problem| Error::Wrong(vec![problem]))?;
        Ok(source.map(|source| Arc::new(TeamDirectory::new(source).with_names(self.names.clone()))))
    }

    /// Also checks the query. An unreachable database is only a problem, because it may come back.
    ///
    /// # Errors
    /// The query is wrong, or see [`Config::team_directory`].
    pub async fn asked_directory(&self) -> Result<(Option<Arc<TeamDirectory>>, Option<Problem>), Error> {
        let made = self.team_directory()?;
        if let (Some(directory), Some(asked)) = (&self.directory, &made)
            && let Err(wrong) = asked.check().await
        {
            let problem = directory.wrong_query(&wrong);
            return match wrong {
                WrongQuery::Wrong(_) => Err(Error::Wrong(vec![problem])),
                WrongQuery::Away(_) => Ok((made, Some(problem))),
            };
        }
        Ok((made, None))
    }

    /// Like [`Config::asked_directory`], but logs the problem.
    ///
    /// # Errors
    /// See [`Config::asked_directory`].
    pub async fn checked_directory(&self) -> Result<Option<Arc<TeamDirectory>>, Error> {
        let (made, away) = self.asked_directory().await?;
        if let Some(problem) = away {
            tracing::warn!(%problem, "the query of the team's directory is not checked");
        }
        Ok(made)
    }

    #[must_use]
    pub fn subscription_problems(&self) -> Vec<Problem> {
        self.subscriptions.iter().filter_map(subscribe::problem).collect()
    }

    /// These should not stop Tidings.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let signatures = self.dkim.iter().chain(self.every_stream().filter_map(|stream| stream.dkim.as_ref()));
        // Most tenants share the general key, so we read it once.
        let mut keys: Vec<&DkimConfig> = Vec::new();
        for signature in signatures {
            if !keys.iter().any(|known| known.has_keys_of(signature)) {
                keys.push(signature);
            }
        }
        let mut warnings = problem::distinct(keys.into_iter().flat_map(DkimConfig::warnings));
        warnings.extend(self.link_keys.warning());
        warnings.extend(self.database_url.warning());
        warnings.extend(self.retention.warning());
        warnings.extend(retention::short_retention(self.retention.settings.events, self.digest_tables()));
        warnings.extend(self.streams.warning());
        warnings.extend(self.exposed_password.clone());
        warnings.extend(self.named_relays().filter_map(|(name, relay)| relay.token_warning(name)));
        warnings.extend(self.without_unsubscribing());
        warnings.extend(self.gateway.proxy_warning());
        warnings
    }

    /// Insecure connections and listeners. This queries name servers.
    #[must_use]
    pub fn door_warnings(&self) -> Vec<Problem> {
        self.doors().iter().filter_map(Door::warning).collect()
    }

    /// The address and its protection, by key.
    #[must_use]
    pub fn doors_in_words(&self) -> BTreeMap<String, String> {
        self.doors().iter().map(Door::row).collect()
    }

    /// Queries name servers if it is unclear how a connection travels.
    fn doors(&self) -> Vec<Door> {
        let mut doors = self.listeners.clone();
        let relays = self.named_relays();
        doors.extend(relays.filter_map(|(name, relay)| Some(Door::relay(name, &relay.settings().ok()?.relay))));
        doors.extend(Door::temporal(self.temporal.address(), &self.temporal.connection));
        let postgres = |place: &str, key: &str, url: &SecretUrl| match url.file() {
            Some(_) => None,
            None => Door::postgres(place, key, url.reveal(), url.to_string()),
        };
        doors.extend(postgres("here", "database_url", &self.database_url));
        match &self.directory {
            Some(Directory::Service { url, .. }) => doors.push(Door::service("directory.url", url.service())),
            Some(Directory::Query { database_url: Some(url), place, .. }) => {
                doors.extend(postgres(place, "directory.database_url", url));
            }
            _ => {}
        }
        let seen = |(table, digest): (String, &DigestSettings)| {
            Some(Door::service(&format!("{table}.seen_url"), &digest.seen.as_ref()?.url))
        };
        doors.extend(self.digest_tables().filter_map(seen));
        let subscriptions = self.subscriptions.iter();
        doors.extend(subscriptions.map(|one| Door::service(&format!("subscribe.{}.url", one.name), &one.url)));
        doors.extend(self.gateway.oidc.iter().map(|trust| Door::issuer(&trust.issuer)));
        doors
    }

    /// By table key, including `tenant.TENANT.digest.NAME`.
    pub(crate) fn digest_tables(&self) -> impl Iterator<Item = (String, &DigestSettings)> {
        let own = self.digests.iter().map(|(name, digest)| (format!("digest.{name}"), digest));
        let of_tenants = self.tenants.iter().flat_map(|(tenant, settings)| {
            settings.digests.iter().map(move |(name, digest)| (format!("tenant.{tenant}.digest.{name}"), digest))
        });
        own.chain(of_tenants)
    }

    /// This queries name servers.
    pub fn log_warnings(&self) {
        for warning in self.warnings().into_iter().chain(self.door_warnings()) {
            tracing::warn!(%warning, "the configuration works, but is not safe");
        }
        for warning in zone_data().warnings() {
            tracing::warn!(warning, "the zone data needs care");
        }
    }

    /// Gmail, Yahoo and laws require an unsubscribe link in bulk email.
    fn without_unsubscribing(&self) -> Option<Problem> {
        let Pages { public_url, unsubscribe, .. } = &self.gateway.pages;
        let has_links = public_url.is_some() || unsubscribe.is_some();
        let problem = "is missing, so that digests go out without an unsubscribe link; write the address of the gateway, or \
                       gateway.unsubscribe_url with that of a page of your own";
        (!has_links && !self.digests.is_empty()).then(|| Problem::new("default", "gateway.public_url", problem))
    }

    /// Ignores the listeners in the file.
    pub(crate) fn listen_on_this_machine(&mut self, listen: SocketAddr, api: SocketAddr, public_url: String) {
        self.gateway.listen_on_this_machine(listen, api, public_url);
        self.listeners.clear();
    }

    /// Sends everything through this relay, unsigned. Webhooks stay as they are.
    pub fn send_by(&mut self, relay: Relay) {
        let relay = match self.relays.get(relay::DEFAULT) {
            Some(former) => relay.with_webhook_of(former),
            None => relay,
        };
        self.relays.insert(relay::DEFAULT.to_owned(), relay);
        self.dkim = None;
        let tenants = self.tenants.values_mut().map(|tenant| &mut tenant.streams);
        for Streams { bulk, transactional } in [&mut self.streams].into_iter().chain(tenants) {
            for stream in [bulk, transactional] {
                stream.settings.relays = vec![relay::DEFAULT.to_owned()];
                stream.dkim = None;
            }
        }
    }

    /// Relays used by a stream, general or a tenant's.
    pub fn named_relays(&self) -> impl Iterator<Item = (&String, &Relay)> {
        let used = |name: &String| self.every_stream().any(|stream| stream.settings.relays.contains(name));
        self.relays.iter().filter(move |(name, _)| used(name))
    }

    /// By relay name.
    ///
    /// # Errors
    /// The environment lacks a webhook's secret.
    pub fn webhooks(&self) -> Result<BTreeMap<String, Hook>, Error> {
        let (mut hooks, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, relay) in &self.relays {
            match relay.webhook() {
                Ok(hook) => hooks.extend(hook.map(|hook| (name.clone(), hook))),
                Err(problem) => problems.push(problem),
            }
        }
        Error::unless_none(problems).map(|()| hooks)
    }

    /// Returns a problem for each webhook without a secret.
    pub fn remove_unready_webhooks(&mut self) -> Vec<Problem> {
        self.relays.values_mut().filter_map(Relay::remove_unready_webhook).collect()
    }

    /// Loads `path`, or [`DEFAULT_PATH`] if it exists, and the environment.
    ///
    /// # Errors
    /// The file cannot be read, or has problems. The error lists them all.
    pub fn load(path: Option<&Path>) -> Result<Self, Error> {
        Self::load_with(path, Temporal::load())
    }

    /// Like [`Config::load`], with this connection to Temporal.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_with(path: Option<&Path>, temporal: Result<Temporal, Problem>) -> Result<Self, Error> {
        let place = path.unwrap_or(Path::new(DEFAULT_PATH));
        let text = match fs::read(place).and_then(decode_file) {
            Ok(text) => text,
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(reason) => return Err(Error::Unreadable { path: place.to_owned(), reason }),
        };
        // A value that is not UTF-8 should not look missing, so the error can name its variable.
        let environment = |name: &str| Some(env::var_os(name)?.to_string_lossy().into_owned());
        Self::read_with(place, &text, &environment, temporal)
    }

    /// Requires a sender, unless the relay is on this machine.
    ///
    /// # Errors
    /// The sender or a relay's address is missing.
    pub fn ready_to_send(self) -> Result<Self, Error> {
        let streams = self.every_stream().map(|stream| &stream.settings);
        let relays: BTreeMap<_, _> = self.named_relays().map(|(name, relay)| (name, relay.settings())).collect();
        let missing = relays.values().filter_map(|relay| relay.clone().err());
        let senders = |stream: &settings::Stream| {
            let relays = stream.relays.iter().filter_map(|name| relays.get(name)?.as_ref().ok());
            relays.filter_map(|relay| stream::default_sender_problem(&stream.sender, relay)).collect::<Vec<_>>()
        };
        Error::unless_none(problem::distinct(missing.chain(streams.flat_map(senders)))).map(|()| self)
    }

    /// Parses `text` from the file `place`.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn read(place: &Path, text: &str, environment: Environment<'_>) -> Result<Self, Error> {
        Self::read_with(place, text, environment, Temporal::load())
    }

    fn read_with(
        place: &Path,
        text: &str,
        environment: Environment<'_>,
        temporal: Result<Temporal, Problem>,
    ) -> Result<Self, Error> {
        let mut checks = checks::Checks::new(place, text, environment);
        let file = problem::parse::<RawConfig>(place, text, &mut checks.problems);
        match file.and_then(|file| file.check(&mut checks, temporal)) {
            Some(config) if checks.problems.is_empty() => Ok(config),
            _ => Err(Error::Wrong(checks.problems)),
        }
    }
}
