//! What can be done to a process from the outside.

use std::process::Command;

use anyhow::{Result, ensure};

/// Sends a signal by its name, as `STOP`.
///
/// # Errors
/// When the process is gone.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    let output = Command::new("kill").args([format!("-{name}"), pid.to_string()]).output()?;
    ensure!(output.status.success(), "kill -{name} {pid}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
