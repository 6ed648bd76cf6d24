//! `tidings worker` without its servers.

use std::{
    io::{BufRead as _, BufReader},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::start;

#[test]
fn a_worker_retries_temporal_until_sigterm() {
    let folder = TempDir::new().unwrap();
    let mut worker = start(folder.path(), &["worker"]);
    let errors = BufReader::new(worker.stderr.take().unwrap());
    let (sender, log) = mpsc::channel();
    thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let wait_for = |text: &str| {
        loop {
            let line = log.recv_timeout(Duration::from_mins(1)).expect(text);
            if line.contains(text) {
                return line;
            }
        }
    };
    let signal = |name: &str| {
        assert!(Command::new("kill").args(["-s", name, &worker.id().to_string()]).status().unwrap().success());
    };

    let retries = wait_for("cannot connect the worker to Temporal; retrying");
    assert!(retries.contains("http://127.0.0.1:1") && retries.contains("Connection refused"), "{retries}");
    // Administrators send it to make a service read its file; a closed terminal sends it, too.
    signal("HUP");
    let ignored = wait_for("SIGHUP");
    assert!(ignored.contains("restart the process to read a changed file"), "{ignored}");
    signal("TERM");
    let rest: Vec<_> = log.iter().collect();
    assert_eq!(worker.wait().unwrap().code(), Some(0), "{rest:?}");
}
