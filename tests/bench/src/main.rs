//! Measures Tidings and compares each figure with a baseline from the same run: `./dev bench NAME`.

mod all;
mod commit;
mod cost;
mod digest;
mod drift;
mod figure;
mod flood;
mod frozen_store;
mod gateway;
mod herd;
mod hot_key;
mod http;
mod ingest;
mod late;
mod ledger;
mod load;
mod machine;
mod open;
mod plan;
mod process;
mod queue;
mod relays;
mod render;
mod report;
mod rounds;
mod served;
mod shapes;
mod sink;
mod slot;
mod smtp;
mod soak;
mod spike;
mod table;
mod worker;

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use figure::{Figure, Report};
use indicatif::ProgressBar;
use machine::Machine;
use rounds::Rounds;

/// Measures Tidings and compares each figure with a baseline from the same run
#[derive(Parser)]
#[command(
    name = "./dev bench",
    after_help = "Examples:\n  ./dev bench flood --digests 1000\n  ./dev bench smtp --rounds 5 --json"
)]
struct Cli {
    /// Bench to run; without a name, every bench
    #[command(subcommand)]
    bench: Option<Bench>,
    /// Number of rounds, whose median counts [default: 3, and 1 for `herd` and `soak`]
    #[arg(long, global = true)]
    rounds: Option<usize>,
    /// Prints JSON, which is in target/bench/NAME.json in any case
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Bench {
    /// Every bench with its default sizes, one after the other: about four hours
    All,
    Ingest(ingest::Ingest),
    Http(http::Http),
    Gateway(gateway::Gateway),
    Digest(digest::Digest),
    Cost(cost::Cost),
    Plan(plan::Plan),
    Render(render::Render),
    Smtp(smtp::Smtp),
    Relays(relays::Relays),
    Flood(flood::Flood),
    Open(open::Open),
    HotKey(hot_key::HotKey),
    FrozenStore(frozen_store::FrozenStore),
    Spike(spike::Spike),
    Herd(herd::Herd),
    Soak(soak::Soak),
    Report(report::Report),
    /// An emitting process of `hot-key`.
    #[command(hide = true)]
    HotKeyEmitter(hot_key::Emitter),
    /// A worker in a process of its own.
    #[command(hide = true)]
    Worker(worker::Alone),
    /// An emitting process of `ingest`.
    #[command(hide = true)]
    IngestEmitter(ingest::Emitter),
}

impl Bench {
    /// The default number of rounds: one for benches that take long.
    const fn rounds(&self) -> usize {
        if matches!(self, Self::Herd(_) | Self::Soak(_)) { 1 } else { 3 }
    }

    /// Answers `true` for a process that another bench starts.
    const fn is_part(&self) -> bool {
        matches!(self, Self::HotKeyEmitter(_) | Self::Worker(_) | Self::IngestEmitter(_))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let Cli { bench, rounds: asked, json } = Cli::parse();
    let bench = bench.unwrap_or(Bench::All);
    let count = asked.unwrap_or_else(|| bench.rounds());
    ensure!(count > 0, "--rounds 0: nothing would be measured");
    let rounds = Rounds { count, progress: ProgressBar::new_spinner() };
    // The commit is read first, because the tree may change during a long bench.
    let commit = if bench.is_part() { None } else { commit::current() };
    let (name, figures) = match bench {
        Bench::Ingest(bench) => ("ingest", bench.run(&rounds).await?),
        Bench::Http(bench) => ("http", bench.run(&rounds).await?),
        Bench::Gateway(bench) => ("gateway", bench.run(&rounds).await?),
        Bench::Cost(bench) => ("cost", bench.run(&rounds).await?),
        Bench::Digest(bench) => ("digest", bench.run(&rounds).await?),
        Bench::Plan(bench) => ("plan", bench.run(&rounds)?),
        Bench::Render(bench) => ("render", bench.run(&rounds)?),
        Bench::Smtp(bench) => ("smtp", bench.run(&rounds).await?),
        Bench::Relays(bench) => ("relays", bench.run(&rounds).await?),
        Bench::Flood(bench) => ("flood", bench.run(&rounds).await?),
        Bench::Open(bench) => ("open", bench.run(&rounds).await?),
        Bench::HotKey(bench) => ("hot-key", bench.run(&rounds).await?),
        Bench::FrozenStore(bench) => ("frozen-store", bench.run(&rounds).await?),
        Bench::Spike(bench) => ("spike", bench.run(&rounds).await?),
        Bench::Herd(bench) => ("herd", bench.run(&rounds).await?),
        Bench::Soak(bench) => ("soak", bench.run(&rounds).await?),
        Bench::All => return all::run(asked, json),
        Bench::Report(report) => return report.run(&folder()?),
        Bench::HotKeyEmitter(emitter) => return emitter.run().await,
        Bench::Worker(worker) => return worker.run().await,
        Bench::IngestEmitter(emitter) => return emitter.run().await,
    };
    rounds.progress.finish_and_clear();
    keep(name, commit, figures, json)
}

/// Prints the report and writes it to `target/bench/NAME.json`.
fn keep(name: &str, commit: Option<String>, figures: Vec<Figure>, json: bool) -> Result<()> {
    let typed = env::args().skip(1).collect::<Vec<_>>().join(" ");
    let (command, machine) = (format!("./dev bench {typed}"), Machine::this()?);
    let report = Report { name: name.to_owned(), command, commit, machine, figures };
    let text = serde_json::to_string_pretty(&report)? + "\n";
    let folder = folder()?;
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{name}.json")), &text)?;
    print!("{}", if json { text } else { table::markdown(&report) });
    Ok(())
}

/// The folder `bench` in cargo's target folder.
fn folder() -> Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).context("the program is in no target folder")?;
    Ok(target.join("bench"))
}
