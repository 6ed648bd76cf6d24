//! `tidings worker` without its servers.

use std::{
    io::{BufRead as _, BufReader},
    process::Command,
};

use tempfile::TempDir;

use super::start;

#[test]
fn a_worker_waits_for_temporal_until_it_is_told_to_end() {
    let folder = TempDir::new().unwrap();
    let mut worker = start(folder.path(), &["worker"]);
    let mut log = BufReader::new(worker.stderr.take().unwrap()).lines().map(Result::unwrap);
    let waits = log.find(|line| line.contains("the worker waits for Temporal")).expect("it says that it waits");
    assert!(waits.contains("http://127.0.0.1:1") && waits.contains("Connection refused"), "{waits}");
    let signal = |name: &str| {
        assert!(Command::new("kill").args(["-s", name, &worker.id().to_string()]).status().unwrap().success());
    };
    // What administrators send to make a service read its file, and a closed terminal.
    signal("HUP");
    let ignored = log.find(|line| line.contains("SIGHUP")).expect("it says that nothing changes");
    assert!(ignored.contains("restart the process to read a changed file"), "{ignored}");
    signal("TERM");
    let rest: Vec<_> = log.collect();
    assert_eq!(worker.wait().unwrap().code(), Some(0), "{rest:?}");
}
