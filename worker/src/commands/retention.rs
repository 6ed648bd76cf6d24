//! `tidings upkeep`: what the schedule starts every night, by hand.

use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::{Client, WorkflowGetResultOptions, WorkflowHandle, WorkflowQueryOptions};
use tidings_model::retention::{Cutoff, Kind};
use tidings_workflows::{RetentionRun, retention::Report};
use tracing::{Instrument as _, debug_span};

use crate::{Config, storage, worker::retention_schedule};

/// Between two looks at how far it is.
const LOOK: Duration = Duration::from_secs(1);
/// The wait for a worker after which the bar says that none answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The commands about what is kept for a time only.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Deletes what is older than [retention] says, into the archive where there is one, as it happens every night
    #[command(after_help = "Examples:\n  \
        tidings upkeep run --dry-run\n  \
        tidings upkeep run\n\n\
        If upkeep is running already, this command waits for it. Ctrl-C stops the waiting, not the upkeep.")]
    Run {
        /// Only counts what would be deleted
        #[arg(long)]
        dry_run: bool,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

/// Carries out the command.
///
/// # Errors
/// The store or Temporal does not answer; upkeep was cancelled or terminated.
pub(crate) async fn run(Command::Run { dry_run, json }: Command, config: &Config) -> anyhow::Result<bool> {
    if dry_run {
        count(config, json).await?;
    } else {
        let report = purge(config).await?;
        let shown = if json { serde_json::to_string_pretty(&report)? } else { report.to_string() };
        anstream::println!("{shown}");
    }
    Ok(true)
}

/// The expired rows of one kind.
#[derive(Serialize)]
struct Expired {
    kind: Kind,
    before: Timestamp,
    rows: u64,
}

async fn count(config: &Config, json: bool) -> anyhow::Result<()> {
    let store = storage::open(&config.database_url).await?;
    let mut expired = Vec::new();
    for cutoff in config.retention.settings.cutoffs(Timestamp::now()) {
        let Cutoff { kind, before } = cutoff;
        expired.push(Expired { kind, before, rows: store.expired(cutoff).await? });
    }
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&expired)?);
        return Ok(());
    }
    for Expired { kind, before, rows } in &expired {
        anstream::println!("{} before {before:.0}: {rows} to delete", kind.words());
    }
    if expired.is_empty() {
        anstream::println!("{}", Report::default());
    }
    Ok(())
}

/// Starts it, unless it is under way, and waits for it.
async fn purge(config: &Config) -> anyhow::Result<Report> {
    let client = crate::installation::connect(config).await?;
    let running = client.get_workflow_handle(retention_schedule::start(&client, &config.task_queue).await?);
    let ending = debug_span!("temporal", call = "result", id = running.info().workflow_id);
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    tokio::select! {
        report = running.get_result(WorkflowGetResultOptions::default()).instrument(ending) => {
            bar.finish_and_clear();
            report.context("upkeep came to no end; what it deleted stays deleted, and the next one does the rest")
        }
        never = show(&running, &bar) => match never {},
    }
}

async fn show(running: &WorkflowHandle<Client, RetentionRun>, bar: &ProgressBar) -> std::convert::Infallible {
    loop {
        let span = debug_span!("temporal", call = "status", id = running.info().workflow_id);
        let asked = running.query(RetentionRun::status, (), WorkflowQueryOptions::default()).instrument(span);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(report)) => bar.set_message(report.to_string().replace('\n', "; ")),
            _ => bar.set_message("no worker answers; upkeep goes on when one does"),
        }
        bar.tick();
        tokio::time::sleep(LOOK).await;
    }
}
