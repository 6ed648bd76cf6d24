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

use tidings_gateway::webhooks::RelayWebhook;
use tidings_mail::dkim::{DkimSigner, StreamSigners, TenantSigners};
use tidings_model::{
    foreign_text::decode_file,
    inbox::InboxLimits,
    settings::{self, DigestSettings, FormerNames, RecipientPages, SenderIdentity, Settings, UnknownRecipients},
    subscription::WebhookSubscription,
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
pub use directory::DirectoryConfig;
pub use dkim::DkimConfig;
use door::NetworkEndpoint;
use file::{RawConfig, RecipientLimits};
pub(crate) use former::former_names;
pub use gateway::GatewayConfig;
pub(crate) use keys::{ConfigTable, ConfigValue, ToConfigValue, ToTable, unless_empty};
pub use keys::{SettingOrigin, SettingOrigins};
pub use problem::{ConfigProblem, EnvironmentReader};
pub use relay::RelayConfig;
pub use retention::RetentionConfig;
pub(crate) use secret::database_url;
pub use secret::{LinkKeysConfig, SecretUrl};
pub use stream::{StreamConfig, StreamsConfig};
pub(crate) use subscribe::show_subscription;
pub(crate) use temporal::no_namespace;
pub use temporal::{TemporalConfig, TemporalConnectError};
pub use tenant::TenantConfig;

pub const DEFAULT_PATH: &str = "tidings.toml";

#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://FILE` or `postgres://...`.
    pub database_url: SecretUrl,
    pub relays: BTreeMap<String, RelayConfig>,
    pub streams: StreamsConfig,
    /// Where a worker serves `GET /metrics`.
    pub metrics_listen: Option<SocketAddr>,
    /// Maximum workflows in memory. `None` means as many as the process has memory for.
    pub cached_workflows: Option<usize>,
    /// Overrides and extends the embedded ones.
    pub templates: Option<PathBuf>,
    pub task_queue: String,
    pub sender: SenderIdentity,
    /// Default for both streams.
    pub dkim: Option<DkimConfig>,
    pub digests: BTreeMap<String, DigestSettings>,
    /// Only tenants with their own table.
    pub tenants: BTreeMap<String, TenantConfig>,
    pub names: FormerNames,
    /// Limits across all digest types.
    pub recipients: RecipientLimits,
    /// Set if recipients come from the team's own directory.
    pub directory: Option<DirectoryConfig>,
    pub retention: RetentionConfig,
    pub gateway: GatewayConfig,
    pub inbox: InboxLimits,
    pub subscriptions: Vec<WebhookSubscription>,
    pub link_keys: LinkKeysConfig,
    pub temporal: TemporalConfig,
    /// Fingerprint per table, for comparing processes.
    pub sections: BTreeMap<String, String>,
    listeners: Vec<NetworkEndpoint>,
    /// Set if other users on the machine can read a password in the file.
    exposed_password: Option<ConfigProblem>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {reason}; --config or TIDINGS_CONFIG names the configuration file", path.display())]
    Unreadable { path: PathBuf, reason: io::Error },
    #[error("{}", problem::format_lines(.0))]
    Wrong(Vec<ConfigProblem>),
}

impl ConfigError {
    fn unless_none(problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Wrong(problems)) }
    }
}

impl Config {
    /// DKIM keys come from [`Config::signers`].
    ///
    /// # Errors
    /// The environment lacks a relay's address, a key, or a secret.
    pub fn settings(&self, unknown_recipients: UnknownRecipients) -> Result<Settings, ConfigError> {
        let relays = self.named_relays().filter_map(|(_, relay)| relay.settings().err());
        let services = self.seen_problems().into_iter().chain(self.directory_problem());
        let services = services.chain(self.subscription_problems());
        let problems: Vec<_> = relays.chain(self.key_problems()).chain(services).collect();
        ConfigError::unless_none(problems)?;
        Ok(Settings { unknown_recipients, ..self.unchecked_settings() })
    }

