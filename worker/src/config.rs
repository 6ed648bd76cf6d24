//! The configuration: `tidings.toml`, overridden by the environment.
//!
//! This module checks every value once and reports all problems together. A [`Config`] that exists is valid.

use std::{
    collections::BTreeMap,
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tidings_activities::TeamDirectory;
use tidings_gateway::webhooks::Hook;
use tidings_mail::dkim::Signers;
use tidings_model::{
    inbox::Limits,
    settings::{self, Brand, Cap, DigestSettings, OverLimit, Sender, Settings, UnknownRecipients},
    subscription::Subscription,
};
use tidings_store::WrongQuery;

mod brand;
mod category;
mod digest;
mod directory;
mod dkim;
mod file;
mod gateway;
mod inbox;
mod link_keys;
mod list;
mod listen;
mod mail;
mod oidc;
mod problem;
mod relay;
mod retention;
mod secret;
mod seen;
mod stream;
mod subscribe;
mod suggest;
mod syntax;
mod temporal;
mod tenant;
#[cfg(test)]
mod tests;
mod variable;
mod webhook;

pub use directory::Directory;
pub use dkim::DkimConfig;
use file::RawConfig;
pub use gateway::Gateway;
pub use link_keys::LinkKeysConfig;
pub use problem::{Environment, Problem};
pub use relay::Relay;
pub use retention::{Retention, age_text};
pub use secret::SecretUrl;
pub use stream::{Stream, Streams};
pub use temporal::{Temporal, Unreachable};

/// The default path of the configuration.
pub const DEFAULT_PATH: &str = "tidings.toml";

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://FILE` or `postgres://...`.
    pub database_url: SecretUrl,
    /// The relays, by name.
    pub relays: BTreeMap<String, Relay>,
    /// The two streams, each with its relays, retries and sender.
    pub streams: Streams,
    /// The address on which a worker answers `GET /metrics`, if any.
    pub metrics_listen: Option<SocketAddr>,
    /// The folder of templates that override and extend the embedded ones.
    pub templates: Option<PathBuf>,
    /// The task queue of the digests.
    pub task_queue: String,
    /// The default sender of both streams.
    pub sender: Sender,
    /// The default signature of both streams.
    pub dkim: Option<DkimConfig>,
    /// The digest types, by name.
    pub digests: BTreeMap<String, DigestSettings>,
    /// The digest types that differ for a tenant, by tenant.
    pub tenants: BTreeMap<String, BTreeMap<String, DigestSettings>>,
    /// The looks of recipients' pages, by tenant.
    pub brands: BTreeMap<String, Brand>,
    /// The limit on a recipient's digests of all types.
    pub cap: Option<Cap>,
    /// The treatment of a window that the cap holds back.
    pub capped: OverLimit,
    /// Consecutive soft bounces that suppress an address.
    pub soft_bounces: u32,
    /// The team's own directory, if recipients come from there.
    pub directory: Option<Directory>,
    /// The retention periods.
    pub retention: Retention,
    /// The gateway.
    pub gateway: Gateway,
    /// The limits of the inbox.
    pub inbox: Limits,
    /// The services that get notices.
    pub subscriptions: Vec<Subscription>,
    /// The keys that sign tokens.
    pub link_keys: LinkKeysConfig,
    /// The connection to Temporal.
    pub temporal: Temporal,
}

/// A configuration that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named file cannot be read.
    #[error("{}: {reason}; --config or TIDINGS_CONFIG names the configuration file", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: io::Error,
    },
    /// The configuration has problems.
    #[error("{}", problem::lines(.0))]
    Wrong(Vec<Problem>),
}

impl Config {
    /// Returns the settings for the activities. [`Config::signers`] has the DKIM keys.
    ///
    /// # Errors
    /// The environment lacks the address of a relay, or the secret of a service or of a subscription.
    pub fn settings(&self, unknown_recipients: UnknownRecipients) -> Result<Settings, Error> {
        let relays = self.named_relays().filter_map(|(_, relay)| relay.settings().err());
        let services = self.seen_problems().into_iter().chain(self.directory_problem());
        let services = services.chain(self.subscription_problems());
        let problems: Vec<_> = relays.chain(self.key_problems()).chain(services).collect();
        if problems.is_empty() {
            Ok(Settings { unknown_recipients, ..self.unsigned() })
        } else {
            Err(Error::Wrong(problems))
        }
    }

