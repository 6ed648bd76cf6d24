//! `tidings doctor`: is it us, a relay, Temporal, the database or the clock? Each check has a verdict and, if it
//! is not good, a remedy. Nothing is changed.

use std::{future::Future, time::Duration};

use anyhow::Context as _;
use serde::Serialize;
use tokio::time::timeout;

use crate::{Config, config, error::in_words, storage};

mod findings;
mod probes;

use findings::{CheckArea, Finding, Verdict, conclusion};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tidings doctor
  tidings doctor --json | jq '.findings[] | select(.verdict != \"ok\")'

The checks: the configuration and the modes of its files, the database and its clock, Temporal, its namespace and search
attributes, each relay up to its login, what waits and why, the memory, disk and file descriptors of this machine. Nothing is
changed, and no email is sent. Run it where a worker or a gateway runs, with the same configuration.

Exit codes: 0 no check failed, 1 a check failed, 2 wrong usage.";

/// Limit for one check. A check that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The form of the answer.
#[derive(Debug, clap::Args)]
pub struct DoctorOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    /// No check failed.
    ok: bool,
    conclusion: String,
    findings: &'a [Finding],
}

/// Returns `false` if a check failed.
pub(crate) async fn run(
    DoctorOptions { json }: DoctorOptions,
    config: impl FnOnce() -> Result<Config, config::ConfigError>,
) -> anyhow::Result<bool> {
    let findings = match config() {
        Ok(config) => Box::pin(examine(&config)).await,
        Err(error) => vec![Finding::failed(
            CheckArea::Configuration,
            "file",
            error.to_string(),
            "correct the file, then run `tidings config check`",
        )],
    };
    let report = DoctorReport {
        ok: findings.iter().all(|finding| finding.verdict != Verdict::Failed),
        conclusion: conclusion(&findings),
        findings: &findings,
    };
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        for finding in &findings {
            anstream::println!("{finding}");
        }
        anstream::println!("\n{}", report.conclusion);
    }
    Ok(report.ok)
}

async fn examine(config: &Config) -> Vec<Finding> {
    let store = within(storage::open(&config.database_url));
    let temporal = within(async { Ok(config.temporal.connect().await?) });
    let (mut findings, relays, store, temporal) =
        tokio::join!(probes::configuration(config), probes::relays(config), store, temporal);
    findings.extend(match &store {
        Ok(store) => probes::database(config, &**store).await,
        Err(error) => vec![unreachable(CheckArea::Database, error)],
    });
    findings.extend(match &temporal {
        Ok(temporal) => probes::temporal(temporal, store.as_ref().ok()).await,
        Err(error) => vec![unreachable(CheckArea::Temporal, error)],
    });
    findings.extend(relays);
    findings.extend(match (&store, &temporal) {
        (Ok(store), Ok(temporal)) => Box::pin(probes::work(config, &**store, temporal)).await,
        _ => vec![Finding::skipped(CheckArea::Work, "backlog", "needs the database and Temporal")],
    });
    findings.extend(probes::machine());
    findings
}

async fn within<T>(check: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    timeout(PATIENCE, check).await.with_context(|| format!("no response within {PATIENCE:?}"))?
}

/// The error says what to do, too.
fn unreachable(area: CheckArea, error: &anyhow::Error) -> Finding {
    Finding::failed(area, "connection", in_words(error), "")
}
