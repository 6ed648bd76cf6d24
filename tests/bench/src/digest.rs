//! Measures the digests that are sent a second when many are due at once, from that moment to the sink's last reply.

use std::{process, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use temporalio_sdk::WorkerOptions;
use tidings::registration;
use tidings_client::{Client, Config};
use tidings_harness::{
    env::{activities, event, key, settings},
    postgres::{database, optional_database},
    server::DevServer,
    worker::Running,
};
use tidings_model::names;
use tokio::{sync::watch, time::timeout};

use crate::{
    figure::{Figure, Target, count},
    ledger::{self, Ledger},
    process::{cpu, per_digest},
    queue::Queue,
    rounds::Rounds,
    shapes::Shape,
    sink::Sink,
    slot::{SLOT, opening, sleep_until, slot},
};

/// A cadence whose windows are all due at the next full minute, as those of the compared workflows are. Windows of
/// `after 15s` would be due as fast as they were opened, and the bench would measure that.
const CADENCE: &str = "cron * * * * *";
/// Concurrent calls of `emit`.
const AT_ONCE: usize = 1_000;
/// Events in all windows of a round. All windows must be planned before they are due, so larger digests are fewer.
const MOST_EVENTS: usize = 50_000;
/// Digests of this many events and more have a lower budget: each event costs something, and the empty commands do nothing with it.
const MANY: usize = 500;

/// Digests from due to sent; compared with workflows of the same commands that do nothing, with a textbook workflow,
/// and with a queue in PostgreSQL
#[derive(Args)]
pub struct Digest {
    #[arg(long, default_value_t = 2_000)]
    digests: usize,
    /// Numbers of events in each digest
    #[arg(long, value_delimiter = ',', default_values_t = [1, 30, 500])]
    events: Vec<usize>,
}

/// The result of digests that were due at one moment.
struct Burst {
    /// Digests a second.
    rate: f64,
    /// CPU of the server, in ms per digest.
    server: f64,
    /// CPU of this process, which runs worker and sink, in ms per digest.
    rest: f64,
    /// CPU of PostgreSQL's processes, in ms per digest.
    database: Option<f64>,
}

impl Digest {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for events in self.events.iter().copied() {
            let figure = |what: &str| Figure::new(format!("{events} events each, {what}"), "digests/s");
            let times = Target::Times(if events < MANY { 0.85 } else { 0.7 });
            let mut same = figure("SQLite").against("the same commands, empty").target(times);
            let mut textbook = figure("SQLite").against("the textbook's commands, empty").target(Target::Times(1.7));
            let mut postgres = figure("PostgreSQL").against("the same commands, empty").target(times);
            let mut queue = figure("PostgreSQL").against("a queue with SKIP LOCKED");
            let cpu_of = |store: &str, whose: &str| {
                Figure::new(format!("{events} events each, {store}: CPU of {whose}"), "ms per digest")
            };
            let beside = |store, whose| cpu_of(store, whose).against("the same commands, empty");
            let worker = |store| {
                let figure = beside(store, "worker and sink");
                if events == 1 { figure.target(Target::Above(2.0)) } else { figure }
            };
            let (mut server, mut rest) = (beside("SQLite", "the server"), worker("SQLite"));
            let (mut postgres_server, mut postgres_rest) = (beside("PostgreSQL", "the server"), worker("PostgreSQL"));
            let mut database = cpu_of("PostgreSQL", "the database");
            let attempts_on = |store: &str| {
                Figure::new(format!("{events} events each, {store}"), "attempts per digest").target(Target::AtMost(1.0))
            };
            let (mut attempts, mut postgres_attempts) = (attempts_on("SQLite"), attempts_on("PostgreSQL"));
            for round in 0..rounds.count {
                let say = |what: &str| rounds.say(round, &format!("{events} events each, {what}"));
                say("SQLite");
                let (on_sqlite, tried) = self.ours(&Ledger::sqlite().await?, events).await?;
                attempts.push(tried);
                say("the same commands, empty");
                let bare = self.empty(Shape::Same, events).await?;
                say("the textbook's commands, empty");
                textbook.push_both(on_sqlite.rate, self.empty(Shape::Textbook, events).await?.rate);
                same.push_both(on_sqlite.rate, bare.rate);
                server.push_both(on_sqlite.server, bare.server);
                rest.push_both(on_sqlite.rest, bare.rest);
                let Some(url) = optional_database().await? else { continue };
                say("PostgreSQL");
                let (on_postgres, tried) = self.ours(&Ledger::postgres(url).await?, events).await?;
                database.push(on_postgres.database.context("measured above")?);
                postgres_server.push_both(on_postgres.server, bare.server);
                postgres_rest.push_both(on_postgres.rest, bare.rest);
                postgres_attempts.push(tried);
                postgres.push_both(on_postgres.rate, bare.rate);
                say("a queue with SKIP LOCKED");
                queue.push_both(on_postgres.rate, self.queue(events).await?);
            }
            let sqlite = [same, textbook, server, rest, attempts];
            let postgres = [postgres, queue, postgres_server, postgres_rest, database, postgres_attempts];
            let measured = sqlite.into_iter().chain(postgres);
            figures.extend(measured.filter(|figure| !figure.rounds.is_empty()));
        }
        Ok(figures)
    }

    fn digests(&self, events: usize) -> usize {
        self.digests.min(MOST_EVENTS / events).max(1)
    }

    /// Measures Tidings on a store, and the processes of its database. Also answers with the attempts per digest; with
    /// more than one, the rate depends on the last retry.
    async fn ours(&self, ledger: &Ledger, events: usize) -> Result<(Burst, f64)> {
        let sink = Sink::start().await?;
        let activities = activities(ledger::open(&ledger.url()).await?, &sink.url, settings(CADENCE, CADENCE))?;
        let worker = registration::digest_worker(names::TASK_QUEUE, activities)?;
        let burst = self.burst(worker, sink.accepted(), events, Some(ledger)).await?;
        // The worker's runtime has closed the worker's connections.
        let store = ledger::open(&ledger.url()).await?;
        let mut attempts = 0;
        for mail in sink.mails() {
            attempts += store.attempts(mail.id).await?.len();
        }
        Ok((burst, count(attempts) / count(self.digests(events))))
    }

    async fn empty(&self, shape: Shape, events: usize) -> Result<Burst> {
        let (sender, sent) = watch::channel(0);
        self.burst(shape.worker(names::TASK_QUEUE, sender)?, sent, events, None).await
    }

    /// Measures digests that are due at one moment, on a new server.
    async fn burst(
        &self,
        worker: WorkerOptions,
        mut sent: watch::Receiver<usize>,
        events: usize,
        ledger: Option<&Ledger>,
    ) -> Result<Burst> {
        let digests = self.digests(events);
        let server = DevServer::start().await?;
        let temporal = server.client().await?;
        let client = Client::new(temporal.clone(), Config::default());
        let running = Running::start(temporal, worker)?;
        sleep_until(opening(Timestamp::now())?).await;
        let due = slot(Timestamp::now(), Duration::ZERO)?;
        let emit = |n: usize| {
            let (user, id) = (format!("user-{}", n / events), format!("e{}", n % events));
            client.emit(event(&key("activity", &user), &id))
        };
        stream::iter(0..digests * events).map(emit).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        sleep_until(due).await;
        let used = || {
            let database = ledger.map(Ledger::cpu).transpose()?.flatten();
            anyhow::Ok((cpu(server.pid()?)?, cpu(process::id())?, database))
        };
        let before = used()?;
        let all = timeout(SLOT, sent.wait_for(|sent| *sent >= digests)).await;
        all.context("some were planned too late for their slot, or all take longer than a minute; take fewer digests")?
            .context("the worker is gone")?;
        let seconds = Timestamp::now().duration_since(due).as_secs_f64();
        let after = used()?;
        running.stop()?;
        let each = |before, after| per_digest(before, after, digests);
        Ok(Burst {
            rate: count(digests) / seconds,
            server: each(before.0, after.0),
            rest: each(before.1, after.1),
            database: before.2.zip(after.2).map(|(before, after)| each(before, after)),
        })
    }

    async fn queue(&self, events: usize) -> Result<f64> {
        let digests = self.digests(events);
        let url = database().await?;
        let sink = Sink::start().await?;
        let queue = Queue::filled(&url, &sink.url, digests, events).await?;
        let seconds = queue.drain().await?;
        ensure!(*sink.accepted().borrow() == digests, "the queue sent {} mails", *sink.accepted().borrow());
        Ok(count(digests) / seconds)
    }
}
