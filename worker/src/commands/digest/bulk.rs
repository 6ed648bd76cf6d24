//! One command to many keys at a limited rate. It is safe to run again: completed keys have nothing left to do.

use std::collections::BTreeSet;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use temporalio_client::Client as Temporal;
use tidings_client::{WorkflowCommands, commands::CommandResult};
use tidings_model::{Key, command::CommandContext, job::JobTask};
use tidings_operations::{at_rate, key_filter::KeyFilter};

use crate::{Config, client::explain_unanswered, phrases::format_count};

/// Returns `false` if a key failed. Fails only if Temporal is unreachable.
pub(super) async fn run(
    config: &Config,
    filter: &KeyFilter,
    task: &JobTask,
    order: &CommandContext,
    rate: u32,
    json: bool,
) -> anyhow::Result<bool> {
    let temporal = crate::installation::connect(config).await?;
    let keys = select_keys(config, filter, &temporal).await?;
    let commands = &WorkflowCommands::new(temporal, &config.task_queue);
    let mut report = BulkReport::new(keys.len(), json)?;
    let send = |key: Key| async move {
        let done = commands.digest(&key).send(task, order.clone(), true).await;
        (done.map_err(|error| explain_unanswered(&key, error)), key)
    };
    at_rate(keys, rate, send, |(answer, key)| report.record_result(&key, answer)).await;
    Ok(report.end())
}

/// `--dry-run`: sends nothing.
pub(super) async fn list(config: &Config, filter: &KeyFilter, as_json: bool) -> anyhow::Result<bool> {
    let temporal = crate::installation::connect(config).await?;
    let keys = select_keys(config, filter, &temporal).await?;
    anstream::println!("{}", keys_in_words(&keys, as_json));
    Ok(true)
}

async fn select_keys(config: &Config, filter: &KeyFilter, temporal: &Temporal) -> anyhow::Result<BTreeSet<Key>> {
    let mut keys = BTreeSet::new();
    for filter in filter.under_each_name(&config.names) {
        keys.extend(filter.keys(temporal).await.context("cannot list the keys in Temporal")?);
    }
    Ok(keys)
}

fn keys_in_words(keys: &BTreeSet<Key>, as_json: bool) -> String {
    let names: Vec<_> = keys.iter().map(ToString::to_string).collect();
    if as_json {
        return json!({"keys": names}).to_string();
    }
    let last = format!("{}; no command was sent (--dry-run)", format_count(names.len() as u64, "key"));
    names.into_iter().chain([last]).collect::<Vec<_>>().join("\n")
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct BulkSummary {
    done: u64,
    nothing_to_do: u64,
    failed: u64,
}

/// Progress bar on a terminal, failures as they happen, totals at the end.
struct BulkReport {
    json: bool,
    bar: ProgressBar,
    summary: BulkSummary,
}

impl BulkReport {
    fn new(keys: usize, json: bool) -> anyhow::Result<Self> {
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} keys, {eta} left")?;
        Ok(Self { json, bar: ProgressBar::new(keys as u64).with_style(style), summary: BulkSummary::default() })
    }

    fn record_result(&mut self, key: &Key, answer: anyhow::Result<CommandResult>) {
        let name = key.to_string();
        let said = match &answer {
            Ok(done) => json!({"key": name, "answer": done}),
            Err(error) => json!({"key": name, "failed": format!("{error:#}")}),
        };
        match &answer {
            Ok(done) if done.is_nothing() => self.summary.nothing_to_do += 1,
            Ok(_) => self.summary.done += 1,
            Err(_) => self.summary.failed += 1,
        }
        self.bar.suspend(|| match answer {
            _ if self.json => anstream::println!("{said}"),
            Err(error) => anstream::eprintln!("{RED}failed{RED:#}: {error:#}"),
            Ok(_) => {}
        });
        self.bar.inc(1);
    }

    fn end(self) -> bool {
        self.bar.finish_and_clear();
        let BulkSummary { done, nothing_to_do, failed } = self.summary;
        if self.json {
            anstream::println!("{}", json!(self.summary));
        } else {
            let keys = format_count(done + nothing_to_do + failed, "key");
            anstream::println!("{keys}: {done} done, {nothing_to_do} with nothing to do, {failed} failed");
        }
        failed == 0
    }
}

const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default();

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use tidings_model::command::FlushResult;

    use super::*;

    #[test]
    fn a_key_that_failed_is_the_only_one_that_spoils_the_run() {
        let key: Key = "acme/alerts/ann".parse().unwrap();
        let answer = |events| Ok(CommandResult::Flushed(FlushResult { events, ..FlushResult::default() }));
        let mut report = BulkReport::new(3, false).unwrap();
        report.record_result(&key, answer(1));
        report.record_result(&key, answer(0));
        assert_eq!(report.summary, BulkSummary { done: 1, nothing_to_do: 1, failed: 0 });
        report.record_result(&key, Ok(CommandResult::Flushed(FlushResult { hurried: true, ..FlushResult::default() })));
        assert_eq!(report.summary.done, 2, "a digest that waited for its next attempt goes out");
        report.record_result(&key, Err(anyhow!("no answer")));
        assert_eq!(report.summary.failed, 1);
        assert!(!report.end());
    }

    #[test]
    fn a_dry_run_shows_the_keys_and_how_many() {
        let keys = ["acme/alerts/ann", "acme/alerts/bob"].map(|key| key.parse().unwrap()).into();
        assert_eq!(
            keys_in_words(&keys, false),
            "acme/alerts/ann\nacme/alerts/bob\n2 keys; no command was sent (--dry-run)"
        );
        assert_eq!(keys_in_words(&keys, true), r#"{"keys":["acme/alerts/ann","acme/alerts/bob"]}"#);
        assert_eq!(keys_in_words(&BTreeSet::new(), false), "0 keys; no command was sent (--dry-run)");
    }
}
