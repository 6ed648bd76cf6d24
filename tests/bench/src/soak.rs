//! Runs an hour at half of capacity and compares throughput, memory and lateness at the end with those at the
//! beginning.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use jiff::Timestamp;
use tidings_harness::{
    env::{event, key},
    postgres::database,
    wait::eventually,
};
use tokio::time::{interval, sleep};

use crate::{
    drift::{by_slice, first_and_last, mean, slope, tenth},
    figure::{Figure, Target, count, percentile},
    late::Late,
    ledger::Ledger,
    process::{MEBIBYTE, per_digest},
    rounds::Rounds,
    worker::{PROCESSES, Tidings, user},
};

const WINDOW: Duration = Duration::from_secs(2);
/// The same time as a cadence.
const CADENCE: &str = "after 2s";
/// Events of each window, emitted at once.
const EVENTS: usize = 3;
/// Windows that are open while capacity is measured: more than are sent while one is open.
const IN_FLIGHT: usize = 400;
/// The length of a measurement of capacity, and the time before it.
const SETTLED: Duration = Duration::from_secs(30);
const MEASURED: Duration = Duration::from_mins(1);
/// Time for the digests of events that came after their window's claim.
const PATIENCE: Duration = Duration::from_secs(30);
const SENT_DIGESTS: &str = "SELECT COUNT(*) FROM digests WHERE sent_at IS NOT NULL";
const SENT_EVENTS: &str =
    "SELECT COUNT(*) FROM events e JOIN digests d ON d.digest_id = e.digest_id WHERE d.sent_at IS NOT NULL";
/// The backlog, as a part of the fed windows, at which the run stops because the system cannot keep up.
const BEHIND: Duration = Duration::from_mins(1);
/// The budget at half of capacity, in seconds.
const LATE: f64 = 2.0;

/// Many keys with short windows at half of capacity; the last tenth of the time compared with the first
#[derive(Args)]
pub struct Soak {
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Digests a second [default: half of capacity, which is measured first]
    #[arg(long)]
    rate: Option<f64>,
    /// On PostgreSQL instead of SQLite: a new database in the server that `TIDINGS_TEST_DATABASE_URL` names
    #[arg(long)]
    postgres: bool,
}

