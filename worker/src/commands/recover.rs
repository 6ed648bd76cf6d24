//! `tidings recover`: recovers the events of terminated runs from their histories and the ledger (rule 31).

use std::fmt::Write as _;

use serde_json::json;
use tidings_model::{
    Key,
    command::{HoldCommand, ReopenResult},
    troubled_run::RunResolution,
};
use tidings_operations::recover::{EndedRun, OpenDigest, RecoverError, RecoveryReport, RunRecovery};
use uuid::Uuid;

use crate::{
    Config,
    args::RequiredReason,
    client,
    commands::digest,
    phrases::{format_count, local},
    storage,
};

/// The run, the operator and the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    tidings recover acme/activity/ann --why 'terminated by mistake' --dry-run\n  \
    tidings recover acme/activity/ann --why 'terminated by mistake'\n\n\
    Recovers the runs of the key that were terminated, timed out or failed and are not recovered yet. First, a run of another \
    workflow type or task queue, which no worker can execute, is terminated. A hold of the last run is restored. Then the \
    digests that the runs were delivering are sent, and their events are emitted again; those already in a digest of the \
    ledger change nothing. The command waits up to a minute for each of those digests.")]
pub struct RecoverOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Only this run, even if already recovered [default: all runs of the key that are not recovered yet]
    #[arg(long, value_name = "ID")]
    run: Option<Uuid>,
    #[command(flatten)]
    reason: RequiredReason,
    /// Only list the digests and events to recover
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if a digest was refused, or the history of an earlier run is gone.
pub(crate) async fn run(options: RecoverOptions, config: &Config) -> anyhow::Result<bool> {
    let RecoverOptions { key, run, reason, dry_run, json: as_json } = options;
    let order = reason.into_order()?;
    let temporal = crate::installation::connect(config).await?;
    let store = storage::open(&config.database_url).await?;
    let events = client::connect(config).await?;
    let run = run.map(|run| run.to_string());
    let (store, task_queue, run_id) = (&*store, config.task_queue.as_str(), run.as_deref());
    let recovery = RunRecovery { temporal: &temporal, events: &events, task_queue, store, key: &key, run_id };
    let recovered = if dry_run { recovery.dry_run().await } else { recovery.run(&order, RunResolution::ByHand).await };
    let recovered = match recovered {
        Err(healthy @ (RecoverError::NotNeeded { .. } | RecoverError::NothingLeft { .. })) => {
            let text = json!({ "key": key, "nothing_to_recover": healthy.to_string() }).to_string();
            anstream::println!("{}", if as_json { text } else { format!("nothing to recover: {healthy}") });
            return Ok(true);
        }
        recovered => recovered?,
    };
    let text = if as_json { json!(recovered).to_string() } else { in_words(&key, &recovered, dry_run) };
    anstream::println!("{text}");
    Ok(recovered.gone.is_empty() && recovered.digests.iter().all(|digest| digest.refused.is_none()))
}

fn in_words(key: &Key, recovered: &RecoveryReport, dry_run: bool) -> String {
    let RecoveryReport { run_id, ended, earlier, hold, digests, events, retracts, returned, gone } = recovered;
    let mut text = format!("{key}: run {run_id} {ended}");
    for EndedRun { run_id, ended, .. } in earlier {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "\n  and run {run_id} {ended}");
    }
    if let Some(HoldCommand { order, until }) = hold {
        let until = until.map_or_else(|| "released".to_owned(), local);
        let again = if dry_run { "would be on hold again" } else { "is on hold again" };
        let _ = write!(text, "\n  the key {again} until {until}, by {}: {}", order.by, order.why);
    }
    for OpenDigest { digest_id, events, refused } in digests {
        let told = if dry_run {
            format!("digest {digest_id} would be reopened with {}", format_count(*events, "event"))
        } else {
            digest::describe_reopened(*digest_id, &ReopenResult { events: *events, refused: refused.clone() })
        };
        let _ = write!(text, "\n  {told}");
    }
    let what = format!("{} and {}", format_count(*events, "event"), format_count(*retracts, "retract"));
    let told = if dry_run { "would be emitted" } else { "emitted" };
    let _ = write!(text, "\n  {what} {told} again; events already in the ledger change nothing");
    if *returned > 0 {
        let opens = if dry_run { "would open" } else { "open" };
        let _ = write!(text, "\n  {} that failed digests returned {opens} a window", format_count(*returned, "event"));
    }
    for run in gone {
        let _ = write!(
            text,
            "\n  run {run} left its events unread, and Temporal has no history of it any more: they are lost"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use tidings_model::command::CommandContext;

    use super::*;

    #[test]
    fn it_says_what_it_did_or_would_do() {
        let key: Key = "acme/activity/ann".parse().unwrap();
        let open = |refused| OpenDigest { digest_id: Uuid::nil(), events: 2, refused };
        let digests = vec![open(None), open(Some("it was sent".to_owned()))];
        let (run_id, gone) = ("run-1".to_owned(), vec!["run-0".to_owned()]);
        let order = CommandContext { by: "bo".to_owned(), why: "wrong prices".to_owned() };
        let recovered = RecoveryReport {
            run_id,
            ended: "terminated",
            earlier: Vec::new(),
            hold: Some(HoldCommand { order, until: None }),
            digests,
            events: 3,
            retracts: 1,
            returned: 2,
            gone,
        };
        let id = Uuid::nil();
        assert_eq!(
            in_words(&key, &recovered, false),
            format!(
                "acme/activity/ann: run run-1 terminated\n  \
                 the key is on hold again until released, by bo: wrong prices\n  digest {id} is sent with 2 events\n  \
                 digest {id} is unchanged: it was sent\n  \
                 3 events and 1 retract emitted again; events already in the ledger change nothing\n  \
                 2 events that failed digests returned open a window\n  \
                 run run-0 left its events unread, and Temporal has no history of it any more: they are lost"
            )
        );
        let dry = in_words(&key, &recovered, true);
        assert!(dry.contains(&format!("digest {id} would be reopened with 2 events")), "{dry}");
        assert!(dry.contains("would be emitted again"), "{dry}");
    }
}
