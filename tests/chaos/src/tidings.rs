//! The binary `tidings` in a folder with its configuration: one build of it, or two in mixed company.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use jiff::Timestamp;
use temporalio_client::Client;
use tidings_harness::{cli_env, server};
use tokio::process::Command;

/// Which build of Tidings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    Old,
    New,
}

/// Where each build is.
#[derive(Clone)]
pub struct Builds {
    pub old: PathBuf,
    pub new: PathBuf,
}

/// See the module.
#[derive(Clone)]
pub struct Tidings {
    builds: Builds,
    folder: PathBuf,
    temporal: String,
    mixed: Arc<AtomicBool>,
    turn: Arc<AtomicUsize>,
}

impl Builds {
    /// One for all.
    #[must_use]
    pub fn only(binary: PathBuf) -> Self {
        Self { old: binary.clone(), new: binary }
    }
}

impl Tidings {
    /// In this folder, with Temporal at this address.
    #[must_use]
    pub fn new(builds: Builds, folder: &Path, temporal: String) -> Self {
        Self { builds, folder: folder.to_owned(), temporal, mixed: Arc::default(), turn: Arc::default() }
    }

    /// Where configuration and logs are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The command line with these arguments: the old build's, and from [`Self::mix`] on each build's in turn.
    #[must_use]
    pub fn command(&self, arguments: &[String]) -> Command {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let build = if self.mixed.load(Ordering::Relaxed) && turn % 2 == 1 { Build::New } else { Build::Old };
        self.command_of(build, arguments)
    }

    /// From now on producers and operators have both builds.
    pub fn mix(&self) {
        self.mixed.store(true, Ordering::Relaxed);
    }

    /// The command line of one build.
    #[must_use]
    pub fn command_of(&self, build: Build, arguments: &[String]) -> Command {
        let binary = match build {
            Build::Old => &self.builds.old,
            Build::New => &self.builds.new,
        };
        let mut command = cli_env::command(binary, &self.folder, &self.temporal);
        // Who gives orders, for the audit trail.
        command.args(arguments).env("USER", "chaos");
        command
    }

    /// A new connection to Temporal: an older one may be of a server that is gone.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn temporal(&self) -> Result<Client> {
        tokio::time::timeout(Duration::from_secs(10), server::connect(&self.temporal)).await?
    }

    /// Writes down what a command said.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn note(&self, words: &[String], output: &Output) -> Result<()> {
        let mut log = OpenOptions::new().create(true).append(true).open(self.folder.join("orders.log"))?;
        let [out, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let last = |text: &str| text.trim().lines().last().unwrap_or_default().to_owned();
        let line =
            format!("{} {}: {} {} {}\n", Timestamp::now(), words.join(" "), output.status, last(&out), last(&said));
        Ok(log.write_all(line.as_bytes())?)
    }
}
