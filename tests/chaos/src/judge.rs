//! Hands the files of a run to the checker and searches the logs.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Result, ensure};
use tidings_harness::checker::{self, Verdict};

use super::{files::Files, plan::Plan, processes::Processes, settings::renaming, setup::SMALL_SKEW};

/// Words that no process may log.
const NEVER: [&str; 2] = ["panicked at", "Nondeterminism"];
/// The words of a fault of temporalio-sdk-core 0.10.1. A worker drops a run whose task has timed out while the result of a local
/// activity is under way to the run. The result reaches the next replay of the run, which has not come to the activity. That
/// workflow task fails, and the next one goes well. If a run does not recover, the checker finds its overdue window. The fault is
/// gone when hours with workers that get SIGSTOP log no such line.
const STRAY_RESULT: &str = "Missing associated machine for LocalActivity";
/// The words after a workflow task whose answer Temporal did not take. A history host that was frozen hands out tasks of runs that
/// another host has completed meanwhile, and their history may be in disagreement with what the worker decides.
const NOT_TAKEN: &str = "Task not found when completing";
/// The most lines of one log that are shown.
const SHOWN: usize = 5;

/// The lines of all logs that matter.
#[derive(Default)]
pub struct Logs {
    /// Lines that report a bug, with the file of each.
    pub bugs: Vec<String>,
    /// Lines about a result that came to a run after the worker had dropped the run.
    pub stray_results: usize,
    /// Lines about a changed decision in a workflow task that was over.
    pub stale_tasks: usize,
}

/// Runs the checker on emails, ledger and acknowledged ids.
///
/// # Errors
/// When it cannot run.
pub fn verdict(files: &Files, processes: &Processes, plan: &Plan) -> Result<Verdict> {
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
    let (renaming, skew) = (OsString::from(renaming()), OsString::from((2 * SMALL_SKEW * 1000).to_string()));
    let changes = if plan.changes() { vec![("--renamed", renaming), ("--skew", skew)] } else { vec![] };
    let arguments = arguments.iter().chain(&changes);
    let arguments: Vec<_> = arguments.flat_map(|(name, value)| [name.as_ref(), value.as_os_str()]).collect();
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

/// Searches the logs of a run.
///
/// # Errors
/// When they cannot be read.
pub fn logs(folder: &Path) -> Result<Logs> {
    let mut found = Logs::default();
    for folder in [folder.to_owned(), folder.join("acknowledged")] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            let lines: Vec<_> = text.lines().collect();
            let mut bugs = vec![];
            for (number, line) in lines.iter().enumerate() {
                if !NEVER.iter().any(|word| line.contains(word)) {
                    continue;
                }
                if line.contains(STRAY_RESULT) {
                    found.stray_results += 1;
                } else if was_stale(line, &lines[number + 1..]) {
                    found.stale_tasks += 1;
                } else {
                    bugs.push(format!("{}: {line}", path.display()));
                }
            }
            found.bugs.extend(bugs.into_iter().take(SHOWN));
        }
    }
    Ok(found)
}

/// The task of this line was over: the next report about its run says that Temporal did not take the answer.
fn was_stale(line: &str, later: &[&str]) -> bool {
    let Some(run) = run_id(line).filter(|_| !line.contains("panicked at")) else { return false };
    let reports = |line: &&&str| line.contains("workflow task") || line.contains(NOT_TAKEN);
    let next = later.iter().filter(reports).find(|line| run_id(line) == Some(run));
    next.is_some_and(|line| line.contains(NOT_TAKEN))
}

fn run_id(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("run_id=")?;
    rest.trim_start_matches('"').split([' ', '"', '}', ',']).next().filter(|run| !run.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_decision_in_a_task_that_was_over_is_no_bug() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("acknowledged")).unwrap();
        let failing =
            |run: &str| format!("WARN core: Failing workflow task run_id={run} failure=Nondeterminism error: marker\n");
        let not_taken = |run: &str| {
            format!(
                "WARN core: Task not found when completing error=workflow execution already completed run_id=\"{run}\"\n"
            )
        };
        for (log, stale, bugs) in [
            (failing("a") + &not_taken("a"), 1, 0),
            (failing("a") + "INFO other\n" + &not_taken("b") + &not_taken("a"), 1, 0),
            (failing("a") + &not_taken("b"), 0, 1),
            (failing("a") + &failing("a") + &not_taken("a"), 1, 1),
            (not_taken("a") + &failing("a"), 0, 1),
        ] {
            fs::write(folder.path().join("worker-0.log"), &log).unwrap();
            let found = logs(folder.path()).unwrap();
            assert_eq!((found.stale_tasks, found.bugs.len()), (stale, bugs), "{log}");
        }
    }

    #[test]
    fn only_panics_and_changed_decisions_in_a_log_are_bugs() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("acknowledged")).unwrap();
        let write = |name: &str, lines: &str| fs::write(folder.path().join(name), lines).unwrap();
        write(
            "worker-0.log",
            "Nondeterminism error: Missing associated machine for LocalActivity(27)\nattempt ended\n",
        );
        write("worker-1.log", "Nondeterminism error: Timer machine does not handle this event\n");
        write("acknowledged/producer.log", "thread 'main' panicked at main.rs:1\n");
        write("acts.txt", "panicked at\n");
        let Logs { bugs, stray_results, .. } = logs(folder.path()).unwrap();
        assert_eq!(stray_results, 1);
        assert_eq!(bugs.len(), 2, "{bugs:?}");
        assert!(bugs[0].contains("worker-1.log: Nondeterminism"), "{bugs:?}");
        assert!(bugs[1].contains("producer.log: thread"), "{bugs:?}");
    }
}
