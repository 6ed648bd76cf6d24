//! What Tidings is told: `tidings.toml`, and the environment over it.
//!
//! Everything is checked here, once, and all that is wrong is said at once. What leaves this module is right.

use std::{
    collections::BTreeMap,
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tidings_model::settings::{self, Cap, DigestSettings, Sender, Settings, UnknownRecipients};

mod digest;
mod dkim;
mod file;
mod mail;
mod problem;
mod relay;
mod retention;
mod secret;
mod stream;
mod temporal;
mod tenant;
#[cfg(test)]
mod tests;

pub use digest::zone;
pub use dkim::Signing;
pub use mail::address;
pub use problem::Problem;
pub use relay::Relay;
pub use retention::{Retention, written as written_age};
pub use secret::SecretUrl;
pub use stream::{Stream, Streams};
pub use temporal::{Temporal, Unreachable};

/// Where the configuration is, unless somebody says otherwise.
pub const DEFAULT_PATH: &str = "tidings.toml";

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://FILE` or `postgres://...`.
    pub database_url: SecretUrl,
    /// Where mail can go, by name.
    pub relays: BTreeMap<String, Relay>,
    /// How it goes there.
    pub streams: Streams,
    /// Where a worker answers `GET /metrics`; `None`: nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Folder of templates that override and add to the embedded ones.
    pub templates: Option<PathBuf>,
    /// Temporal's task queue for the digests.
    pub task_queue: String,
    /// Who the mail is from, unless its stream says otherwise.
    pub sender: Sender,
    /// Who signs it, unless its stream says otherwise or the relay does.
    pub dkim: Option<Signing>,
    /// The digest types, by name.
    pub digests: BTreeMap<String, DigestSettings>,
    /// By tenant: its digest types, where they differ.
    pub tenants: BTreeMap<String, BTreeMap<String, DigestSettings>>,
    /// How many digests a recipient gets, over all digest types.
    pub cap: Option<Cap>,
    /// Soft bounces in a row that suppress an address.
    pub soft_bounces: u32,
    /// How long what is kept for a time is kept.
    pub retention: Retention,
    /// Temporal, as its own environment variables and `temporal.toml` have it.
    pub temporal: Temporal,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file was asked for and cannot be read.
    #[error("{}: {reason}; --config or TIDINGS_CONFIG names the configuration file", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: io::Error,
    },
    /// What it says is wrong.
    #[error("{}", problem::lines(.0))]
    Wrong(Vec<Problem>),
}

/// Reads an environment variable. A function, so that tests need not change the process.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Config {
    /// What the activities need of it. Reads the DKIM keys.
    ///
    /// # Errors
    /// A DKIM key cannot be read, or signs nothing; a relay's address is not in the environment.
    pub fn settings(&self, unknown_recipients: UnknownRecipients) -> Result<Settings, Error> {
        let mut problems = Vec::new();
        let mut kept = |signed: Result<_, Problem>| signed.map_err(|problem| problems.push(problem)).ok();
        let streams = (kept(self.streams.bulk.signed()), kept(self.streams.transactional.signed()));
        problems.extend(self.named_relays().filter_map(|(_, relay)| relay.settings().err()));
        problems.dedup();
        match streams {
            (Some(bulk), Some(transactional)) if problems.is_empty() => {
                let streams = settings::Streams { bulk, transactional };
                Ok(Settings { streams, unknown_recipients, ..self.unsigned() })
            }
            _ => Err(Error::Wrong(problems)),
        }
    }

    /// The same for what sends no mail: nobody signs, nobody is invented, and a relay may be missing.
    #[must_use]
    pub fn unsigned(&self) -> Settings {
        let relays = self.named_relays().filter_map(|(name, relay)| Some((name.clone(), relay.settings().ok()?)));
        Settings {
            digests: self.digests.clone(),
            tenants: self.tenants.clone(),
            cap: self.cap,
            soft_bounces: self.soft_bounces,
            relays: relays.collect(),
            streams: settings::Streams {
                bulk: self.streams.bulk.settings.clone(),
                transactional: self.streams.transactional.settings.clone(),
            },
            unknown_recipients: UnknownRecipients::Wait,
        }
    }

    /// What works, but is not safe.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let signings = [&self.dkim, &self.streams.bulk.dkim, &self.streams.transactional.dkim];
        let mut warnings: Vec<_> = signings.into_iter().flatten().filter_map(Signing::warning).collect();
        warnings.dedup();
        warnings.extend(self.retention.warning());
        warnings
    }

    /// All mail goes to this relay, and nobody signs it.
    pub fn send_by(&mut self, relay: Relay) {
        self.relays = BTreeMap::from([(relay::DEFAULT.to_owned(), relay)]);
        self.dkim = None;
        for stream in [&mut self.streams.bulk, &mut self.streams.transactional] {
            stream.settings.relays = vec![relay::DEFAULT.to_owned()];
            stream.dkim = None;
        }
    }

    /// The relays by which a stream sends.
    pub fn named_relays(&self) -> impl Iterator<Item = (&String, &Relay)> {
        let streams = [&self.streams.bulk, &self.streams.transactional];
        self.relays.iter().filter(move |(name, _)| streams.iter().any(|stream| stream.settings.relays.contains(name)))
    }

    /// Reads `path`, or [`DEFAULT_PATH`] where that exists, and the process's environment.
    ///
    /// # Errors
    /// All that is wrong, each with its place, key, value and what would be right.
    pub fn load(path: Option<&Path>) -> Result<Self, Error> {
        let place = path.unwrap_or(Path::new(DEFAULT_PATH));
        let text = match fs::read_to_string(place) {
            Ok(text) => text,
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(reason) => return Err(Error::Unreadable { path: place.to_owned(), reason }),
        };
        Self::read(place, &text, &|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// The configuration, if it will do for mail to people: with a sender of its own, unless the relay is on this
    /// machine.
    ///
    /// # Errors
    /// Says what to set.
    pub fn ready_to_send(self) -> Result<Self, Error> {
        let streams = [&self.streams.bulk.settings, &self.streams.transactional.settings];
        let relays: BTreeMap<_, _> = self.named_relays().map(|(name, relay)| (name, relay.settings())).collect();
        let mut problems: Vec<_> = relays.values().filter_map(|relay| relay.clone().err()).collect();
        let nobody = |stream: &settings::Stream| {
            let relays = stream.relays.iter().filter_map(|name| relays.get(name)?.as_ref().ok());
            relays.filter_map(|relay| mail::nobody(&stream.sender, relay)).collect::<Vec<_>>()
        };
        for problem in streams.into_iter().flat_map(nobody) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        if problems.is_empty() { Ok(self) } else { Err(Error::Wrong(problems)) }
    }

    /// Reads `text`, which is what the file `place` says.
    ///
    /// # Errors
    /// As for [`Config::load`].
    pub fn read(place: &Path, text: &str, environment: Environment<'_>) -> Result<Self, Error> {
        let file = file::parse(place, text).map_err(|problem| Error::Wrong(vec![problem]))?;
        let mut checks = problem::Checks::new(place, text, environment);
        match file.check(&mut checks, Temporal::load()) {
            Some(config) if checks.problems.is_empty() => Ok(config),
            _ => Err(Error::Wrong(checks.problems)),
        }
    }
}
