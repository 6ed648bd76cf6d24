//! `tidings stats`: everything an operator should watch.

use std::{
    io::{IsTerminal as _, stdout},
    time::Duration,
};

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use temporalio_client::Client;
use tidings_model::{RelaysToday, statistics::StatisticsScope};
use tidings_operations::stats::{Stats, StatsQuery, stats};
use tidings_store::Store;

use crate::{
    Config,
    error::{OverdueError, RunsInTrouble},
    storage,
};

mod view;

pub(super) use view::attention;

/// Refresh interval for `--watch`.
const LOOK: Duration = Duration::from_secs(5);

pub(crate) const EXAMPLES: &str = "\
Examples:
  tidings stats                            the last 24 hours
  tidings stats --watch                    the same, every 5 seconds
  tidings stats --tenant acme --since 7d --json
  tidings stats --overdue-after 15m        for cron: exits with 3 if digests are late

A key counts as open while its workflow runs, also while it lingers. Keys whose producer set no search attributes count, too,
because the workflow id has their tenant and type. A window that is due while no worker runs shows as backlog of the task queue.
Digests whose events retention has deleted are not counted.

Temporal before 1.28 does not report that backlog: with --overdue-after the command fails there, unless a digest is known to be late.

Runs in trouble ended without their code, or no worker can execute them; `tidings runs list` has the command for each.

Exit codes: 0 ok, 1 failed, 2 wrong usage or configuration, 3 a run in trouble waits for you; with --overdue-after, 3 a digest is
overdue, or a run in trouble, for longer than that.";

/// The span, the tenant and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct StatsOptions {
    /// Refresh in place every 5 seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Also show idle task queues
    #[arg(long)]
    all: bool,
    /// Only this tenant; the backlog, the breakers, the inbox, the webhook events and the oldest waiting task are those of all tenants
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The span of ended digests, dead letters, bounces and complaints, as in `24h` or `7d`
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = parse_span)]
    since: SignedDuration,
    /// Exit with 3 if a digest is overdue by more than this, or a run in trouble for longer, as in `15m`
    #[arg(long, value_name = "SPAN", value_parser = parse_span, conflicts_with = "watch")]
    overdue_after: Option<SignedDuration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A day has 24 hours.
fn parse_span(text: &str) -> Result<SignedDuration, String> {
    let parsed = text.parse::<jiff::Span>().ok().and_then(|span| {
        let days_are_24_hours = jiff::SpanRelativeTo::days_are_24_hours();
        span.to_duration(days_are_24_hours).ok()
    });
    let wrong = || "is not a span; write for example 15m, 24h or 7d".to_owned();
    parsed.filter(|span| span.is_positive() && *span <= SignedDuration::from_hours(24 * 3_660)).ok_or_else(wrong)
}

/// Fails with [`OverdueError`] or [`RunsInTrouble`] (exit code 3).
pub(crate) async fn run(options: StatsOptions, config: &Config) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let temporal = crate::installation::connect(config).await?;
    loop {
        let now = Timestamp::now();
        let scope = StatisticsScope { tenant: options.tenant.clone(), since: now - options.since, now };
        let answer = collect_stats(scope, config, &*store, &temporal).await?;
        print_stats(&answer, &options)?;
        if !options.watch {
            return check_overdue(&answer, options.overdue_after).map(|()| true);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            stopped = tokio::signal::ctrl_c() => return Ok(stopped.map(|()| true)?),
        }
    }
}

/// The last 24 hours of all tenants.
pub(super) async fn collect_latest(config: &Config, store: &dyn Store, temporal: &Client) -> anyhow::Result<Stats> {
    let now = Timestamp::now();
    let scope = StatisticsScope { tenant: None, since: now - SignedDuration::from_hours(24), now };
    collect_stats(scope, config, store, temporal).await
}

async fn collect_stats(
    scope: StatisticsScope,
    config: &Config,
    store: &dyn Store,
    temporal: &Client,
) -> anyhow::Result<Stats> {
    let settings = config.unchecked_settings();
    let relays = RelaysToday::from_settings(&settings);
    let providers = settings.relays.into_iter().map(|(name, relay)| (name, relay.provider)).collect();
    Ok(stats(&StatsQuery { store, temporal, task_queue: &config.task_queue, providers, relays, scope }).await?)
}

fn print_stats(answer: &Stats, options: &StatsOptions) -> anyhow::Result<()> {
    let text = match (options.json, options.watch) {
        (true, true) => serde_json::to_string(answer)?,
        (true, false) => serde_json::to_string_pretty(answer)?,
        (false, _) => view::in_words(answer, options.since, options.all),
    };
    if options.watch && !options.json && stdout().is_terminal() {
        // Cursor home, clear the rest of each line, then everything below.
        anstream::print!("\x1b[H{}\x1b[K\n\x1b[J", text.replace('\n', "\x1b[K\n"));
    } else {
        anstream::println!("{text}");
    }
    Ok(())
}

/// Fails if a run is in trouble. With `after`, fails only if a digest is overdue or a run in trouble for
/// longer than this, or if an unknown backlog might hide a late digest.
fn check_overdue(answer: &Stats, after: Option<SignedDuration>) -> anyhow::Result<()> {
    let Some(after) = after else {
        let runs = answer.troubled_run_count;
        return if runs == 0 { Ok(()) } else { Err(RunsInTrouble(runs).into()) };
    };
    let age = view::seconds(answer.oldest_overdue_seconds.max(answer.oldest_troubled_run_seconds));
    if age > after {
        return Err(OverdueError { age: view::format_span(age), accepted: view::format_span(after) }.into());
    }
    ensure!(
        answer.task_queues.iter().all(|queue| queue.backlog_seconds.is_some()),
        "--overdue-after cannot see windows that wait for a worker: Temporal before 1.28 does not report the backlog of task queues"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_days_of_24_hours_and_is_positive() {
        for (text, hours) in [("24h", 24), ("7d", 168), ("1d 2h", 26), ("60m", 1)] {
            assert_eq!(parse_span(text), Ok(SignedDuration::from_hours(hours)), "{text}");
        }
        for wrong in ["", "-1h", "0s", "tomorrow", "24", "9999999d"] {
            assert!(parse_span(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn late_means_overdue_by_more_than_the_given_span() {
        for (after, late) in [(4_199, true), (4_200, false), (4_201, false)] {
            let checked = check_overdue(&view::tests::sample(), Some(SignedDuration::from_secs(after)));
            assert_eq!(checked.is_err(), late, "{after:?}");
        }
    }

    #[test]
    fn without_a_span_a_run_that_waits_for_a_person_counts_at_once() {
        let mut answer = view::tests::sample();
        assert!(check_overdue(&answer, None).is_err_and(|error| error.is::<RunsInTrouble>()));
        answer.troubled_run_count = 0;
        assert!(check_overdue(&answer, None).is_ok(), "late digests count with a span only");
    }

    #[test]
    fn a_server_that_does_not_report_the_backlog_is_never_in_time() {
        let mut answer = view::tests::sample();
        answer.task_queues[0].backlog_seconds = None;
        answer.troubled_run_count = 0;
        assert!(check_overdue(&answer, None).is_ok(), "without a span nothing is late");
        let checked = |after| {
            check_overdue(&answer, Some(SignedDuration::from_secs(after))).map_err(|error| error.is::<OverdueError>())
        };
        assert_eq!(checked(4_200), Err(false));
        assert_eq!(checked(4_199), Err(true), "late is late");
    }
}
