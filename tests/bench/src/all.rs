//! Runs every bench with its default sizes, each in a process of its own.

use std::{env, process::Command, time::Instant};

use anyhow::{Result, ensure};

/// Every bench, with the minutes that its default rounds take on two cores.
const BENCHES: [(&str, u64); 16] = [
    ("cost", 5),
    ("plan", 1),
    ("render", 1),
    ("smtp", 10),
    ("relays", 2),
    ("ingest", 10),
    ("http", 8),
    ("gateway", 4),
    ("digest", 30),
    ("flood", 12),
    ("open", 15),
    ("hot-key", 15),
    ("frozen-store", 25),
    ("spike", 5),
    ("herd", 35),
    ("soak", 65),
];

/// Runs every bench. A failed bench does not stop the others.
///
/// # Errors
/// When a bench failed. The error names all that failed.
pub fn run(rounds: Option<usize>, json: bool) -> Result<()> {
    let minutes: u64 = BENCHES.iter().map(|(_, minutes)| minutes).sum();
    eprintln!(
        "{} benches, {} hours or so on two cores with the default sizes and rounds; --rounds 1 takes about two thirds of it",
        BENCHES.len(),
        minutes.div_ceil(60)
    );
    let mut failed = Vec::new();
    for (name, minutes) in BENCHES {
        eprintln!("\n==> {name} (about {minutes} min)");
        let started = Instant::now();
        let mut command = Command::new(env::current_exe()?);
        command.arg(name).args(rounds.map(|rounds| format!("--rounds={rounds}"))).args(json.then_some("--json"));
        if command.status()?.success() {
            eprintln!("    {name}: {} s", started.elapsed().as_secs());
        } else {
            eprintln!("    {name}: failed");
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn all_runs_every_bench_that_help_lists() {
        let command = crate::Cli::command();
        let listed = command.get_subcommands().filter(|bench| !bench.is_hide_set()).map(clap::Command::get_name);
        let mut listed: Vec<_> = listed.filter(|name| !["all", "report"].contains(name)).collect();
        let mut run: Vec<_> = BENCHES.iter().map(|(name, _)| *name).collect();
        listed.sort_unstable();
        run.sort_unstable();
        assert_eq!(run, listed);
    }
}
