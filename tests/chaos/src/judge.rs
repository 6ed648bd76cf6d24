//! Hands the files of a run to the checker and searches the logs.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Result, ensure};
use tidings_harness::checker::{self, Verdict};

use super::{files::Files, processes::Processes};

/// Words that no process may log.
const NEVER: [&str; 2] = ["panicked at", "Nondeterminism"];

/// Runs the checker on emails, ledger and acknowledged ids.
///
/// # Errors
/// When it cannot run.
pub fn verdict(files: &Files, processes: &Processes) -> Result<Verdict> {
    let mails = processes.relays.iter().flat_map(|relay| relay.mails());
    for (number, mail) in mails.enumerate() {
        fs::write(files.path(&format!("mails/{number:06}.eml")), mail.bytes())?;
    }
    let (acknowledged, lost) = (files.gather_acknowledged()?, files.gather_lost()?);
    let path = |name| files.path(name).into_os_string();
    let arguments: [(&str, OsString); 11] = [
        ("--acknowledged", acknowledged.into_os_string()),
        ("--mails", path("mails")),
        ("--ledger", processes.store.ledger().into()),
        ("--retracted", path("retracted.ndjson")),
        ("--sent", path("sent.ndjson")),
        ("--open", path("open.ndjson")),
        ("--returned", path("returned.ndjson")),
        ("--reported", path("reported.ndjson")),
        ("--clicked", path("clicked.ndjson")),
        ("--erased", path("erased.ndjson")),
        ("--lost", lost.into_os_string()),
    ];
    let arguments: Vec<_> = arguments.iter().flat_map(|(name, value)| [name.as_ref(), value.as_os_str()]).collect();
    checker::run(&arguments)
}

/// Dumps the ledger of PostgreSQL as SQL, because its cluster is removed after the run.
///
/// # Errors
/// When `pg_dump` does not start, or fails.
pub fn keep(files: &Files, processes: &Processes) -> Result<()> {
    let ledger = processes.store.ledger();
    if !ledger.starts_with("postgres") {
        return Ok(());
    }
    let dump = Command::new("pg_dump").arg("--file").arg(files.path("ledger.sql")).arg(ledger).status()?;
    ensure!(dump.success(), "pg_dump: {dump}");
    Ok(())
}

/// Lines of the logs that report a bug.
///
/// # Errors
/// When they cannot be read.
pub fn logs(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in [folder.to_owned(), folder.join("acknowledged")] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            let lines = text.lines().filter(|line| NEVER.iter().any(|word| line.contains(word)));
            found.extend(lines.take(5).map(|line| format!("{}: {line}", path.display())));
        }
    }
    Ok(found)
}
