//! How long does a single message take while a flood of digests is on its way? `./dev bench flood [DIGESTS] [MESSAGES]`.
//!
//! Baseline: the same messages while nothing else is.

use std::{
    env,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use tidings::registration;
use tidings_activities::{
    MessageActivities,
    message::{self, Content, Submission, To},
    renderer::Renderer,
    settings::Streams,
};
use tidings_tests::stage::{Running, Stage, activities, event, eventually, key, mails, settings};
use tidings_workflows::names;

const DEADLINE: Duration = Duration::from_mins(10);

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1).map(|count| count.parse::<usize>());
    let digests = arguments.next().unwrap_or(Ok(5_000)).context("DIGESTS")?;
    let messages = arguments.next().unwrap_or(Ok(20)).context("MESSAGES")?;

    let mut stage = Stage::without_worker(settings("after 1s", "after 1s")).await?;
    let all = activities(stage.store.clone(), &stage.relay.url(), stage.settings.clone())?;
    let deliveries = MessageActivities { store: all.store, relays: all.relays, settings: all.settings };
    let options = registration::transactional(names::TASK_QUEUE, deliveries)?;
    let _transactional = Running::start(stage.temporal.clone(), options)?;
    let renderer = Renderer::new(None)?;

    let idle = times(&stage, &renderer, messages, "idle").await?;
    // All of them are open before the first is due to anybody: the worker starts last.
    let emit = |n: usize| stage.events.emit(event(&key("activity", &format!("user-{n}")), "e1"));
    stream::iter(0..digests).map(emit).buffer_unordered(50).try_collect::<()>().await?;
    let started = Instant::now();
    stage.start_worker()?;
    mails(&stage.relay, messages + 1, DEADLINE).await?;
    let flooded = times(&stage, &renderer, messages, "flooded").await?;
    let done = stage.relay.mails().len() - 2 * messages;
    mails(&stage.relay, digests + 2 * messages, DEADLINE).await?;
    println!("{digests} digests went out in {:.1} s", started.elapsed().as_secs_f64());
    println!("a message while idle:  {idle}");
    println!("a message in the flood: {flooded}; after the last of them {} digests were still to come", digests - done);
    stage.stop_worker()
}

/// From the call to the relay, of one message after the other.
async fn times(stage: &Stage, renderer: &Renderer, messages: usize, name: &str) -> Result<String> {
    let mut times = Vec::new();
    for n in 0..messages {
        let address = format!("{name}-{n}@example.net");
        let submission = Submission {
            tenant: "acme".to_owned(),
            idempotency_key: format!("{name} {n}"),
            stream: Streams::TRANSACTIONAL.to_owned(),
            to: To::Address { address: address.clone(), name: String::new() },
            content: Content::Parts { subject: "Your code".to_owned(), text: "4711\n".to_owned(), html: None },
            reply_to: None,
        };
        let started = Instant::now();
        let accepted = message::accept(&*stage.store, renderer, &stage.settings, &submission).await?;
        message::start(&stage.temporal, names::TASK_QUEUE, &accepted.message).await?;
        let arrived = async || Ok(stage.relay.mails().iter().any(|mail| mail.to == [address.clone()]).then_some(()));
        eventually("the message", DEADLINE, arrived).await?;
        times.push(started.elapsed().as_millis());
    }
    times.sort_unstable();
    let longest = times.last().context("no message")?;
    Ok(format!("median {} ms, longest {longest} ms", times[times.len() / 2]))
}
