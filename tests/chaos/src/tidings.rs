//! The binary `tidings` in a folder with its configuration: one build, or two builds in turn.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use jiff::Timestamp;
use temporalio_client::Client;
use tidings_harness::{cli_env, server};
use tidings_model::changed_names::{CHANGED_NAMES, NamePlace};
use tokio::{process::Command, time::Instant};

use super::{
    settings::{SECRET, SECRET_VARIABLE},
    setup::Setup,
};

/// Time from the start of a process until it listens for signals, on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// A build of Tidings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    Old,
    New,
}

/// The configuration for a build before the names changed.
pub const FORMER_FILE: &str = "former.toml";

/// The file with the former name of each key.
#[must_use]
pub fn former_toml(toml: &str) -> String {
    let line = |line: &str| {
        let (key, value) = line.split_once(" = ")?;
        let (_, former, _) = CHANGED_NAMES.iter().find(|(place, _, name)| *place == NamePlace::Key && *name == key)?;
        Some(format!("{former} = {value}"))
    };
    toml.lines().map(|text| line(text).unwrap_or_else(|| text.to_owned()) + "\n").collect()
}

fn former_arguments(arguments: &[String]) -> Vec<String> {
    let former = |place, name: &str| {
        let found = CHANGED_NAMES.iter().find(|(of, _, current)| *of == place && *current == name);
        found.map(|(_, former, _)| (*former).to_owned())
    };
    // `digest` and `pause` had commands of their own before the lists joined them.
    let is_list = matches!(arguments.get(1).map(String::as_str), Some("list" | "show"));
    let renames = |command: &str| command == "retention" || is_list;
    let word = |(place, word): (usize, &String)| match word.strip_prefix("--") {
        Some(flag) => former(NamePlace::Flag, flag).map(|flag| format!("--{flag}")),
        None if place == 0 && renames(word) => former(NamePlace::Command, word),
        None => None,
    };
    // The words of --filter had another name for digest types, too.
    let arguments = arguments.iter().map(|word| word.replace("digest_type=", "type=")).collect::<Vec<_>>();
    arguments.iter().enumerate().map(|given| word(given).unwrap_or_else(|| given.1.clone())).collect()
}

/// The binary of each build.
#[derive(Clone)]
pub struct Builds {
    pub old: PathBuf,
    pub new: PathBuf,
    /// The old build needs the file and the commands that `model/src/changed_names.rs` lists as former.
    pub is_older_than_names: bool,
}

/// The command line of a run.
#[derive(Clone)]
pub struct Tidings {
    builds: Builds,
    folder: PathBuf,
    temporal: String,
    mixed: Arc<AtomicBool>,
    turn: Arc<AtomicUsize>,
    losses: Arc<AtomicU64>,
}

/// Reports if a process ended as SIGTERM asks: by itself with code 0, or by the signal if it was still starting.
#[must_use]
pub fn ended_as_asked(status: ExitStatus, started_at: Instant) -> bool {
    status.success() || status.signal().is_some() && started_at.elapsed() < STARTS_WITHIN
}

impl Builds {
    /// Reports that both builds are one binary.
    #[must_use]
    pub fn are_same(&self) -> bool {
        self.old == self.new
    }

    /// The folder of all commands.
    #[must_use]
    pub fn only(binary: PathBuf) -> Self {
        Self { old: binary.clone(), new: binary, is_older_than_names: false }
    }

    /// An earlier build, and this one.
    ///
    /// # Errors
    /// When the earlier one does not start.
    pub async fn upgrade(old: PathBuf, new: PathBuf) -> Result<Self> {
        let todays = Command::new(&old).args(["digest", "list", "--help"]).output().await?;
        Ok(Self { old, new, is_older_than_names: !todays.status.success() })
    }

    fn needs_former_names(&self, build: Build) -> bool {
        build == Build::Old && self.is_older_than_names
    }
}

impl Tidings {
    /// Commands in this folder, with Temporal at this address.
    #[must_use]
    pub fn new(builds: Builds, folder: &Path, temporal: String) -> Self {
        let (mixed, turn, losses) = Default::default();
        Self { builds, folder: folder.to_owned(), temporal, mixed, turn, losses }
    }

    /// The folder of configuration and logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command with these arguments: of the old build, and after [`Self::mix`] of each build in turn.
    #[must_use]
    pub fn command(&self, arguments: &[String]) -> Command {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let build = if self.mixed.load(Ordering::Relaxed) && turn % 2 == 1 { Build::New } else { Build::Old };
        self.command_of(build, arguments)
    }

    /// Gives both builds to producers and operators from now on.
    pub fn mix(&self) {
        self.mixed.store(true, Ordering::Relaxed);
    }

    /// Notes that Temporal lost its data.
    pub fn lost(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how often Temporal lost its data so far.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// A command of one build.
    #[must_use]
    pub fn command_of(&self, build: Build, arguments: &[String]) -> Command {
        let binary = match build {
            Build::Old => &self.builds.old,
            Build::New => &self.builds.new,
        };
        let mut command = cli_env::command(binary, &self.folder, &self.temporal);
        if self.builds.needs_former_names(build) {
            command.env("TIDINGS_CONFIG", FORMER_FILE).args(former_arguments(arguments));
        } else {
            command.args(arguments);
        }
        // Names the actor for the audit trail.
        command.env("USER", "chaos").env(SECRET_VARIABLE, SECRET);
        command
    }

    /// The process of one build with this setup.
    ///
    /// # Errors
    /// When the files of the run cannot be read.
    pub fn process(&self, build: Build, arguments: &[String], setup: Setup) -> Result<std::process::Command> {
        let mut command = self.command_of(build, arguments).into_std();
        setup.give(&mut command, &self.folder)?;
        if self.builds.needs_former_names(build) {
            command.env("TIDINGS_CONFIG", FORMER_FILE);
        }
        Ok(command)
    }

    /// A new connection to Temporal, because an older one may belong to a stopped server.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn temporal(&self) -> Result<Client> {
        tokio::time::timeout(Duration::from_secs(10), server::connect(&self.temporal)).await?
    }

    /// Logs the output of a command.
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
