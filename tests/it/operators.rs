//! Operators at work in Temporal's own UI and CLI: what docs/temporal-ui.md calls harmless loses nothing and sends nothing twice.

use std::{env, time::Duration};

use anyhow::{Context as _, Result, ensure};
use tidings_harness::{
    env::Env,
    relay::{Relay, events_by_message},
    server::DevServer,
    wait::eventually,
};
use tidings_model::Key;
use tokio::process::Command;

mod by_hand;
mod doctor;
mod reset;

const MINUTE: Duration = Duration::from_mins(1);

/// Runs the Temporal CLI, and answers with what it printed.
async fn temporal(server: &DevServer, arguments: &[&str]) -> Result<String> {
    let cli = env::var_os("TEMPORAL_CLI").unwrap_or_else(|| "temporal".into());
    let output = Command::new(cli).args(arguments).args(["--address", &server.target()]).output().await;
    let output = output.context("the Temporal CLI does not start")?;
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "temporal {}: {error}{out}", arguments.join(" "));
    Ok(out.into_owned())
}

/// Waits until this number of events is pending.
async fn waiting(env: &Env, key: &Key, count: u64) -> Result<()> {
    let counted = format!("{count} events wait");
    env.status_when(key, &counted, |status| status.pending + status.uncompared == count).await.map(drop)
}

/// Waits until this number of attempts has named a recipient to the relay.
async fn attempted(relay: &Relay, count: usize) -> Result<()> {
    let begun = async || Ok((relay.commands().iter().filter(|verb| *verb == "RCPT").count() >= count).then_some(()));
    eventually(&format!("{count} attempts begin"), MINUTE, begun).await
}

/// Waits until the first of two attempts has left the relay, which did not answer. The connection of the other stays in the pool.
async fn one_attempt_is_left(relay: &Relay) -> Result<()> {
    let left = async || Ok(((relay.connections(), relay.open_connections()) == (2, 1)).then_some(()));
    eventually("the first attempt ends", MINUTE, left).await
}

/// The number of events in each email. Each message came once.
fn emails(relay: &Relay) -> Result<Vec<u64>> {
    let mails = relay.mails();
    let by_message = events_by_message(&mails)?;
    ensure!(by_message.len() == mails.len(), "{} copies of {} messages", mails.len(), by_message.len());
    Ok(by_message.into_values().collect())
}
