//! Measures the lateness of emails when many windows are due at one slot, with and without `spread`, and the time to
//! catch up after the worker was away at the slot.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{Timestamp, tz::TimeZone};
use temporalio_client::WorkflowDescribeOptions;
use tidings_harness::wait::eventually;
use tokio::time::sleep;

use crate::{
    figure::{Figure, Target, count},
    late::{Late, percentiles},
    rounds::Rounds,
    slot::{sleep_until, slot},
    worker::Tidings,
};

/// The lowest rate of opening windows a second, and the time for everything else before the slot.
const OPENED: u64 = 40;
const AHEAD: Duration = Duration::from_secs(20);
/// Time for the timers of all windows to fire without a worker.
const FIRED: Duration = Duration::from_mins(10);
const AT_ONCE: usize = 50;
/// The budget of a worker with open windows, in MiB.
const MEMORY: f64 = 512.0;
const HOW_LATE: [&str; 3] = ["median", "p99", "longest"];

/// Windows due at one slot, without and with `spread`, and while the worker is away
#[derive(Args)]
pub struct Herd {
    #[arg(long, default_value_t = 10_000)]
    windows: usize,
    /// The spread, in seconds.
    #[arg(long, default_value_t = 600)]
    spread: u64,
    /// Minutes for which the worker stays away after all timers have fired
    #[arg(long, default_value_t = 0)]
    away: u64,
}

impl Herd {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut figures = Figures::new(self);
        for round in 0..rounds.count {
            let herd = self.due(rounds, round, Duration::ZERO).await?;
            let spread = self.due(rounds, round, Duration::from_secs(self.spread)).await?;
            let away = self.away(rounds, round).await?;
            figures.push(&herd, &spread, &away);
        }
        Ok(figures.all())
    }

    /// Measures the slot with all windows open.
    async fn due(&self, rounds: &Rounds, round: usize, spread: Duration) -> Result<Sent> {
        let say = |what: &str| rounds.say(round, &format!("spread over {} s: {what}", spread.as_secs()));
        let (tidings, slot) = self.opened(spread, say).await?;
        sleep_until(slot).await;
        self.sent(&tidings, slot, say).await
    }

    /// Measures the catch-up: all windows are open, the worker stops, every timer fires at the slot, and the worker
    /// returns.
    async fn away(&self, rounds: &Rounds, round: usize) -> Result<Sent> {
        let say = |what: &str| rounds.say(round, &format!("away: {what}"));
        let (mut tidings, slot) = self.opened(Duration::ZERO, say).await?;
        tidings.kill_worker();
        sleep_until(slot).await;
        say("the timers fire");
        let fired = |n| fired(&tidings, n);
        stream::iter(0..self.windows).map(fired).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        say(&format!("{} min more", self.away));
        sleep(Duration::from_secs(self.away * 60)).await;
        let back = Timestamp::now();
        tidings.start_worker()?;
        self.sent(&tidings, back, say).await
    }

    /// Starts Tidings with a planned window for each user. Also answers with the slot of the windows.
    async fn opened(&self, spread: Duration, say: impl Fn(&str)) -> Result<(Tidings, Timestamp)> {
        say(&format!("{} windows open", self.windows));
        let slot = slot(Timestamp::now(), AHEAD + Duration::from_secs(self.windows as u64 / OPENED))?;
        let mut tidings = Tidings::start(&cadence(slot), spread).await?;
        tidings.start_worker()?;
        tidings.open(0..self.windows).await?;
        ensure!(Timestamp::now() < slot, "the slot came before all windows were open; take fewer windows");
        say("the slot comes");
        Ok((tidings, slot))
    }

    /// Waits for all emails. `began` is the earliest time at which an email could be sent.
    async fn sent(&self, tidings: &Tidings, began: Timestamp, say: impl Fn(&str)) -> Result<Sent> {
        tidings.sent(self.windows, |mails| say(&format!("{mails} of {} are sent", self.windows))).await?;
        let late = Late::all(tidings).await?;
        ensure!(late.len() == self.windows, "{} mails of {} windows", late.len(), self.windows);
        let after: Vec<_> = late.iter().map(|late| late.after(began)).collect();
        let late: Vec<_> = late.iter().map(Late::seconds).collect();
        let [_, _, last] = percentiles(&after);
        Ok(Sent {
            late: percentiles(&late),
            after: percentiles(&after),
            rate: count(self.windows) / last,
            memory: tidings.peak_memory()?,
        })
    }
}

