//! Measures the events that are accepted a second, for several numbers of keys and processes.

use std::{
    env,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use tempfile::TempDir;
use tidings::registration;
use tidings_client::{Client, Config, search_attributes};
use tidings_harness::{
    env::{activities, event, key, settings, sqlite},
    server::{DevServer, connect},
    signals::{json_events, signal_found_by},
    worker::Running,
};
use tidings_model::names;

use crate::{
    figure::{Figure, Target, count},
    rounds::Rounds,
    sink::Sink,
};

/// The server's error for signals after the 10,000th of a run. The thin client sends fewer.
const RUN_IS_FULL: &str = "exceeded workflow execution limit for signal events";
/// A cadence whose windows stay open for longer than a measurement.
const CADENCE: &str = "after 6h";

/// Events accepted by the client; compared with one SignalWithStart for each event.
#[derive(Args)]
pub struct Ingest {
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 10_000])]
    keys: Vec<usize>,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    processes: Vec<usize>,
}

/// The way of events to their workflows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// The thin client.
    Client,
    /// One SignalWithStart for each event, with the client's search attributes.
    Naive,
}

impl Way {
    /// Concurrent events of all processes. More made neither way faster
    const fn at_once(self) -> usize {
        match self {
            Self::Client => 20_000,
            Self::Naive => 100,
        }
    }
}

/// The role of a child process.
#[derive(Args)]
pub struct Emitter {
    way: Way,
    process: usize,
    processes: usize,
    keys: usize,
    seconds: u64,
    address: String,
}

impl Ingest {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for keys in self.keys.iter().copied() {
            for processes in self.processes.iter().copied() {
                let what = format!("{keys} keys, {processes} processes");
                let target = Target::Times(if keys == 100 { 20.0 } else { 1.0 });
                let mut figure = Figure::new(what, "events/s").against("a signal per event").target(target);
                for round in 0..rounds.count {
                    rounds.say(round, &format!("{}, the client", figure.what));
                    let ours = self.rate(Way::Client, keys, processes).await?;
                    rounds.say(round, &format!("{}, a signal per event", figure.what));
                    figure.push_both(ours, self.rate(Way::Naive, keys, processes).await?);
                }
                figures.push(figure);
            }
        }
        Ok(figures)
    }

    /// Measures events a second on a new server with a worker.
    async fn rate(&self, way: Way, keys: usize, processes: usize) -> Result<f64> {
        let (server, folder, sink) = (DevServer::start().await?, TempDir::new()?, Sink::start().await?);
        let activities = activities(sqlite(folder.path()).await?, &sink.url, settings(CADENCE, CADENCE))?;
        let worker =
            Running::start(server.client().await?, registration::digest_worker(names::TASK_QUEUE, activities)?)?;
        let way = way.to_possible_value().context("a hidden way")?;
        let counts = try_join_all((0..processes).map(|process| {
            let numbers = [process, processes, keys].map(|number| number.to_string());
            let mut command = Command::new(env::current_exe().unwrap_or_default());
            command
                .args(["ingest-emitter", way.get_name()])
                .args(numbers)
                .args([self.seconds.to_string(), server.target()])
                .env("TEMPORAL_ADDRESS", server.target())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit());
            async move {
                let output = tokio::task::spawn_blocking(move || command.output()).await??;
                ensure!(output.status.success(), "emitter {process} ended with {}", output.status);
                Ok(String::from_utf8(output.stdout)?.trim().parse::<usize>()?)
            }
        }))
        .await?;
        worker.stop()?;
        Ok(counts.into_iter().map(count).sum::<f64>() / Duration::from_secs(self.seconds).as_secs_f64())
    }
}

impl Emitter {
    /// Prints how many events were accepted in time.
    pub async fn run(&self) -> Result<()> {
        let accepted = match self.way {
            Way::Client => {
                let client = Client::connect(Config::default()).await?;
                self.count(async |user, id| match client.emit(event(&key("activity", user), id)).await {
                    Err(error) if !error.is_retryable() => bail!(error),
                    accepted => Ok(accepted.is_ok()),
                })
                .await?
            }
            Way::Naive => {
                let temporal = connect(&self.address).await?;
                self.count(async |user, id| {
                    let key = key("activity", user);
                    let event = serde_json::to_string(&event(&key, id))?;
                    let inbound = json_events([event.as_str()]);
                    match signal_found_by(&temporal, &key, inbound, search_attributes(&key)).await {
                        Err(error) if !error.to_string().contains(RUN_IS_FULL) => bail!(error),
                        accepted => Ok(accepted.is_ok()),
                    }
                })
                .await?
            }
        };
        println!("{accepted}");
        Ok(())
    }

    /// Counts the events that `emit` takes before the time is over.
    async fn count(&self, emit: impl AsyncFn(&str, &str) -> Result<bool>) -> Result<usize> {
        let until = Instant::now() + Duration::from_secs(self.seconds);
        let (next, accepted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let emitters = (0..self.way.at_once() / self.processes).map(|_| async {
            while Instant::now() < until {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let (user, id) = (format!("user-{}", n % self.keys), format!("{}-{n}", self.process));
                if emit(&user, &id).await? && Instant::now() < until {
                    accepted.fetch_add(1, Ordering::Relaxed);
                }
            }
            anyhow::Ok(())
        });
        try_join_all(emitters).await?;
        Ok(accepted.into_inner())
    }
}
