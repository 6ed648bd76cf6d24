//! A short part of `./dev check --timing`.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use tidings_needs::needs;

/// Some zones, and the seed that draws them and all that happens there.
const PART: [&str; 4] = ["--zones", "20", "--seed", "55"];

#[needs(python)]
#[test]
fn each_digest_goes_out_at_a_good_moment_of_its_own_period() -> Result<()> {
    let python = env::var_os("TIDINGS_TEST_PYTHON").context("TIDINGS_TEST_PYTHON is not set")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("property.py");
    let output = Command::new(python).arg(script).arg(env!("CARGO_BIN_EXE_timing")).args(PART).output()?;
    let said = [output.stderr, output.stdout].concat();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    Ok(())
}
