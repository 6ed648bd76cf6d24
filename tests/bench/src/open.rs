//! Measures the cost of open windows that wait: a worker's memory and the time of a status query.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::{
    figure::{Figure, Target, percentile},
    rounds::Rounds,
    worker::Tidings,
};

/// A cadence whose windows stay open for longer than a measurement.
const CADENCE: &str = "after 6h";
/// Queries of a measurement, spread over all windows.
const QUERIES: usize = 500;

/// A worker's memory and the status query with this many open windows; compared with a worker that has none
#[derive(Args)]
pub struct Open {
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
    windows: Vec<usize>,
}

impl Open {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for windows in self.windows.iter().copied() {
            let of = |what: &str| format!("{windows} windows, {what}");
            let mut memory = Figure::new(of("memory"), "MiB").against("without windows").target(Target::AtMost(512.0));
            let mut middle = Figure::new(of("a status query, median"), "ms").against("of one window");
            let mut slow = Figure::new(of("a status query, p99"), "ms").against("of one window");
            for round in 0..rounds.count {
                rounds.say(round, &format!("{windows} windows open"));
                let mut tidings = Tidings::start(CADENCE, Duration::ZERO).await?;
                tidings.start_worker()?;
                tidings.open(0..1).await?;
                let (alone, one) = (tidings.memory()?, queries(&tidings, 1).await?);
                tidings.open(1..windows).await?;
                memory.push_both(tidings.memory()?, alone);
                rounds.say(round, &format!("{windows} windows are asked for their status"));
                let many = queries(&tidings, windows).await?;
                middle.push_both(percentile(&many, 50), percentile(&one, 50));
                slow.push_both(percentile(&many, 99), percentile(&one, 99));
            }
            figures.extend([memory, middle, slow]);
        }
        Ok(figures)
    }
}

/// Milliseconds of each query, spread over all windows.
async fn queries(tidings: &Tidings, windows: usize) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for n in 0..QUERIES {
        let asked = Instant::now();
        tidings.planned((n * 7_919) % windows).await?;
        took.push(asked.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(took)
}
