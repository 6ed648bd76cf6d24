//! Measures the api of the gateway: events that are accepted a second, and how fast the inbox hands them to Temporal.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use http_body_util::Full;
use hyper::{
    Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use jiff::Timestamp;
use tempfile::TempDir;
use tidings::registration;
use tidings_client::{Client, Config};
use tidings_harness::{
    env::{activities, event, key, settings, sqlite},
    server::DevServer,
    wait::eventually,
    worker::Running,
};
use tidings_model::names;

use crate::{
    figure::{Figure, Target, count},
    load::{End, Load, Made, Timed},
    rounds::Rounds,
    served::{AWAY, Served},
    sink::Sink,
    worker::user,
};

/// A cadence whose windows stay open for longer than a measurement.
const CADENCE: &str = "after 6h";
/// Events of a large request.
const BATCH: usize = 100;
/// Keys of the events that are only accepted.
const KEYS: usize = 10_000;
/// Tokens that share the load. A token may send 10,000 requests a second.
const TOKENS: usize = 8;
/// Keys of a producer.
const PRODUCER_KEYS: usize = 100;
/// Connections of a producer.
const PRODUCER_CONNECTIONS: usize = 4;
/// Events that the thin client has at once, as in `ingest`.
const AT_ONCE: usize = 20_000;
/// Time limit for the inbox to drain.
const DRAINED: Duration = Duration::from_mins(10);

const STORED: &str = "SELECT COUNT(*) FROM inbox";
const WAITING: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM inbox WHERE forwarded_at IS NULL LIMIT 1) AS waiting";
const FIRST_FORWARDED: &str = "SELECT MIN(forwarded_at) FROM inbox";
const LAST_FORWARDED: &str = "SELECT MAX(forwarded_at) FROM inbox";

/// Events over HTTP on PostgreSQL: accepted while Temporal is away, and handed to Temporal; compared with the thin client
#[derive(Args)]
pub struct Http {
    /// Seconds of each measurement of accepted events
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Connections that send requests of 100 events
    #[arg(long, default_value_t = 16)]
    batches: usize,
    /// Connections that send requests of one event
    #[arg(long, default_value_t = 64)]
    singles: usize,
    /// Events that the inbox hands to Temporal, from each producer, in multiples of 100
    #[arg(long, default_value_t = 50_000)]
    events: usize,
    /// Keys of these events
    #[arg(long, value_delimiter = ',', default_values_t = [100, 10_000])]
    keys: Vec<usize>,
}

impl Http {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        ensure!(self.events > 0 && self.events.is_multiple_of(BATCH), "--events is no multiple of 100");
        let mut batches = Timed::new("accepted in requests of 100 events", "events/s", BATCH, 20_000.0);
        let mut singles = Timed::new("accepted in requests of one event", "events/s", 1, 4_000.0).within(50.0);
        for round in 0..rounds.count {
            for (figures, events, connections) in [(&mut batches, BATCH, self.batches), (&mut singles, 1, self.singles)]
            {
                rounds.say(round, figures.what());
                self.accept(figures, events, connections).await?;
            }
        }
        let mut figures: Vec<_> = [batches, singles].into_iter().flat_map(Timed::all).collect();
        for keys in self.keys.iter().copied() {
            let mut figure =
                Figure::new(format!("the inbox drains, {keys} keys"), "events/s").against("the thin client");
            for round in 0..rounds.count {
                rounds.say(round, &figure.what);
                let drained = self.drained(keys).await?;
                rounds.say(round, &format!("the thin client, {keys} keys"));
                figure.push_both(drained, self.thin_client(keys).await?);
            }
            figures.push(figure);
        }
        let mut producers = Figure::new("from four producers to Temporal, 100 keys each", "events/s");
        producers = producers.against("one producer").target(Target::Times(1.0));
        for round in 0..rounds.count {
            rounds.say(round, "one producer");
            let one = self.produced(1).await?;
            rounds.say(round, "four producers");
            producers.push_both(self.produced(4).await?, one);
        }
        figures.push(producers);
        Ok(figures)
    }

    /// Measures requests of `events` events each to a new gateway. All events are in the database afterwards.
    async fn accept(&self, figures: &mut Timed, events: usize, connections: usize) -> Result<()> {
        let served = Served::start(AWAY).await?;
        let tokens = try_join_all((0..TOKENS).map(|_| served.token())).await?;
        let load = Load::new(served.api(), connections, StatusCode::ACCEPTED);
        let make = |n: usize| request(&tokens[n % TOKENS], events, n, |id| user(id % KEYS));
        figures.push(&load.measure(Duration::from_secs(self.seconds), make).await?);
        are_stored(&served, load.answered() * events).await
    }

    /// Measures events a second from a full inbox to Temporal.
    async fn drained(&self, keys: usize) -> Result<f64> {
        let mut served = Served::start(AWAY).await?;
        let token = served.token().await?;
        let load = Load::new(served.api(), self.batches, StatusCode::ACCEPTED);
        load.run(End::Requests(self.events / BATCH), |n| request(&token, BATCH, n, |id| user(id % keys))).await?;
        are_stored(&served, self.events).await?;
        let temporal = Temporal::start().await?;
        served.restart(&temporal.server.target()).await?;
        is_drained(&served).await?;
        let begun = served.number(FIRST_FORWARDED).await?;
        rate_since(&served, self.events, begun).await
    }

    /// Measures events a second from a number of producers to Temporal, each with keys of its own.
    async fn produced(&self, producers: usize) -> Result<f64> {
        let temporal = Temporal::start().await?;
        let served = Served::start(&temporal.server.target()).await?;
        let token = served.token().await?;
        let begun = Timestamp::now().as_millisecond();
        let requests = End::Requests(self.events / BATCH);
        try_join_all((0..producers).map(|producer| {
            let (token, load) = (&token, Load::new(served.api(), PRODUCER_CONNECTIONS, StatusCode::ACCEPTED));
            let user = move |id| format!("user-{producer}-{}", id % PRODUCER_KEYS);
            async move { load.run(requests, |n| request(token, BATCH, n, user)).await }
        }))
        .await?;
        are_stored(&served, producers * self.events).await?;
        is_drained(&served).await?;
        rate_since(&served, producers * self.events, begun).await
    }

    /// Measures events a second from the thin client to Temporal.
    async fn thin_client(&self, keys: usize) -> Result<f64> {
        let temporal = Temporal::start().await?;
        let config = Config { deadline: DRAINED, ..Config::default() };
        let client = Client::new(temporal.server.client().await?, config);
        let begun = Instant::now();
        let emit = |n: usize| client.emit(event(&key("activity", &user(n % keys)), &format!("e{n}")));
        stream::iter(0..self.events).map(emit).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        Ok(count(self.events) / begun.elapsed().as_secs_f64())
    }
}