    /// Includes tenants with different keys.
    ///
    /// # Errors
    /// Each key that cannot be read or cannot sign. The error never shows the key.
    pub fn signers(&self) -> Result<TenantSigners, ConfigError> {
        let mut problems = Vec::new();
        let mut signer = |stream: &StreamConfig| -> Option<DkimSigner> {
            let signer = stream.dkim.as_ref().map(DkimConfig::signer).transpose();
            signer.map_err(|problem| problems.push(problem)).ok().flatten()
        };
        let mut both = |streams: &StreamsConfig| {
            let (bulk, transactional) = (signer(&streams.bulk), signer(&streams.transactional));
            StreamSigners { bulk, transactional }
        };
        let keys = |streams: &StreamsConfig| streams.both().map(|stream| stream.dkim.clone());
        let differs = |tenant: &TenantConfig| keys(&tenant.streams) != keys(&self.streams);
        let general = both(&self.streams);
        let tenants = self.tenants.iter().filter(|(_, tenant)| differs(tenant));
        let tenants = tenants.flat_map(|(name, tenant)| {
            let signers = both(&tenant.streams);
            self.names.tenant_names(name).into_iter().map(move |name| (name, signers.clone()))
        });
        let tenants = tenants.collect();
        ConfigError::unless_none(problem::distinct(problems))?;
        Ok(TenantSigners { general, tenants })
    }

