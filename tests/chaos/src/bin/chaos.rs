//! Breaks everything around a loaded Tidings and judges the result with the checker: `./dev chaos --help`.

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tidings_chaos::{Plan, RunOptions, libfaketime};
use uuid::Uuid;

/// Kills, pauses and starves everything around a loaded Tidings by a schedule that follows from a seed, then checks
/// every guarantee. docs/testing.md describes it.
#[derive(Parser)]
#[command(name = "./dev chaos")]
struct Arguments {
    /// Duration of load and faults; settling takes some minutes more
    #[arg(long, value_name = "N", default_value = "5")]
    minutes: f64,
    /// Seed of the schedule: the same seed and minutes make the same schedule [default: a new one]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Events a second that are posted while Temporal is away for long
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rate: u32,
    /// Restart workers and gateway with another file, link key and clock every few seconds instead of breaking things
    #[arg(long, conflicts_with = "rate")]
    changes: bool,
    #[command(flatten)]
    options: RunOptions,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Arguments { minutes, seed, rate, changes, options } = Arguments::parse();
    let length = Duration::try_from_secs_f64(60.0 * minutes).context("--minutes")?;
    let seed = seed.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0 % 1_000_000);
    let (folder, target) = options.open("chaos").await?;
    println!("seed {seed}, {minutes} minutes, {}", folder.display());
    if changes && libfaketime().is_none() {
        println!("libfaketime is not installed (Debian: apt-get install faketime): all processes share one clock");
    }
    let plan = if changes { Plan::changing(seed, length) } else { Plan::new(seed, length, rate) };
    let outcome = tidings_chaos::run(plan, &folder, target, &bar(length)?).await?;
    println!("{outcome}");
    Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn bar(length: Duration) -> Result<ProgressBar> {
    if !std::io::stdout().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:40} {msg}")?;
    Ok(ProgressBar::new(length.as_secs()).with_style(style))
}
