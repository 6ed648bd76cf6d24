//! The files of a run that the checker reads.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::plan::Plan;

/// The files that the checker reads, as lines of JSON.
#[derive(Clone)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// Opens the files in this folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(folder: &Path) -> Result<Self> {
        for name in ["batches", "acknowledged", "mails"] {
            fs::create_dir(folder.join(name))?;
        }
        for name in [
            "retracted.ndjson",
            "sent.ndjson",
            "open.ndjson",
            "returned.ndjson",
            "reported.ndjson",
            "clicked.ndjson",
            "erased.ndjson",
            "acts.log",
        ] {
            fs::write(folder.join(name), "")?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn append(&self, name: &str, line: &impl fmt::Display) -> Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.path(name))?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }

    /// The number of the plan's events that producers handed over so far.
    #[must_use]
    pub fn handed_over(&self, plan: &Plan) -> u64 {
        let batches = plan.batches.iter().enumerate();
        let begun = batches.filter(|(batch, _)| self.path(&format!("batches/{batch}.ndjson")).exists());
        begun.map(|(_, numbers)| numbers.len() as u64).sum()
    }

    /// Collects the ids that any `tidings emit` got acknowledged into one file.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn gather_acknowledged(&self) -> Result<PathBuf> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.path("acknowledged"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "ndjson") {
                continue;
            }
            let ids = fs::read(path)?;
            // A killed producer leaves half a line, whose id was not acknowledged to any caller.
            let whole = ids.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            all.extend_from_slice(&ids[..whole]);
        }
        let path = self.path("acknowledged.ndjson");
        fs::write(&path, all)?;
        Ok(path)
    }
}