    /// Only tenants with a table are found.
    ///
    /// # Errors
    /// There is no such table. The message lists the existing ones.
    pub fn tenant(&self, name: &str) -> Result<(&String, &TenantConfig), String> {
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

    fn every_stream(&self) -> impl Iterator<Item = &StreamConfig> {
        let tenants = self.tenants.values().map(|tenant| &tenant.streams);
        [&self.streams].into_iter().chain(tenants).flat_map(StreamsConfig::both)
    }

    /// For commands that send nothing: relays without an address are left out.
    #[must_use]
    pub fn unchecked_settings(&self) -> Settings {
        let relays = self.named_relays().filter_map(|(name, relay)| Some((name.clone(), relay.settings().ok()?)));
        Settings {
            digests: self.digests.clone(),
            tenants: self.tenants.iter().map(|(name, tenant)| (name.clone(), tenant.settings())).collect(),
            names: self.names.clone(),
            cap: self.recipients.cap,
            on_cap: self.recipients.on_cap,
            soft_bounces: self.recipients.soft_bounces,
            relays: relays.collect(),
            reports_for: self.relays.iter().map(|(name, relay)| (name.clone(), relay.other_names())).collect(),
            relays_were: self
                .relays
                .iter()
                .map(|(name, relay)| (name.clone(), relay.former_names().to_vec()))
                .collect(),
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
    pub fn check_gateway(&self) -> Result<(), ConfigError> {
        let missing = self.gateway.pages.public_url.is_none().then(|| self.gateway.missing_address());
        ConfigError::unless_none(missing.into_iter().chain(self.key_problems()).collect())
    }

    /// A configured gateway needs a public address.
    #[must_use]
    pub fn gateway_problem(&self) -> Option<ConfigProblem> {
        self.gateway.address_problem()
    }

    /// Finds unreadable keys, and return paths and links without keys. Commands that send nothing work
    /// without them.
    #[must_use]
    pub fn key_problems(&self) -> Vec<ConfigProblem> {
        if let Some(unreadable) = self.link_keys.problem() {
            return vec![unreadable];
        }
        let return_paths = self.every_stream().filter_map(|stream| stream.return_path_problem(self.link_keys.keys()));
        problem::distinct(return_paths.chain(self.gateway.key_problems(self.link_keys.keys().is_some())))
    }

    /// Finds `seen_url` services without their secret.
    #[must_use]
    pub fn seen_problems(&self) -> Vec<ConfigProblem> {
        let problem = |(_, digest): (_, &DigestSettings)| digest::seen_problem(digest.seen.as_ref()?);
        problem::distinct(self.digest_tables().filter_map(problem))
    }

    /// Set if the environment lacks the secret or address of the directory.
    #[must_use]
    pub fn directory_problem(&self) -> Option<ConfigProblem> {
        self.directory.as_ref().and_then(DirectoryConfig::unset_problem)
    }

    /// This opens no connection.
    ///
    /// # Errors
    /// The environment lacks its secret or address.
    pub fn team_directory(&self) -> Result<Option<Arc<TeamDirectory>>, ConfigError> {
        let source = self.directory.as_ref().map(DirectoryConfig::source).transpose();
        let source = source.map_err(|problem| ConfigError::Wrong(vec![problem]))?;
        Ok(source.map(|source| Arc::new(TeamDirectory::new(source).with_names(self.names.clone()))))
    }

    /// Also checks the query. An unreachable database is only a problem, because it may come back.
    ///
    /// # Errors
    /// The query is wrong, or see [`Config::team_directory`].
    pub async fn asked_directory(&self) -> Result<(Option<Arc<TeamDirectory>>, Option<ConfigProblem>), ConfigError> {
        let made = self.team_directory()?;
        if let (Some(directory), Some(asked)) = (&self.directory, &made)
            && let Err(wrong) = asked.check().await
        {
            let problem = directory.wrong_query(&wrong);
            return match wrong {
                WrongQuery::Wrong(_) => Err(ConfigError::Wrong(vec![problem])),
                WrongQuery::Away(_) => Ok((made, Some(problem))),
            };
        }
        Ok((made, None))
    }

    /// Like [`Config::asked_directory`], but logs the problem.
    ///
    /// # Errors
    /// See [`Config::asked_directory`].
    pub async fn checked_directory(&self) -> Result<Option<Arc<TeamDirectory>>, ConfigError> {
        let (made, away) = self.asked_directory().await?;
        if let Some(problem) = away {
            tracing::warn!(%problem, "the query of the team's directory is not checked");
        }
        Ok(made)
    }

    #[must_use]
    pub fn subscription_problems(&self) -> Vec<ConfigProblem> {
        self.subscriptions.iter().filter_map(subscribe::secret_problem).collect()
    }

    /// These should not stop Tidings.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigProblem> {
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
    pub fn door_warnings(&self) -> Vec<ConfigProblem> {
        self.doors().iter().filter_map(NetworkEndpoint::warning).collect()
    }

    /// The address and its protection, by key.
    #[must_use]
    pub fn doors_in_words(&self) -> BTreeMap<String, String> {
        self.doors().iter().map(NetworkEndpoint::table_row).collect()
    }

    /// Queries name servers if it is unclear how a connection travels.
    fn doors(&self) -> Vec<NetworkEndpoint> {
        let mut doors = self.listeners.clone();
        let relays = self.named_relays();
        doors.extend(
            relays.filter_map(|(name, relay)| Some(NetworkEndpoint::relay(name, &relay.settings().ok()?.relay))),
        );
        doors.extend(NetworkEndpoint::temporal(self.temporal.address(), &self.temporal.connection));
        let postgres = |place: &str, key: &str, url: &SecretUrl| match url.sqlite_file() {
            Some(_) => None,
            None => NetworkEndpoint::postgres(place, key, url.reveal(), url.to_string()),
        };
        doors.extend(postgres("here", "database_url", &self.database_url));
        match &self.directory {
            Some(DirectoryConfig::Service { url, .. }) => {
                doors.push(NetworkEndpoint::service("directory.url", url.service()));
            }
            Some(DirectoryConfig::Query { database_url: Some(url), place, .. }) => {
                doors.extend(postgres(place, "directory.database_url", url));
            }
            _ => {}
        }
        let seen = |(table, digest): (String, &DigestSettings)| {
            Some(NetworkEndpoint::service(&format!("{table}.seen_url"), &digest.seen.as_ref()?.url))
        };
        doors.extend(self.digest_tables().filter_map(seen));
        let subscriptions = self.subscriptions.iter();
        doors.extend(
            subscriptions.map(|one| NetworkEndpoint::service(&format!("subscribe.{}.url", one.name), &one.url)),
        );
        doors.extend(self.gateway.oidc.iter().map(|trust| NetworkEndpoint::issuer(&trust.issuer)));
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
    fn without_unsubscribing(&self) -> Option<ConfigProblem> {
        let RecipientPages { public_url, unsubscribe, .. } = &self.gateway.pages;
        let has_links = public_url.is_some() || unsubscribe.is_some();
        let problem = "is missing, so that digests go out without an unsubscribe link; write the address of the gateway, or \
                       gateway.unsubscribe_url with that of a page of your own";
        (!has_links && !self.digests.is_empty()).then(|| ConfigProblem::new("default", "gateway.public_url", problem))
    }

    /// Ignores the listeners in the file.
    pub(crate) fn listen_on_this_machine(&mut self, listen: SocketAddr, api: SocketAddr, public_url: String) {
        self.gateway.listen_on_this_machine(listen, api, public_url);
        self.listeners.clear();
    }

    /// Sends everything through this relay, unsigned. Webhooks stay as they are.
    pub fn send_by(&mut self, relay: RelayConfig) {
        let relay = match self.relays.get(relay::DEFAULT) {
            Some(former) => relay.with_webhook_of(former),
            None => relay,
        };
        self.relays.insert(relay::DEFAULT.to_owned(), relay);
        self.dkim = None;
        let tenants = self.tenants.values_mut().map(|tenant| &mut tenant.streams);
        for StreamsConfig { bulk, transactional } in [&mut self.streams].into_iter().chain(tenants) {
            for stream in [bulk, transactional] {
                stream.settings.relays = vec![relay::DEFAULT.to_owned()];
                stream.dkim = None;
            }
        }
    }

    /// Relays used by a stream, general or a tenant's.
    pub fn named_relays(&self) -> impl Iterator<Item = (&String, &RelayConfig)> {
        let used = |name: &String| self.every_stream().any(|stream| stream.settings.relays.contains(name));
        self.relays.iter().filter(move |(name, _)| used(name))
    }

    /// By relay name.
    ///
    /// # Errors
    /// The environment lacks a webhook's secret.
    pub fn webhooks(&self) -> Result<BTreeMap<String, RelayWebhook>, ConfigError> {
        let (mut hooks, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, relay) in &self.relays {
            match relay.webhook() {
                Ok(hook) => hooks.extend(hook.map(|hook| (name.clone(), hook))),
                Err(problem) => problems.push(problem),
            }
        }
        ConfigError::unless_none(problems).map(|()| hooks)
    }

    /// Returns a problem for each webhook without a secret.
    pub fn remove_unready_webhooks(&mut self) -> Vec<ConfigProblem> {
        self.relays.values_mut().filter_map(RelayConfig::remove_unready_webhook).collect()
    }

    /// Loads `path`, or [`DEFAULT_PATH`] if it exists, and the environment.
    ///
    /// # Errors
    /// The file cannot be read, or has problems. The error lists them all.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load_with(path, TemporalConfig::load())
    }

    /// Like [`Config::load`], with this connection to Temporal.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_with(
        path: Option<&Path>,
        temporal: Result<TemporalConfig, ConfigProblem>,
    ) -> Result<Self, ConfigError> {
        let place = path.unwrap_or(Path::new(DEFAULT_PATH));
        let text = match fs::read(place).and_then(decode_file) {
            Ok(text) => text,
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(reason) => return Err(ConfigError::Unreadable { path: place.to_owned(), reason }),
        };
        // A value that is not UTF-8 should not look missing, so the error can name its variable.
        let environment = |name: &str| Some(env::var_os(name)?.to_string_lossy().into_owned());
        Self::read_with(place, &text, &environment, temporal)
    }

    /// Requires a sender, unless the relay is on this machine.
    ///
    /// # Errors
    /// The sender or a relay's address is missing.
    pub fn ready_to_send(self) -> Result<Self, ConfigError> {
        let streams = self.every_stream().map(|stream| &stream.settings);
        let relays: BTreeMap<_, _> = self.named_relays().map(|(name, relay)| (name, relay.settings())).collect();
        let missing = relays.values().filter_map(|relay| relay.clone().err());
        let senders = |stream: &settings::StreamSettings| {
            let relays = stream.relays.iter().filter_map(|name| relays.get(name)?.as_ref().ok());
            relays.filter_map(|relay| stream::default_sender_problem(&stream.sender, relay)).collect::<Vec<_>>()
        };
        ConfigError::unless_none(problem::distinct(missing.chain(streams.flat_map(senders)))).map(|()| self)
    }

    /// Parses `text` from the file `place`.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn parse_text(place: &Path, text: &str, environment: EnvironmentReader<'_>) -> Result<Self, ConfigError> {
        Self::read_with(place, text, environment, TemporalConfig::load())
    }

    fn read_with(
        place: &Path,
        text: &str,
        environment: EnvironmentReader<'_>,
        temporal: Result<TemporalConfig, ConfigProblem>,
    ) -> Result<Self, ConfigError> {
        let mut checks = checks::Checks::new(place, text, environment);
        let file = problem::parse_file::<RawConfig>(place, text, &mut checks.problems);
        match file.and_then(|file| file.into_config(&mut checks, temporal)) {
            Some(config) if checks.problems.is_empty() => Ok(config),
            _ => Err(ConfigError::Wrong(checks.problems)),
        }
    }
}
