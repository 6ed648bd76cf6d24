//! What Tidings is told: `tidings.toml`, and the environment over it.
//!
//! Everything is checked here, once, and all that is wrong is said at once. What leaves this module is right.

use std::{collections::BTreeMap, env, fs, io, path::Path, path::PathBuf};

use tidings_activities::{
    mailer::Relay,
    settings::{Cap, DigestSettings, Sender, Settings, UnknownRecipients},
};

mod digest;
mod dkim;
mod file;
mod mail;
mod problem;
mod secret;
mod temporal;
mod tenant;
#[cfg(test)]
mod tests;

pub use digest::zone;
pub use dkim::Signing;
pub use mail::address;
pub use problem::Problem;
pub use secret::SecretUrl;
pub use temporal::{Temporal, Unreachable};

/// Where the configuration is, unless somebody says otherwise.
pub const DEFAULT_PATH: &str = "tidings.toml";

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://FILE` or `postgres://...`.
    pub database_url: SecretUrl,
    /// Where the mail goes.
    pub relay: Relay,
    /// Folder of templates that override and add to the embedded ones.
    pub templates: Option<PathBuf>,
    /// Temporal's task queue for the digests.
    pub task_queue: String,
    /// Who the mail is from.
    pub sender: Sender,
    /// Who signs the mail, unless the relay does.
    pub dkim: Option<Signing>,
    /// The digest types, by name.
    pub digests: BTreeMap<String, DigestSettings>,
    /// By tenant: its digest types, where they differ.
    pub tenants: BTreeMap<String, BTreeMap<String, DigestSettings>>,
    /// How many digests a recipient gets, over all digest types.
    pub cap: Option<Cap>,
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
    /// What the activities need of it. Reads the DKIM key.
    ///
    /// # Errors
    /// The DKIM key cannot be read, or signs nothing.
    pub fn settings(&self, unknown_recipients: UnknownRecipients) -> Result<Settings, Error> {
        let dkim = self.dkim.as_ref().map(Signing::signer).transpose();
        let dkim = dkim.map_err(|problem| Error::Wrong(vec![problem]))?;
        Ok(Settings { dkim, unknown_recipients, ..self.unsigned() })
    }

    /// The same for what sends no mail: nobody signs, and nobody is invented.
    #[must_use]
    pub fn unsigned(&self) -> Settings {
        Settings {
            digests: self.digests.clone(),
            tenants: self.tenants.clone(),
            cap: self.cap,
            sender: self.sender.clone(),
            dkim: None,
            unknown_recipients: UnknownRecipients::Wait,
        }
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
        Self::read(place, &text, &|name| env::var(name).ok().filter(|value| !value.is_empty()), Temporal::load())
    }

    /// The configuration, if it will do for mail to people: with a sender of its own, unless the relay is on this
    /// machine.
    ///
    /// # Errors
    /// Says what to set.
    pub fn ready_to_send(self) -> Result<Self, Error> {
        match mail::nobody(&self.sender, &self.relay) {
            Some(problem) => Err(Error::Wrong(vec![problem])),
            None => Ok(self),
        }
    }

    fn read(
        place: &Path,
        text: &str,
        environment: Environment<'_>,
        temporal: Result<Temporal, Problem>,
    ) -> Result<Self, Error> {
        let file = file::parse(place, text).map_err(|problem| Error::Wrong(vec![problem]))?;
        let mut checks = problem::Checks::new(place, text, environment);
        match file.check(&mut checks, temporal) {
            Some(config) if checks.problems.is_empty() => Ok(config),
            _ => Err(Error::Wrong(checks.problems)),
        }
    }
}
