//! Runs the checker, a program of its own: writes the files that it reads and parses its verdict.

use std::{collections::BTreeMap, ffi::OsStr, fs, path::Path, process::Command};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use tidings_model::Key;

use crate::relay::Mail;

/// The checker's verdict.
#[derive(Debug, Deserialize)]
pub struct Verdict {
    /// 0 if every guarantee holds, 1 if one is broken.
    #[serde(skip)]
    pub code: Option<i32>,
    /// Distinct event ids that were acknowledged to the producer.
    pub acknowledged: u64,
    /// Acknowledged events that only Temporal had, and that it lost with its data.
    pub lost: u64,
    /// Events in the ledger.
    pub events: u64,
    pub digests: u64,
    /// Digests by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Single messages.
    pub singles: u64,
    /// Attempts that ended, by class.
    pub attempts: BTreeMap<String, u64>,
    pub mails: u64,
    /// Emails beyond the first of their digest.
    pub second_mails: u64,
    /// Attempts without a known result. Each permits one more email.
    pub ambiguous_attempts: u64,
    pub violations: Vec<Violation>,
}

/// A broken guarantee.
#[derive(Debug, Deserialize)]
pub struct Violation {
    pub rule: String,
    pub detail: String,
}

/// A line of the file of acknowledged ids, as `tidings emit --acknowledged` writes it.
#[must_use]
pub fn acknowledged(key: &Key, event_id: &str) -> String {
    let Key { tenant, digest_type, user } = key;
    format!("{}\n", json!({"tenant": tenant, "user": user, "digest": digest_type, "event_id": event_id}))
}

/// Compares the acknowledged ids (NDJSON), the relay's emails and the ledger in an SQLite file.
///
/// # Errors
/// When the checker cannot run or reaches no verdict.
pub fn check(acknowledged: &str, mails: &[Mail], ledger: &Path) -> Result<Verdict> {
    check_retracted(acknowledged, "", mails, ledger)
}

/// Does the same, with ids that were retracted before their events came.
///
/// # Errors
/// As for [`check`].
pub fn check_retracted(acknowledged: &str, retracted: &str, mails: &[Mail], ledger: &Path) -> Result<Verdict> {
    let folder = TempDir::new()?;
    let ids = folder.path().join("acknowledged.ndjson");
    fs::write(&ids, acknowledged)?;
    let back = folder.path().join("retracted.ndjson");
    fs::write(&back, retracted)?;
    for (number, mail) in mails.iter().enumerate() {
        fs::write(folder.path().join(format!("{number:06}.eml")), mail.bytes())?;
    }
    let arguments =
        [("--acknowledged", &*ids), ("--retracted", &back), ("--mails", folder.path()), ("--ledger", ledger)];
    run(&arguments.map(|(name, path)| [name.as_ref(), path.as_os_str()]).concat())
}

/// Runs the checker with these arguments.
///
/// # Errors
/// When the checker cannot run or reaches no verdict.
pub fn run(arguments: &[&OsStr]) -> Result<Verdict> {
    let output = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../checker/check.py"))
        .arg("--json")
        .args(arguments)
        .output()
        .context("python3 does not start")?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let verdict: Verdict = serde_json::from_slice(&output.stdout).with_context(said)?;
    Ok(Verdict { code: output.status.code(), ..verdict })
}
