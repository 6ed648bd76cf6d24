//! `tidings retention`: the nightly upkeep by hand.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use temporalio_client::{Client, WorkflowGetResultOptions, WorkflowHandle, WorkflowQueryOptions};
use tidings_model::{
    command::CommandContext,
    records::AuditEntry,
    retention::{RetentionCutoff, RetentionKind},
};
use tidings_services::processes::require_agreement;
use tidings_store::archive::Archive;
use tidings_workflows::{RetentionRun, retention::RetentionReport};
use tracing::{Instrument as _, debug_span};

use crate::{Config, args::RequiredReason, phrases::local, storage, worker::retention_schedule};

/// Poll interval for the progress bar.
const LOOK: Duration = Duration::from_secs(1);
/// After this, the progress bar shows that no worker responds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The commands about what is kept for a time only.
#[derive(Debug, clap::Subcommand)]
pub enum RetentionCommand {
    /// Archive and delete data older than [retention] allows, as happens every night
    #[command(after_help = "Examples:\n  \
        tidings retention run --dry-run\n  \
        tidings retention run\n\n\
        If a retention run is in progress, the command waits for it. Ctrl-C stops waiting, not the run.")]
    Run {
        /// Only count what would be deleted
        #[arg(long)]
        dry_run: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget an archive folder whose files are gone, so no erasure asks for it
    #[command(after_help = "Example:\n  \
        tidings retention forget-archive /var/lib/tidings/old --why 'its files were deleted on 24 November'\n\n\
        The store remembers each archive folder. An erasure that cannot read one of them exits with 1. Moved files still have lines\n\
        about erased people: instead of this command, make them visible under the old path with a mount or a link.")]
    ForgetArchive {
        /// The folder, as the erasure named it
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        #[command(flatten)]
        reason: RequiredReason,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Returns `false` if nothing was archived to the folder.
pub(crate) async fn run(command: RetentionCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        RetentionCommand::Run { dry_run: true, json } => count_expired(config, json).await?,
        RetentionCommand::Run { dry_run: false, json } => {
            let report = run_upkeep(config).await?;
            let shown = if json { serde_json::to_string_pretty(&report)? } else { report.to_string() };
            anstream::println!("{shown}");
        }
        RetentionCommand::ForgetArchive { folder, reason, json } => {
            return forget_archive(folder, reason, json, config).await;
        }
    }
    Ok(true)
}

async fn forget_archive(
    folder: PathBuf,
    reason: RequiredReason,
    as_json: bool,
    config: &Config,
) -> anyhow::Result<bool> {
    let CommandContext { by, why } = reason.into_order()?;
    let folder = Archive::new(folder).absolute_path();
    let store = storage::open(&config.database_url).await?;
    let entry = AuditEntry {
        at: Timestamp::now(),
        actor: by.into(),
        action: "forget archive".to_owned(),
        why: format!("{folder}: {why}"),
    };
    let known = store.forget_archive(&folder, &entry).await?;
    if as_json {
        anstream::println!("{}", json!({ "folder": folder, "forgotten": known }));
    } else if known {
        anstream::println!("forgotten: {folder}");
    } else {
        anstream::eprintln!("nothing was archived to {folder}");
    }
    Ok(known)
}

#[derive(Serialize)]
struct ExpiredCount {
    kind: RetentionKind,
    before: Timestamp,
    rows: u64,
}

async fn count_expired(config: &Config, json: bool) -> anyhow::Result<()> {
    let store = storage::open(&config.database_url).await?;
    let mut expired = Vec::new();
    for cutoff in config.retention.settings.cutoffs(Timestamp::now()) {
        let RetentionCutoff { kind, before } = cutoff;
        expired.push(ExpiredCount { kind, before, rows: store.count_expired(cutoff).await? });
    }
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(&expired)?);
        return Ok(());
    }
    for ExpiredCount { kind, before, rows } in &expired {
        anstream::println!("{} before {}: {rows} to delete", kind.display_name(), local(*before));
    }
    if expired.is_empty() {
        anstream::println!("{}", RetentionReport::default());
    }
    Ok(())
}

/// If upkeep is running, waits for it. Checks first that the workers agree, because otherwise upkeep would
/// wait.
async fn run_upkeep(config: &Config) -> anyhow::Result<RetentionReport> {
    require_agreement(&*storage::open(&config.database_url).await?, None).await?;
    let client = crate::installation::connect(config).await?;
    let running = client.get_workflow_handle(retention_schedule::trigger_run(&client, &config.task_queue).await?);
    let ending = debug_span!("temporal", call = "result", id = running.info().workflow_id);
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    tokio::select! {
        report = running.get_result(WorkflowGetResultOptions::default()).instrument(ending) => {
            bar.finish_and_clear();
            report.context("retention did not finish; what it deleted stays deleted, and the next run does the rest")
        }
        never = show_progress(&running, &bar) => match never {},
    }
}

async fn show_progress(running: &WorkflowHandle<Client, RetentionRun>, bar: &ProgressBar) -> std::convert::Infallible {
    loop {
        let span = debug_span!("temporal", call = "status", id = running.info().workflow_id);
        let asked = running.query(RetentionRun::status, (), WorkflowQueryOptions::default()).instrument(span);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(report)) => bar.set_message(report.to_string().replace('\n', "; ")),
            _ => bar.set_message("no worker responds; retention continues when one does"),
        }
        bar.tick();
        tokio::time::sleep(LOOK).await;
    }
}
