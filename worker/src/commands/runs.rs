//! `tidings runs`: runs that ended without their code, or that no worker can execute (rule 54).

use anyhow::bail;
use jiff::Timestamp;
use serde_json::json;
use tidings_model::troubled_run::{RunResolution, TroubledRun};
use tidings_operations::stats::troubled_runs;
use uuid::Uuid;

use crate::{
    Config,
    args::RequiredReason,
    error::UsageError,
    phrases::{format_count, local},
    storage,
};

const MOST: u32 = 10_000;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tidings runs list                       each run, with the command to run
  tidings runs list --tenant acme --json
  tidings runs dismiss digest/acme/activity/ann --run 1f6c... --why 'a test'

Workers check every 5 seconds, and recover what nobody ended on purpose: runs that timed out or failed, or were ended by a
start, a reset or a limit of Temporal. This lists the rest. A recovered run leaves the list.";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs, latest first
    #[command(after_help = "Example: tidings runs list --tenant acme --json")]
    List(RunListOptions),
    /// Remove a run from the list without recovering it; its events are never sent
    #[command(
        after_help = "Example: tidings runs dismiss digest/acme/activity/ann --run 0192f0c1-7a55-4e0c-8f0e-2b1c93f46a52 --why 'a test'"
    )]
    Dismiss(DismissOptions),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunListOptions {
    /// Only this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Maximum number of runs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DismissOptions {
    /// The workflow id
    #[arg(value_name = "WORKFLOW-ID")]
    workflow: String,
    /// The run
    #[arg(long, value_name = "ID")]
    run: Uuid,
    #[command(flatten)]
    reason: RequiredReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: RunsCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        RunsCommand::List(options) => list(options, config).await,
        RunsCommand::Dismiss(options) => dismiss(options, config).await,
    }
}

async fn list(
    RunListOptions { tenant, limit, json: as_json }: RunListOptions,
    config: &Config,
) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let runs = troubled_runs(&*store, &config.task_queue, tenant.as_deref(), limit).await?;
    if as_json {
        anstream::println!("{}", json!(runs));
    } else if runs.is_empty() {
        anstream::println!("no run waits for an operator");
    } else {
        anstream::println!("{}", runs.iter().map(in_words).collect::<Vec<_>>().join("\n"));
    }
    Ok(true)
}

async fn dismiss(options: DismissOptions, config: &Config) -> anyhow::Result<bool> {
    let DismissOptions { workflow, run, reason, json: as_json } = options;
    let order = reason.into_order()?;
    let store = storage::open(&config.database_url).await?;
    let run = run.to_string();
    let listed = store.troubled_runs(None, u32::MAX).await?.into_iter().map(|listed| listed.run);
    let Some(found) = listed.into_iter().find(|found| found.id.workflow_id == workflow && found.id.run_id == run)
    else {
        bail!(UsageError(format!("{workflow} has no run {run} in the list; see `tidings runs list`")));
    };
    let now = Timestamp::now();
    let entry = order.audit_entry("dismiss_run", now);
    store.resolve_run(&found, &config.task_queue, RunResolution::Dismissed, Some(&entry), now).await?;
    let text =
        if as_json { json!({ "dismissed": run }).to_string() } else { format!("{workflow}: run {run} is dismissed") };
    anstream::println!("{text}");
    Ok(true)
}

pub(super) fn in_words(run: &TroubledRun) -> String {
    let TroubledRun { workflow_id, run_id, trouble, since, by, why, remedy } = run;
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let why = why.as_ref().filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default();
    let what = trouble.trouble_phrase();
    format!("{workflow_id}  run {run_id}\n  {what} {}{by}{why}\n  {remedy}", local(*since))
}

pub(super) fn runs_summary(runs: u64) -> String {
    format!("{} in trouble; `tidings runs list` has the commands to run:", format_count(runs, "run"))
}

#[cfg(test)]
mod tests {
    use tidings_model::troubled_run::RunTrouble;

    use super::*;

    #[test]
    fn a_run_is_listed_with_its_end_and_the_command_to_run() {
        let since = Timestamp::from_second(1_800_000_000).unwrap();
        let at = local(since);
        let mut run = TroubledRun {
            workflow_id: "digest/acme/activity/ann".into(),
            run_id: "r1".into(),
            trouble: RunTrouble::Terminated,
            since,
            by: Some("bo@desk".into()),
            why: Some("by mistake".into()),
            remedy: "tidings recover acme/activity/ann --run r1 --why REASON".into(),
        };
        assert_eq!(
            in_words(&run),
            format!(
                "digest/acme/activity/ann  run r1\n  terminated at {at} by bo@desk: by mistake\n  \
                 tidings recover acme/activity/ann --run r1 --why REASON"
            )
        );
        (run.trouble, run.by, run.why) = (RunTrouble::WrongType, None, None);
        assert!(in_words(&run).contains(&format!("\n  of another workflow type, started at {at}\n  ")));
    }
}
