//! The files of a run that the checker reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::plan::Plan;

/// The text of single messages. It is written once: a command that reads while another one writes hands over another text.
pub(super) const TEXT: &str = "text.txt";
/// The names of the producers that began before Temporal lost its data.
const BEFORE_LOSS: &str = "before_loss.txt";

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
            BEFORE_LOSS,
            "acts.log",
        ] {
            fs::write(folder.join(name), "")?;
        }
        fs::write(folder.join(TEXT), "A single message.\n")?;
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

    /// Collects the ids that any `tidings emit` or request got acknowledged into one file.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn gather_acknowledged(&self) -> Result<PathBuf> {
        let path = self.path("acknowledged.ndjson");
        fs::write(&path, self.acknowledged_by(|_| true)?)?;
        Ok(path)
    }

    /// Notes that Temporal lost its data: it may have lost what each `tidings emit` that began so far got acknowledged, and retracts.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn note_loss(&self) -> Result<()> {
        let begun = self.stems("log")?.into_keys().fold(String::new(), |begun, stem| begun + &stem + "\n");
        fs::write(self.path(BEFORE_LOSS), begun)?;
        Ok(fs::write(self.path("retracted.ndjson"), "")?)
    }

    /// Collects the ids that Temporal may have lost into one file. What was posted is in the inbox, and never lost.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn gather_lost(&self) -> Result<PathBuf> {
        let begun = fs::read_to_string(self.path(BEFORE_LOSS))?;
        let begun: BTreeSet<_> = begun.lines().collect();
        let path = self.path("lost.ndjson");
        fs::write(&path, self.acknowledged_by(|stem| begun.contains(stem))?)?;
        Ok(path)
    }

    /// The acknowledged ids in the files whose names fit.
    fn acknowledged_by(&self, fits: impl Fn(&str) -> bool) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        for (_, path) in self.stems("ndjson")?.into_iter().filter(|(stem, _)| fits(stem)) {
            let ids = fs::read(path)?;
            // A killed producer leaves half a line, whose id was not acknowledged to any caller.
            let whole = ids.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            all.extend_from_slice(&ids[..whole]);
        }
        Ok(all)
    }

    /// The files of producers with this extension, by their names without it.
    fn stems(&self, extension: &str) -> Result<BTreeMap<String, PathBuf>> {
        let mut stems = BTreeMap::new();
        for entry in fs::read_dir(self.path("acknowledged"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|found| found == extension) {
                stems.insert(path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path);
            }
        }
        Ok(stems)
    }
}
