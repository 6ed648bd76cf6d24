//! The binary `tidings`. Exit codes: 0 ok, 1 failed or partly rejected, 2 wrong usage or configuration, 3 digests are overdue (`stats`).

use std::process::ExitCode;

use clap::Parser as _;
use tidings::{cli::Arguments, error::exit_code, log};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = log::start(&arguments.log) {
        return failed(&error);
    }
    match Box::pin(arguments.run()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    anstream::eprintln!("{RED}error:{RED:#} {error:#}");
    exit_code(error)
}

const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();