    /// Reads the DKIM keys of both streams.
    ///
    /// # Errors
    /// Each key that cannot be read, or cannot sign. The error never shows the key.
    pub fn signers(&self) -> Result<Signers, Error> {
        let mut problems = Vec::new();
        let mut signer = |stream: &Stream| {
            let signer = stream.dkim.as_ref().map(DkimConfig::signer).transpose();
            signer.map_err(|problem| problems.push(problem)).ok().flatten()
        };
        let signers = Signers { bulk: signer(&self.streams.bulk), transactional: signer(&self.streams.transactional) };
        // The streams may share a key.
        problems.dedup();
        if problems.is_empty() { Ok(signers) } else { Err(Error::Wrong(problems)) }
    }

    /// Returns the settings for commands that send nothing: without relays that lack an address.
    #[must_use]
    pub fn unsigned(&self) -> Settings {
        let relays = self.named_relays().filter_map(|(name, relay)| Some((name.clone(), relay.settings().ok()?)));
        Settings {
            digests: self.digests.clone(),
            tenants: self.tenants.clone(),
            brands: self.brands.clone(),
            cap: self.cap,
            capped: self.capped,
            soft_bounces: self.soft_bounces,
            relays: relays.collect(),
            streams: settings::Streams {
                bulk: self.streams.bulk.settings.clone(),
                transactional: self.streams.transactional.settings.clone(),
            },
            pages: self.gateway.pages.clone(),
            link_keys: self.link_keys.keys().cloned(),
            unknown_recipients: UnknownRecipients::Wait,
        }
    }

    /// Checks that the gateway can serve.
    ///
    /// # Errors
    /// The public address is missing, or the keys that sign links.
    pub fn serves(&self) -> Result<(), Error> {
        let missing = self.gateway.pages.public_url.is_none().then(|| self.gateway.missing_address());
        let problems: Vec<_> = missing.into_iter().chain(self.key_problems()).collect();
        if problems.is_empty() { Ok(()) } else { Err(Error::Wrong(problems)) }
    }

    /// Returns the problem of a gateway without a public address.
    #[must_use]
    pub fn gateway_problem(&self) -> Option<Problem> {
        self.gateway.address_problem()
    }

    /// Returns the problems of keys that cannot be read, or of return paths and links without keys. Commands that send nothing work
    /// without the keys.
    #[must_use]
    pub fn key_problems(&self) -> Vec<Problem> {
        if let Some(unreadable) = self.link_keys.problem() {
            return vec![unreadable];
        }
        let streams = [&self.streams.bulk, &self.streams.transactional];
        let return_paths = streams.into_iter().filter_map(|stream| stream.return_path_problem(self.link_keys.keys()));
        return_paths.chain(self.gateway.key_problems(self.link_keys.keys().is_some())).collect()
    }

    /// Returns the problems of services that know what was seen, and cannot be asked: the environment lacks their secrets.
    #[must_use]
    pub fn seen_problems(&self) -> Vec<Problem> {
        let digests = self.digests.values().chain(self.tenants.values().flat_map(BTreeMap::values));
        let mut problems: Vec<_> =
            digests.filter_map(|digest| digest.seen.as_ref()).filter_map(seen::problem).collect();
        problems.dedup();
        problems
    }

    /// Returns the problem of a directory that cannot be asked: the environment lacks its secret or its address.
    #[must_use]
    pub fn directory_problem(&self) -> Option<Problem> {
        self.directory.as_ref().and_then(Directory::problem)
    }

    /// Returns the team's own directory, if recipients come from there. Connects to nothing.
    ///
    /// # Errors
    /// The environment lacks its secret or the address of its database.
    pub fn team_directory(&self) -> Result<Option<Arc<TeamDirectory>>, Error> {
        let source = self.directory.as_ref().map(Directory::source).transpose();
        let source = source.map_err(|problem| Error::Wrong(vec![problem]))?;
        Ok(source.map(|source| Arc::new(TeamDirectory::new(source))))
    }

    /// Returns the team's own directory after its query was checked. A database that does not answer is a warning in the log: it may
    /// come back.
    ///
    /// # Errors
    /// The query is wrong, or as for [`Config::team_directory`].
    pub async fn checked_directory(&self) -> Result<Option<Arc<TeamDirectory>>, Error> {
        let made = self.team_directory()?;
        if let (Some(directory), Some(made)) = (&self.directory, &made)
            && let Err(wrong) = made.check().await
        {
            let problem = directory.wrong_query(&wrong);
            match wrong {
                WrongQuery::Wrong(_) => return Err(Error::Wrong(vec![problem])),
                WrongQuery::Away(_) => tracing::warn!(%problem, "the query of the team's directory is not checked"),
            }
        }
        Ok(made)
    }

