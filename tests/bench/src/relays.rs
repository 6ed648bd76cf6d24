//! Measures mail through relays with limits, and beside recipients that stall.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::future::try_join_all;
use tidings_harness::relay::{Act, At, FROM, Fault, Relay, Settings, bytes};
use tidings_mail::smtp::{PoolLimits, SendLane, SmtpMailer, SmtpTimeouts};
use tidings_model::attempt::AttemptClass;

use crate::{
    figure::{Figure, Target},
    rounds::Rounds,
};

const TO: &str = "ann@example.net";
const STALLING: &str = "bo@slow.example";
/// The time that a relay takes for a message.
const PACE: Duration = Duration::from_millis(100);
/// How long a recipient stalls: longer than the others may take.
const STALL: Duration = Duration::from_secs(20);
/// A limit of half as much again in time.
const LEAST: Target = Target::Times(1.0 / 1.5);

/// Messages a second through a relay that limits connections, or messages in a session, and the wait of mail beside recipients
/// that stall
#[derive(Args)]
pub struct Relays;

impl Relays {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let mut connections = Figure::new("60 messages, the relay greets a fourth connection with 421", "messages/s")
            .against("the same with `connections = 3`")
            .target(LEAST);
        let mut sessions = Figure::new("120 messages, the relay takes five in a session", "messages/s")
            .against("the same with `per_connection = 5`")
            .target(LEAST);
        let mut stalls = Figure::new("10 messages while 10 to another domain stall at RCPT", "s")
            .against("10 messages alone")
            .target(Target::AtMost(2.0));
        for round in 0..rounds.count {
            let limits = PoolLimits::default();
            rounds.say(round, &connections.what);
            let three = || Settings { connections: Some(3), ..Settings::default() };
            let known = PoolLimits { connections: 3, ..limits };
            connections.push_both(rate(three(), limits, 60).await?, rate(three(), known, 60).await?);
            rounds.say(round, &sessions.what);
            let five = || Settings { messages: Some(5), ..Settings::default() };
            let known = PoolLimits { messages: 5, ..limits };
            sessions.push_both(rate(five(), limits, 120).await?, rate(five(), known, 120).await?);
            rounds.say(round, &stalls.what);
            stalls.push_both(beside_stalled(10).await?, beside_stalled(0).await?);
        }
        Ok(vec![connections, sessions, stalls])
    }
}

/// Messages a second.
async fn rate(settings: Settings, limits: PoolLimits, messages: usize) -> Result<f64> {
    let relay = Relay::with(settings).await?;
    relay.fault(Fault::new(At::Dot, Act::Slow(PACE)));
    let mailer = SmtpMailer::new(relay.url().parse()?, limits, SmtpTimeouts::default())?;
    let begun = Instant::now();
    try_join_all((0..messages).map(|_| send(&mailer, TO))).await?;
    ensure!(relay.count() == messages, "{} of {messages} arrived", relay.count());
    Ok(crate::figure::count(messages) / begun.elapsed().as_secs_f64())
}

/// Seconds for ten messages that come after `stalled` others, whose domain was well until then and uses all connections.
async fn beside_stalled(stalled: usize) -> Result<f64> {
    let relay = Relay::start().await?;
    let mailer = SmtpMailer::new(relay.url().parse()?, PoolLimits::default(), SmtpTimeouts::default())?;
    send(&mailer, STALLING).await?;
    relay.fault(Fault::new(At::Rcpt, Act::Slow(STALL)).to(STALLING));
    let others = tokio::spawn({
        let mailer = mailer.clone();
        async move { try_join_all((0..stalled).map(|_| send(&mailer, STALLING))).await }
    });
    if stalled > 0 {
        relay.until("all connections are in use", |relay| relay.open_connections() == stalled).await?;
    }
    let begun = Instant::now();
    try_join_all((0..10).map(|_| send(&mailer, TO))).await?;
    let seconds = begun.elapsed().as_secs_f64();
    others.abort();
    Ok(seconds)
}

async fn send(mailer: &SmtpMailer, to: &str) -> Result<()> {
    let slot = mailer.acquire_slot(SendLane::Digests, to).await.context("the mailer is closed")?;
    let ready = slot.offer(FROM, to, &bytes("Three new comments")).await;
    let delivery = ready.map_err(|delivery| anyhow::anyhow!(delivery.detail))?.send_dot().await;
    ensure!(delivery.class == AttemptClass::Sent, "{}", delivery.detail);
    Ok(())
}
