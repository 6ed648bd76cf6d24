//! Acts on other processes.

use std::process::Command;

use anyhow::{Result, ensure};

/// Sends a signal by its name, as `STOP`.
///
/// # Errors
/// When the process is gone.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    done("kill", &[format!("-{name}"), pid.to_string()])
}

/// Limits the size of the files that a process writes, in bytes or `unlimited`.
///
/// # Errors
/// When the process is gone.
pub fn limit_files(pid: u32, size: &str) -> Result<()> {
    done("prlimit", &[format!("--pid={pid}"), format!("--fsize={size}:")])
}

fn done(program: &str, arguments: &[String]) -> Result<()> {
    let output = Command::new(program).args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), said.trim());
    Ok(())
}