    /// Returns the problems of subscriptions whose secrets the environment lacks.
    #[must_use]
    pub fn subscription_problems(&self) -> Vec<Problem> {
        self.subscriptions.iter().filter_map(subscribe::problem).collect()
    }

    /// Returns the problems that do not stop Tidings.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let signatures = [&self.dkim, &self.streams.bulk.dkim, &self.streams.transactional.dkim];
        let mut warnings: Vec<_> = signatures.into_iter().flatten().filter_map(DkimConfig::warning).collect();
        warnings.dedup();
        warnings.extend(self.link_keys.warning());
        warnings.extend(self.retention.warning());
        warnings.extend(self.streams.warning());
        warnings
    }

    /// Sends all messages through this relay, unsigned. The webhooks of all relays stay.
    pub fn send_by(&mut self, relay: Relay) {
        let relay = match self.relays.get(relay::DEFAULT) {
            Some(former) => relay.with_webhook_of(former),
            None => relay,
        };
        self.relays.insert(relay::DEFAULT.to_owned(), relay);
        self.dkim = None;
        for stream in [&mut self.streams.bulk, &mut self.streams.transactional] {
            stream.settings.relays = vec![relay::DEFAULT.to_owned()];
            stream.dkim = None;
        }
    }

    /// Returns the relays that a stream uses.
    pub fn named_relays(&self) -> impl Iterator<Item = (&String, &Relay)> {
        let streams = [&self.streams.bulk, &self.streams.transactional];
        self.relays.iter().filter(move |(name, _)| streams.iter().any(|stream| stream.settings.relays.contains(name)))
    }

    /// Returns the webhooks by the names of their relays.
    ///
    /// # Errors
    /// The environment lacks the secret of a webhook.
    pub fn webhooks(&self) -> Result<BTreeMap<String, Hook>, Error> {
        let (mut hooks, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, relay) in &self.relays {
            match relay.webhook() {
                Ok(hook) => hooks.extend(hook.map(|hook| (name.clone(), hook))),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(hooks) } else { Err(Error::Wrong(problems)) }
    }

    /// Removes the webhooks whose secrets are not set, and returns the problem of each.
    pub fn remove_unready_webhooks(&mut self) -> Vec<Problem> {
        self.relays.values_mut().filter_map(Relay::remove_unready_webhook).collect()
    }

    /// Loads `path`, or [`DEFAULT_PATH`] if that file exists, and the environment of the process.
    ///
    /// # Errors
    /// The file cannot be read, or has problems. The error lists all of them.
    pub fn load(path: Option<&Path>) -> Result<Self, Error> {
        let place = path.unwrap_or(Path::new(DEFAULT_PATH));
        let text = match fs::read_to_string(place) {
            Ok(text) => text,
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(reason) => return Err(Error::Unreadable { path: place.to_owned(), reason }),
        };
        Self::read(place, &text, &|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Returns the configuration if it can send to people: with a sender of its own, unless the relay is on this machine.
    ///
    /// # Errors
    /// The sender or the address of a relay is missing.
    pub fn ready_to_send(self) -> Result<Self, Error> {
        let streams = [&self.streams.bulk.settings, &self.streams.transactional.settings];
        let relays: BTreeMap<_, _> = self.named_relays().map(|(name, relay)| (name, relay.settings())).collect();
        let mut problems: Vec<_> = relays.values().filter_map(|relay| relay.clone().err()).collect();
        let senders = |stream: &settings::Stream| {
            let relays = stream.relays.iter().filter_map(|name| relays.get(name)?.as_ref().ok());
            relays.filter_map(|relay| mail::default_sender_problem(&stream.sender, relay)).collect::<Vec<_>>()
        };
        for problem in streams.into_iter().flat_map(senders) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        if problems.is_empty() { Ok(self) } else { Err(Error::Wrong(problems)) }
    }

    /// Parses `text`, the content of the file `place`.
    ///
    /// # Errors
    /// As for [`Config::load`].
    pub fn read(place: &Path, text: &str, environment: Environment<'_>) -> Result<Self, Error> {
        let file = syntax::parse::<RawConfig>(place, text).map_err(|problem| Error::Wrong(vec![problem]))?;
        let mut checks = problem::Checks::new(place, text, environment);
        match file.check(&mut checks, Temporal::load()) {
            Some(config) if checks.problems.is_empty() => Ok(config),
            _ => Err(Error::Wrong(checks.problems)),
        }
    }
}
