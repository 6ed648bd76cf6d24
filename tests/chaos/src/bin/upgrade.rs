//! Replaces workers of one build of Tidings by those of another, and back, while windows are open. `./dev upgrade --help`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tidings_chaos::{RunOptions, upgrade};

/// Workers of one build are replaced by those of another one by one, back, and forward again, while events come and windows
/// are open; the checker judges. docs/upgrades.md tells of it.
#[derive(Parser)]
struct Arguments {
    /// The binary `tidings` that the upgrade is from; the one beside this program is what it is to
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
