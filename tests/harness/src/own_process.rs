//! A process of its own for a test that cannot share one with other tests.

use std::{
    env,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// Set to a test's name in the process that the test started for itself.
const VARIABLE: &str = "TIDINGS_TEST_OWN_PROCESS";

/// Runs this test in a new process and answers `true`, or answers `false` if this is that process. `test` is the path of the test's
/// function with the name of its crate in front. Use `#[needs(own_process)]`, which calls this.
///
/// # Errors
/// When the test fails in its process, with what it printed there.
pub fn is_elsewhere(test: &str) -> Result<bool> {
    let (_, name) = test.split_once("::").context("a test is in a module")?;
    if env::var(VARIABLE).is_ok_and(|running| running == name) {
        return Ok(false);
    }
    let mut process = Command::new(env::current_exe()?);
    process.args(["--exact", name, "--nocapture"]).env(VARIABLE, name).stdin(Stdio::null());
    let output = process.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    // A filter that matches nothing is a success, too.
    ensure!(printed.contains("1 passed"), "there is no test {name}: {printed}");
    Ok(true)
}
