//! Measures the delay of a single message while a flood of digests is sent.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tidings::registration;
use tidings_harness::{
    env::{Env, activities, event, key, settings},
    wait::{eventually, wait_for_emails},
    worker::Running,
};
use tidings_mail::{dkim::TenantSigners, render::TemplateRenderer};
use tidings_model::{names, settings::StreamName};
use tidings_operations::submit::{self, MessageSubmission, SubmissionContent, SubmissionRecipient};
use tokio::time::sleep;

use crate::{
    figure::{Figure, Target, count, percentile},
    rounds::Rounds,
};

const DEADLINE: Duration = Duration::from_mins(20);
/// Time between a message's arrival and the next message.
const PAUSE: Duration = Duration::from_millis(200);

/// A single message in a flood of digests; compared with the same message on an idle system
#[derive(Args)]
pub struct Flood {
    #[arg(long, default_value_t = 5_000)]
    digests: usize,
    /// Messages on the idle system
    #[arg(long, default_value_t = 50)]
    messages: usize,
}

impl Flood {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let figure = |what: &str| Figure::new(what, "ms").against("while nothing else is");
        let mut middle = figure("a message from the call to the relay, median");
        let mut longest = figure("the longest").target(Target::AtMost(1_000.0));
        let (mut messages, mut rate) = (Figure::new("messages", "in the flood"), Figure::new("digests", "per second"));
        for round in 0..rounds.count {
            let Measured { idle, flooded, seconds } = self.round(rounds, round).await?;
            middle.push_both(percentile(&flooded, 50), percentile(&idle, 50));
            longest.push_both(percentile(&flooded, 100), percentile(&idle, 100));
            messages.push(count(flooded.len()));
            rate.push(count(self.digests) / seconds);
        }
        Ok(vec![middle, longest, messages, rate])
    }

    async fn round(&self, rounds: &Rounds, round: usize) -> Result<Measured> {
        let mut env = Env::without_worker(settings("after 1s", "after 1s")).await?;
        let deliveries = activities(env.store.clone(), &env.relay.url(), env.settings.clone())?;
        let options = registration::transactional_worker(names::TASK_QUEUE, deliveries)?;
        let _transactional = Running::start(env.temporal.clone(), options)?;
        let renderer = TemplateRenderer::new(None)?;

        rounds.say(round, "messages while nothing else is");
        let mut idle = Vec::new();
        for n in 0..self.messages {
            idle.push(milliseconds(&env, &renderer, &format!("idle-{n}")).await?);
        }
        // Every window opens before the first is due, because the worker starts last.
        rounds.say(round, &format!("{} windows open", self.digests));
        let emit = |n: usize| env.events.emit(event(&key("activity", &format!("user-{n}")), "e1"));
        stream::iter(0..self.digests).map(emit).buffer_unordered(50).try_collect::<()>().await?;
        let started = Instant::now();
        env.start_worker()?;
        let mut flooded = Vec::new();
        wait_for_emails(&env.relay, self.messages + 1, DEADLINE).await?;
        while env.relay.count() < self.messages + flooded.len() + self.digests {
            let sent = env.relay.count() - self.messages - flooded.len();
            rounds.say(round, &format!("{sent} of {} digests are sent", self.digests));
            flooded.push(milliseconds(&env, &renderer, &format!("flooded-{}", flooded.len())).await?);
            sleep(PAUSE).await;
        }
        let seconds = started.elapsed().as_secs_f64();
        env.stop_worker()?;
        Ok(Measured { idle, flooded, seconds })
    }
}

struct Measured {
    idle: Vec<f64>,
    flooded: Vec<f64>,
    /// Time from the worker's start to the last digest.
    seconds: f64,
}

/// Time of one message from the call to the relay.
async fn milliseconds(env: &Env, renderer: &TemplateRenderer, name: &str) -> Result<f64> {
    let address = format!("{name}@example.net");
    let submission = MessageSubmission {
        tenant: "acme".to_owned(),
        idempotency_key: name.to_owned(),
        stream: StreamName::Transactional,
        to: SubmissionRecipient::Address { address: address.parse()?, name: String::new() },
        content: SubmissionContent::Parts { subject: "Your code".to_owned(), text: "4711\n".to_owned(), html: None },
        reply_to: None,
        attachments: Vec::new(),
    };
    let started = Timestamp::now();
    let accepted =
        submit::accept(&*env.store, None, renderer, &TenantSigners::default(), &env.settings, &submission).await?;
    submit::start_message(&env.temporal, names::TASK_QUEUE, &accepted.message).await?;
    let arrival = eventually("the message", DEADLINE, async || Ok(env.relay.arrival(&address))).await?;
    let took = arrival.duration_since(started);
    Ok(f64::from(u32::try_from(took.as_micros()).context("the clock was set")?) / 1_000.0)
}
