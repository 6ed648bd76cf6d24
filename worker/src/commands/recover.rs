//! `tidings recover`: recovers the events of a terminated run from its history and the ledger (rule 31).

use std::fmt::Write as _;

use serde_json::json;
use tidings_activities::operations::recover::{OpenDigest, Recovered, Recovery};
use tidings_model::{Key, command::Reopened};
use uuid::Uuid;

use crate::{Config, args::Reason, client, commands::digest::reopen, phrases::counted, storage};

/// The run, the operator and the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    tidings recover acme/activity/ann --why 'terminated by mistake' --dry-run\n  \
    tidings recover acme/activity/ann --why 'terminated by mistake'\n\n\
    The run is one that was terminated, timed out or failed. First the digests that it had on its way go out, then its \
    events are emitted again; those that the ledger has in a digest already change nothing. It waits for up to a minute \
    for each of those digests.")]
pub struct Options {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// The run, where the key has had a later one since [default: its last]
    #[arg(long, value_name = "ID")]
    run: Option<Uuid>,
    #[command(flatten)]
    reason: Reason,
    /// Only list the digests and events to recover
    #[arg(long)]
    dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Recovers the run. `false` means that a digest was refused, or that an earlier run's history is gone.
///
/// # Errors
/// [`crate::error::Usage`] where `by` or `why` will not do; there is nothing to recover; Temporal, the store or all workers
/// do not answer.
pub(crate) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { key, run, reason, dry_run, json: as_json } = options;
    let order = reason.order()?;
    let temporal = config.temporal.connect().await?;
    let store = storage::open(&config.database_url).await?;
    let events = client::connect(config).await?;
    let run = run.map(|run| run.to_string());
    let (store, task_queue, run_id) = (&*store, config.task_queue.as_str(), run.as_deref());
    let recovery = Recovery { temporal: &temporal, events: &events, task_queue, store, key: &key, run_id };
    let recovered = if dry_run { recovery.dry_run().await? } else { recovery.run(&order).await? };
    let text = if as_json { json!(recovered).to_string() } else { in_words(&key, &recovered, dry_run) };
    anstream::println!("{text}");
    Ok(recovered.gone.is_empty() && recovered.digests.iter().all(|digest| digest.refused.is_none()))
}

fn in_words(key: &Key, recovered: &Recovered, dry_run: bool) -> String {
    let Recovered { run_id, ended, digests, events, retracts, returned, gone } = recovered;
    let mut text = format!("{key}: run {run_id} {ended}");
    for OpenDigest { digest_id, events, refused } in digests {
        let told = if dry_run {
            format!("digest {digest_id} would be reopened with {}", counted(*events, "event"))
        } else {
            reopen::in_words(*digest_id, &Reopened { events: *events, refused: refused.clone() })
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {told}");
    }
    let what = format!("{} and {}", counted(*events, "event"), counted(*retracts, "retract"));
    let told = if dry_run { "would be emitted" } else { "emitted" };
    let _ = write!(text, "\n  {what} {told} again; what the ledger knows changes nothing");
    if *returned > 0 {
        let opens = if dry_run { "would open" } else { "open" };
        let _ = write!(text, "\n  {} that failed digests returned {opens} a window", counted(*returned, "event"));
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
    use super::*;

    #[test]
    fn it_says_what_it_did_or_would_do() {
        let key: Key = "acme/activity/ann".parse().unwrap();
        let open = |refused| OpenDigest { digest_id: Uuid::nil(), events: 2, refused };
        let digests = vec![open(None), open(Some("it was sent".to_owned()))];
        let (run_id, gone) = ("run-1".to_owned(), vec!["run-0".to_owned()]);
        let recovered = Recovered { run_id, ended: "terminated", digests, events: 3, retracts: 1, returned: 2, gone };
        let id = Uuid::nil();
        assert_eq!(
            in_words(&key, &recovered, false),
            format!(
                "acme/activity/ann: run run-1 terminated\n  digest {id} goes out with 2 events\n  \
                 digest {id} stays as it is: it was sent\n  \
                 3 events and 1 retract emitted again; what the ledger knows changes nothing\n  \
                 2 events that failed digests returned open a window\n  \
                 run run-0 left its events unread, and Temporal has no history of it any more: they are lost"
            )
        );
        let dry = in_words(&key, &recovered, true);
        assert!(dry.contains(&format!("digest {id} would be reopened with 2 events")), "{dry}");
        assert!(dry.contains("would be emitted again"), "{dry}");
    }
}
