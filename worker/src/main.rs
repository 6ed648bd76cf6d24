//! The binary `tidings`.

use clap::{Parser, Subcommand};

mod dev;

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs everything on this machine, with an inbox in the browser.
    Dev(dev::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Dev(args) => dev::run(args).await,
    }
}
