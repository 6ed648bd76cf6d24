//! Waiting for what becomes true in a while.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::relay::Relay;

/// Polls until `met` returns a value.
///
/// # Errors
/// When that takes longer than `deadline`.
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut met: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(value) = met().await? {
            return Ok(value);
        }
        ensure!(started.elapsed() < deadline, "still not after {deadline:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the relay has accepted at least `count` emails.
///
/// # Errors
/// When that takes longer than `deadline`.
pub async fn wait_for_emails(relay: &Relay, count: usize, deadline: Duration) -> Result<()> {
    eventually(&format!("{count} mails"), deadline, async || Ok((relay.count() >= count).then_some(()))).await
}
