//! Replaces workers of one build by those of another and back, while windows are open: `./dev upgrade --help`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tidings_chaos::{RunOptions, upgrade};

/// Replaces workers of one build one by one by those of another, back, and forward again, while events arrive and
/// windows are open, then checks every guarantee. docs/upgrades.md describes it.
#[derive(Parser)]
struct Arguments {
    /// Binary `tidings` to upgrade from; the upgrade is to the binary next to this program
    #[arg(long)]
    old: PathBuf,
    #[command(flatten)]
    options: RunOptions,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Arguments { old, options } = Arguments::parse();
    let old = old.canonicalize().with_context(|| old.display().to_string())?;
    let (folder, target) = options.open("upgrade").await?;
    println!("all files are in {}", folder.display());
    let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template("{elapsed_precise} {bar:40} {msg}")?);
    let outcome = upgrade::run(old, &folder, target, &bar).await?;
    bar.finish_and_clear();
    println!("{outcome}");
    Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