impl Soak {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        ensure!(self.minutes > 0, "--minutes 0: nothing would be measured");
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "--rate: nothing would be fed");
        let mut figures = Figures::new();
        for round in 0..rounds.count {
            let rate = if let Some(rate) = self.rate {
                rate
            } else {
                rounds.say(round, "as fast as it goes, for capacity");
                let (capacity, cpu) = self.capacity().await?;
                figures.capacity.push(capacity);
                push_each(&mut figures.cpu_at_capacity, cpu);
                capacity / 2.0
            };
            figures.push(rate, &self.soaked(rounds, round, rate).await?);
        }
        Ok(figures.all())
    }

    /// The number of slices and the length of each: a minute each, but at least ten slices.
    fn slices(&self) -> (u64, Duration) {
        let slices = self.minutes.max(10);
        (slices, Duration::from_secs(self.minutes * 60 / slices))
    }

    async fn soaked(&self, rounds: &Rounds, round: usize, rate: f64) -> Result<Soaked> {
        let tidings = self.started().await?;
        let (slices, slice) = self.slices();
        let all = slice * u32::try_from(slices)?;
        let (began, opened) = (Instant::now(), Cell::new(0));
        let numbers = stream::unfold((0, interval(Duration::from_secs_f64(1.0 / rate))), async |(n, mut ticks)| {
            ticks.tick().await;
            (began.elapsed() < WINDOW + all).then_some((n, (n + 1, ticks)))
        });
        let feeding = numbers
            .map(|n| {
                opened.set(n + 1);
                open(&tidings, n)
            })
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<()>();
        let say = |sent: usize, what: &str| rounds.say(round, &format!("{sent} sent, {rate:.1} a second fed, {what}"));
        let watch = |sent: usize, second: u64| {
            say(sent, &format!("{second} of {} s", all.as_secs()));
            let (waiting, most) = (opened.get().saturating_sub(sent), rate * (WINDOW + BEHIND).as_secs_f64());
            ensure!(count(waiting) < most, "it does not keep up: {waiting} wait after {second} s; take a lower --rate");
            Ok(())
        };
        let sampling = sampled(&tidings, slice, all, watch);
        let ((), (begin, samples)) = tokio::try_join!(feeding, sampling)?;
        tidings.sent(opened.get(), |sent| say(sent, "the last ones")).await?;
        let emitted = i64::try_from(opened.get() * EVENTS)?;
        let kept = async || Ok((tidings.ledger.count(SENT_EVENTS).await? == emitted).then_some(()));
        eventually("every event is in a digest that was sent", PATIENCE, kept).await?;
        let late = Late::all(&tidings).await?;
        let digests = tidings.ledger.count(SENT_DIGESTS).await?;
        ensure!(i64::try_from(late.len())? == digests, "{} mails of {digests} digests", late.len());
        let slices = by_slice(&late, begin, slice, usize::try_from(slices)?);
        ensure!(slices.iter().all(|slice| !slice.is_empty()), "nothing was due for {slice:?}; take a higher rate");
        Ok(Soaked { slice, slices, samples, more: late.len() - opened.get() })
    }

    /// Measures digests a second under constant backlog, where each email opens another window, and the CPU of each process
    /// in ms per digest.
    async fn capacity(&self) -> Result<(f64, Vec<f64>)> {
        let tidings = self.started().await?;
        let next = async |n: usize| {
            let mut accepted = tidings.sink.accepted();
            accepted.wait_for(|sent| n < sent + IN_FLIGHT).await.context("the sink is gone")?;
            open(&tidings, n).await
        };
        let feeding = stream::iter(0..).map(next).buffer_unordered(IN_FLIGHT).try_collect::<()>();
        let measuring = async {
            sleep(SETTLED).await;
            let (since, before) = (Instant::now(), Sample::now(&tidings)?);
            sleep(MEASURED).await;
            let (seconds, after) = (since.elapsed().as_secs_f64(), Sample::now(&tidings)?);
            ensure!(after.sent > before.sent, "nothing is sent");
            Ok((count(after.sent - before.sent) / seconds, before.cpu_until(&after)))
        };
        let rate = tokio::select! {
            rate = measuring => rate,
            ended = feeding => ended.and_then(|()| anyhow::bail!("there are no more numbers")),
        };
        // Events left in the client would reach the next server, which has this server's port.
        tidings.events.flush().await;
        rate
    }

    async fn started(&self) -> Result<Tidings> {
        let ledger = if self.postgres { Ledger::postgres(database().await?).await? } else { Ledger::sqlite().await? };
        let mut tidings = Tidings::with(ledger, CADENCE, Duration::ZERO).await?;
        tidings.start_worker()?;
        Ok(tidings)
    }
}

/// The time at which the first window is due, and a sample then and at the end of each slice.
async fn sampled(
    tidings: &Tidings,
    slice: Duration,
    all: Duration,
    watch: impl Fn(usize, u64) -> Result<()>,
) -> Result<(Timestamp, Vec<Sample>)> {
    sleep(WINDOW).await;
    let (begin, mut seconds, mut samples) = (Timestamp::now(), interval(Duration::from_secs(1)), Vec::new());
    for second in 0..=all.as_secs() {
        seconds.tick().await;
        if second % slice.as_secs() == 0 {
            samples.push(Sample::now(tidings)?);
        }
        watch(*tidings.sink.accepted().borrow(), second)?;
    }
    Ok((begin, samples))
}

/// Opens the window with this number by emitting its events at once.
async fn open(tidings: &Tidings, n: usize) -> Result<()> {
    let key = key("activity", &user(n));
    let emit = |id: usize| tidings.events.emit(event(&key, &format!("e{id}")));
    try_join_all((0..EVENTS).map(emit)).await?;
    Ok(())
}

/// A sample of the system at one moment.
struct Sample {
    sent: usize,
    /// MiB.
    worker: f64,
    /// MiB.
    server: f64,
    /// CPU time of each process so far.
    cpu: Vec<Duration>,
}

impl Sample {
    fn now(tidings: &Tidings) -> Result<Self> {
        let sent = *tidings.sink.accepted().borrow();
        Ok(Self { sent, worker: tidings.memory()?, server: tidings.server_memory()?, cpu: tidings.cpu()? })
    }

    /// CPU of each process from this sample to a later one, in ms per digest.
    fn cpu_until(&self, later: &Self) -> Vec<f64> {
        let sent = later.sent - self.sent;
        self.cpu.iter().zip(&later.cpu).map(|(before, after)| per_digest(*before, *after, sent)).collect()
    }
}

struct Soaked {
    slice: Duration,
    /// Lateness in seconds of the emails that were due in each slice.
    slices: Vec<Vec<f64>>,
    /// Samples at the beginning of each slice, and at the end of the last.
    samples: Vec<Sample>,
    /// Digests of events that came after their window was claimed.
    more: usize,
}

