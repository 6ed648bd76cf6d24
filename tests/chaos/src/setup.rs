//! What a worker or the gateway starts with: a file, a link key and a clock.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use rand::{RngExt, rngs::ChaCha8Rng};

use super::{
    deal::{index, one_of},
    settings::{Edition, KEYS},
};

/// Workers of a run.
pub const WORKERS: usize = 3;
/// Keys in the file of link keys. Each process knows all of them, and another one may sign.
pub const KEY_COUNT: usize = 3;
/// The most seconds by which a clock is off that still works.
pub const SMALL_SKEW: i64 = 20;
/// What a worker or the gateway starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    pub edition: Edition,
    /// The number of the link key that signs.
    pub key: usize,
    /// The seconds by which the clock is ahead.
    pub skew: i64,
}

impl Setup {
    /// Reports a clock with which a worker has to end by itself.
    #[must_use]
    pub const fn is_refused(self) -> bool {
        self.skew.abs() > SMALL_SKEW
    }

    /// Gives this to a process in the folder of the run.
    ///
    /// # Errors
    /// When the keys cannot be read.
    pub fn give(self, command: &mut Command, folder: &Path) -> Result<()> {
        command.env("TIDINGS_CONFIG", self.edition.file());
        if self.key > 0 {
            let text = fs::read_to_string(folder.join(KEYS))?;
            let mut keys: Vec<_> = text.split_whitespace().collect();
            keys.rotate_left(self.key);
            command.env("TIDINGS_LINK_KEYS", keys.join(" "));
        }
        if let (true, Some(library)) = (self.skew != 0, libfaketime()) {
            command.env("LD_PRELOAD", library).env("FAKETIME", format!("{:+}", self.skew));
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        Ok(())
    }

    pub(super) fn draw(skews: &[i64], random: &mut ChaCha8Rng) -> Self {
        let edition = Edition { renamed: random.random(), slower: random.random() };
        Self { edition, key: index(random, KEY_COUNT), skew: one_of(skews, random) }
    }
}

/// The library of libfaketime for programs with threads, where it is installed.
#[must_use]
pub fn libfaketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut libraries = folders.chain(["/usr/local/lib".into(), "/usr/lib".into()]);
    libraries.find_map(|folder| Some(folder.join("faketime/libfaketimeMT.so.1")).filter(|file| file.exists()))
}