/// The rate of these events from this time, in milliseconds since 1970, to the last signal that was acknowledged.
async fn rate_since(served: &Served, events: usize, begun: i64) -> Result<f64> {
    let took = u64::try_from(served.number(LAST_FORWARDED).await? - begun)?;
    ensure!(took > 0, "the inbox drained within a millisecond; take more --events");
    Ok(count(events) / Duration::from_millis(took).as_secs_f64())
}

/// A server, and a worker that opens the windows.
struct Temporal {
    /// Dropped first, because the worker signs off at the server.
    _worker: Running,
    server: DevServer,
    _sink: Sink,
    _ledger: TempDir,
}

impl Temporal {
    async fn start() -> Result<Self> {
        let (server, ledger, sink) = (DevServer::start().await?, TempDir::new()?, Sink::start().await?);
        let activities = activities(sqlite(ledger.path()).await?, &sink.url, settings(CADENCE, CADENCE))?;
        let worker =
            Running::start(server.client().await?, registration::digest_worker(names::TASK_QUEUE, activities)?)?;
        Ok(Self { _worker: worker, server, _sink: sink, _ledger: ledger })
    }
}

/// The `n`th request, with `events` events. `user` names the user of an event by its number.
fn request(token: &str, events: usize, n: usize, user: impl Fn(usize) -> String) -> Result<Made> {
    let ids = n * events..(n + 1) * events;
    let events: Vec<_> = ids.map(|id| event(&key("activity", &user(id)), &format!("e{id}"))).collect();
    let request = Request::post("/v1/events").header(AUTHORIZATION, format!("Bearer {token}"));
    Ok(request.header(CONTENT_TYPE, "application/json").body(Full::from(serde_json::to_vec(&events)?))?)
}

async fn are_stored(served: &Served, accepted: usize) -> Result<()> {
    let stored = served.number(STORED).await?;
    ensure!(stored == i64::try_from(accepted)?, "{stored} of {accepted} accepted events are in the database");
    Ok(())
}

async fn is_drained(served: &Served) -> Result<()> {
    let drained = async || Ok((served.number(WAITING).await? == 0).then_some(()));
    eventually("the inbox is drained", DRAINED, drained).await
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressBar;
    use tidings_needs::needs;

    use super::*;

    #[needs(temporal, postgres)]
    #[tokio::test(flavor = "multi_thread")]
    async fn events_are_accepted_and_drained_at_measured_rates() {
        let rounds = Rounds { count: 1, progress: ProgressBar::hidden() };
        let bench = Http { seconds: 1, batches: 2, singles: 4, events: 2_000, keys: vec![50] };
        let figures = bench.run(&rounds).await.unwrap();
        assert_eq!(figures.len(), 8);
        assert!(figures.iter().all(|figure| figure.median() > 0.0), "{figures:?}");
    }
}