impl Soaked {
    /// Digests a second in each slice.
    fn rates(&self) -> Vec<f64> {
        let rate = |two: &[Sample]| count(two[1].sent - two[0].sent) / self.slice.as_secs_f64();
        self.samples.windows(2).map(rate).collect()
    }

    /// The growth after the first tenth.
    fn warm(&self) -> &[Sample] {
        &self.samples[tenth(self.slices.len())..]
    }
}

struct Figures {
    capacity: Figure,
    fed: Figure,
    sent: Figure,
    more: Figure,
    slow: Figure,
    middle: Figure,
    slow_of_all: Figure,
    memory: Figure,
    an_hour: Figure,
    a_digest: Figure,
    server: Figure,
    cpu: [Figure; PROCESSES.len()],
    cpu_at_capacity: [Figure; PROCESSES.len()],
}

impl Figures {
    fn new() -> Self {
        let against = |what: &str, unit: &str| Figure::new(what, unit).against("the first tenth");
        let memory = |what: &str| Figure::new(what, "MiB").against("after the first tenth");
        Self {
            capacity: Figure::new("as fast as it goes", "digests/s"),
            fed: Figure::new("fed", "digests/s"),
            sent: against("sent, the last tenth", "digests/s"),
            more: Figure::new("for events that came after their window's claim", "digests"),
            slow: against("deadline to the sink, p99 of the last tenth", "s"),
            middle: Figure::new("deadline to the sink, median of all", "s"),
            slow_of_all: Figure::new("deadline to the sink, p99 of all", "s").target(Target::AtMost(LATE)),
            memory: memory("the worker's memory at the end"),
            an_hour: Figure::new("the worker's memory grows", "MiB an hour"),
            a_digest: Figure::new("the worker's memory grows", "bytes a digest"),
            server: memory("the server's memory at the end"),
            cpu: PROCESSES.map(|whose| Figure::new(format!("CPU of {whose}"), "ms per digest")),
            cpu_at_capacity: PROCESSES
                .map(|whose| Figure::new(format!("as fast as it goes, CPU of {whose}"), "ms per digest")),
        }
    }

    fn push(&mut self, rate: f64, soaked: &Soaked) {
        self.fed.push(rate);
        let rates = soaked.rates();
        let (first, last) = first_and_last(&rates);
        self.sent.push_both(mean(last), mean(first));
        self.sent.over_time(rates.clone());
        self.more.push(count(soaked.more));

        let (first, last) = first_and_last(&soaked.slices);
        self.slow.push_both(percentile(&last.concat(), 99), percentile(&first.concat(), 99));
        let of_each = |percent| soaked.slices.iter().map(|slice| percentile(slice, percent)).collect();
        self.slow.over_time(of_each(99));
        let all = soaked.slices.concat();
        self.middle.push(percentile(&all, 50));
        self.middle.over_time(of_each(50));
        self.slow_of_all.push(percentile(&all, 99));

        let warm = soaked.warm();
        for (figure, of) in [
            (&mut self.memory, (|sample| sample.worker) as fn(&Sample) -> f64),
            (&mut self.server, |sample| sample.server),
        ] {
            let values: Vec<_> = warm.iter().map(of).collect();
            figure.push_both(values[values.len() - 1], values[0]);
            figure.over_time(soaked.samples.iter().map(of).collect());
        }
        let hours = soaked.slice.as_secs_f64() / 3_600.0;
        let by_time: Vec<_> = warm.iter().enumerate().map(|(n, sample)| (count(n) * hours, sample.worker)).collect();
        self.an_hour.push(slope(&by_time));
        let by_digest: Vec<_> = warm.iter().map(|sample| (count(sample.sent), sample.worker * MEBIBYTE)).collect();
        self.a_digest.push(slope(&by_digest));
        push_each(&mut self.cpu, warm[0].cpu_until(&warm[warm.len() - 1]));
    }

    fn all(self) -> Vec<Figure> {
        let throughput = [self.capacity, self.fed, self.sent, self.more];
        let late = [self.slow, self.middle, self.slow_of_all];
        let memory = [self.memory, self.an_hour, self.a_digest, self.server];
        let cpu = self.cpu.into_iter().chain(self.cpu_at_capacity);
        // A given rate replaces the measurement of capacity.
        throughput.into_iter().chain(late).chain(memory).chain(cpu).filter(|figure| !figure.rounds.is_empty()).collect()
    }
}

fn push_each(figures: &mut [Figure], values: Vec<f64>) {
    for (figure, value) in figures.iter_mut().zip(values) {
        figure.push(value);
    }
}
