//! Replaces workers of one build of Tidings by those of another, and back, while windows are open. `./dev upgrade --help`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tidings_tests::{chaos::Target, upgrade};

/// Workers of one build are replaced by those of another one by one, back, and forward again, while events come and windows
/// are open; the checker judges. docs/upgrades.md tells of it.
#[derive(Parser)]
struct Arguments {
    /// The binary `tidings` that the upgrade is from; the one beside this program is what it is to
    #[arg(long)]
    old: PathBuf,
    #[arg(long, default_value = "sqlite")]
    store: Store,
    /// Where its files go [default: a new temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Arguments { old, store, folder } = Arguments::parse();
    let old = old.canonicalize().with_context(|| old.display().to_string())?;
    let folder = match folder {
        Some(folder) => std::fs::create_dir_all(&folder).map(|()| folder)?,
        None => tempfile::Builder::new().prefix("tidings-upgrade-").tempdir()?.keep(),
    };
    println!("all files are in {}", folder.display());
    let target = match store {
        Store::Sqlite => Target::sqlite(&folder),
        Store::Postgres => Target::postgres().await?.context("no PostgreSQL; see ./dev upgrade")?,
    };
    let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template("{elapsed_precise} {bar:40} {msg}")?);
    let outcome = upgrade::run(old, &folder, target, &bar).await?;
    bar.finish_and_clear();
    println!("{outcome}");
    Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
