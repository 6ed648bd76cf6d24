//! The machine and the server of a run, without which figures mean little.

use std::{env, fs, process::Command, thread};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub system: String,
    /// The Temporal CLI, whose dev server takes part.
    pub temporal: String,
}

impl Machine {
    /// This machine. A property that the system does not report is `unknown`.
    ///
    /// # Errors
    /// When the Temporal CLI does not start.
    pub fn this() -> Result<Self> {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal");
        let kilobytes = memory.and_then(|memory| memory.split_whitespace().next()?.parse::<u64>().ok());
        let cli = env::var_os("TEMPORAL_CLI").unwrap_or_else(|| "temporal".into());
        let version = Command::new(&cli).arg("--version").output().context("the Temporal CLI does not start")?;
        Ok(Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: thread::available_parallelism()?.get(),
            memory_gib: kilobytes.unwrap_or_default().div_ceil(1 << 20),
            system: format!("{} {}", env::consts::OS, env::consts::ARCH),
            temporal: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
        })
    }
}