/// The result of a herd.
struct Sent {
    /// Seconds from each window's own deadline: median, p99 and longest.
    late: [f64; 3],
    /// Seconds from the slot, or from the worker's return.
    after: [f64; 3],
    /// Digests a second since then.
    rate: f64,
    /// The worker's peak memory, in MiB.
    memory: f64,
}

struct Figures {
    herd: [Figure; 3],
    spread: [Figure; 3],
    spread_after: [Figure; 3],
    away: [Figure; 3],
    rate: Figure,
    away_rate: Figure,
    memory: [Figure; 3],
}

impl Figures {
    fn new(Herd { windows, spread, .. }: &Herd) -> Self {
        let late =
            |of: &str, from: &str| HOW_LATE.map(|what| Figure::new(format!("{of}: {from} to the sink, {what}"), "s"));
        let (herd, apart) = (format!("{windows} at one slot"), format!("{windows} spread over {spread} s"));
        let away = format!("{windows} while the worker was away");
        let memory =
            |of: &str| Figure::new(format!("{of}: the worker's peak memory"), "MiB").target(Target::AtMost(MEMORY));
        let rate = |of: &str| Figure::new(of, "digests/s");
        Self {
            spread: late(&apart, "its deadline").map(|figure| figure.against("at one slot")),
            spread_after: late(&apart, "the slot").map(|figure| figure.against("at one slot")),
            away: late(&away, "its return").map(|figure| figure.against("at one slot")),
            rate: rate(&herd),
            away_rate: rate(&away).against("at one slot"),
            memory: [memory(&herd), memory(&apart), memory(&away)],
            herd: late(&herd, "its deadline"),
        }
    }

    fn push(&mut self, herd: &Sent, spread: &Sent, away: &Sent) {
        for n in 0..HOW_LATE.len() {
            self.herd[n].push(herd.late[n]);
            self.spread[n].push_both(spread.late[n], herd.late[n]);
            self.spread_after[n].push_both(spread.after[n], herd.after[n]);
            self.away[n].push_both(away.after[n], herd.after[n]);
        }
        self.rate.push(herd.rate);
        self.away_rate.push_both(away.rate, herd.rate);
        for (figure, sent) in self.memory.iter_mut().zip([herd, spread, away]) {
            figure.push(sent.memory);
        }
    }

    fn all(self) -> Vec<Figure> {
        let late = [self.herd, self.spread, self.spread_after, self.away].into_iter().flatten();
        late.chain([self.rate, self.away_rate]).chain(self.memory).collect()
    }
}

/// A cadence that is due at this minute once a day.
fn cadence(slot: Timestamp) -> String {
    slot.to_zoned(TimeZone::UTC).strftime("daily %H:%M").to_string()
}

/// Waits until the window's timer has fired, which leaves a workflow task without a worker.
async fn fired(tidings: &Tidings, n: usize) -> Result<()> {
    let workflow = tidings.workflow(n);
    eventually("the timer has fired", FIRED, async || {
        let described = workflow.describe(WorkflowDescribeOptions::default()).await?;
        Ok(described.raw().pending_workflow_task.is_some().then_some(()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_is_a_whole_minute_later_than_asked_for() -> Result<()> {
        let at = |text: &str| text.parse::<Timestamp>();
        for (now, slot_at) in
            [("2026-01-05T10:00:00.5Z", "2026-01-05T10:02:00Z"), ("2026-01-05T23:58:59Z", "2026-01-06T00:01:00Z")]
        {
            let slot = slot(at(now)?, Duration::from_secs(61))?;
            assert_eq!(slot, at(slot_at)?);
        }
        assert_eq!(cadence(at("2026-01-06T00:01:00Z")?), "daily 00:01");
        Ok(())
    }
}
