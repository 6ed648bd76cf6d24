//! Claim, render, past the dot, outcome: each step is killed or stopped at random awaits and retried as Temporal would.
//! Stopped steps resume later. Every event is in one email, and a second email exists only if the ledger has an
//! ambiguous attempt.

use std::{env, pin::pin, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, FuturesUnordered},
};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use tidings_activities::{
    CancellableResult,
    digest::{claim, render, send},
};
use tidings_harness::{
    env::{activities, key, settings, sqlite},
    interrupted_future::{Ended, run},
    relay::{Act, At, Fault, Relay},
    steps::{claim_of, recorded_event, send_of},
};
use tidings_model::{
    Event, QuietHours,
    command::CommandContext,
    records::Preferences,
    step::{ClaimAnswer, RenderAnswer, RenderInput, SendAnswer, SendDigestInput, TooLarge},
    window::{DigestOutcome, WaitReason, Window},
};
use tidings_needs::needs;
use tidings_services::{StepError, StepServices};
use tidings_store::{PostgresStore, Store};

/// Digests per store, each with a seed of its own. `TIDINGS_SEEDS` makes more of them, `TIDINGS_SEED` repeats one.
const SEEDS: u64 = 1_000;
/// After this long what is stopped goes on: it may hold a lock that others need.
const PATIENCE: Duration = Duration::from_millis(25);

/// xorshift64*: the same seed makes the same choices.
struct Dice {
    state: u64,
    /// `true` if a killed execution is dropped. A dropped query of PostgreSQL may leave its connection in a transaction, which
    /// the death of a process never does. With PostgreSQL a killed execution therefore resumes in the end, like a stopped one.
    drops: bool,
}

impl Dice {
    fn new(seed: u64, drops: bool) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, drops }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}

/// The fate of one execution of an activity.
#[derive(Clone, Copy)]
enum Fate {
    Lives,
    Killed { polls: u32 },
    Stopped { polls: u32 },
}

impl Fate {
    fn draw(dice: &mut Dice) -> Self {
        let polls = u32::try_from(dice.roll(24)).unwrap_or_default();
        match dice.roll(5) {
            0 | 1 if dice.drops => Self::Killed { polls },
            0..=2 => Self::Stopped { polls },
            _ => Self::Lives,
        }
    }
}

/// Awaits `future`. What is stopped may hold a lock that `future` needs: after a while it goes on (SIGCONT), until
/// `future` is there.
async fn patiently<T>(future: impl Future<Output = T>, late_attempts: &mut Vec<BoxFuture<'_, ()>>) -> T {
    let mut future = pin!(future);
    if let Ok(value) = tokio::time::timeout(PATIENCE, &mut future).await {
        return value;
    }
    let mut awake: FuturesUnordered<_> = late_attempts.drain(..).collect();
    let value = loop {
        tokio::select! {
            value = &mut future => break value,
            Some(()) = awake.next() => {}
        }
    };
    late_attempts.extend(awake);
    value
}

/// Tries a step until it answers, as Temporal does. Stopped executions are left in `zombies`.
async fn step<'a, T: Send + 'a>(
    dice: &mut Dice,
    late_attempts: &mut Vec<BoxFuture<'a, ()>>,
    execute: impl Fn() -> BoxFuture<'a, Result<T, StepError>>,
) -> Result<T> {
    for _ in 0..200 {
        let fate = Fate::draw(dice);
        let ended = match fate {
            Fate::Lives => Ended::With(patiently(execute(), late_attempts).await),
            Fate::Killed { polls } | Fate::Stopped { polls } => patiently(run(execute(), polls), late_attempts).await,
        };
        let answer = match (ended, fate) {
            (Ended::With(answer), _) => Some(answer),
            (Ended::Stopped(stopped), Fate::Stopped { .. }) => {
                late_attempts.push(Box::pin(async move { drop(stopped.await) }));
                None
            }
            // Dropped: killed.
            (Ended::Stopped(_), _) => None,
        };
        while !late_attempts.is_empty() && dice.roll(3) == 0 {
            let awakened = late_attempts.swap_remove(usize::try_from(dice.roll(late_attempts.len() as u64))?);
            patiently(awakened, late_attempts).await;
        }
        // An error is worth another attempt; an answer counts, unless the worker dies before it can tell.
        if let Some(Ok(answer)) = answer
            && dice.roll(8) > 0
        {
            return Ok(answer);
        }
    }
    bail!("the step never came to an end")
}

struct Digest {
    window: Window,
    events: Vec<Event>,
}

impl Digest {
    fn new(seed: u64, count: u64) -> Self {
        let key = key("activity", &format!("user-{seed}"));
        let opened_at = Timestamp::now();
        let events = (0..count).map(|n| recorded_event(&format!("{seed}-{n}"), opened_at)).collect::<Vec<_>>();
        let digest_id = key.digest_id("run", seed);
        Self { window: Window { key, digest_id, opened_at, due_at: opened_at }, events }
    }
}

async fn one_digest(activities: &StepServices, relay: &Relay, mut dice: Dice, seed: u64) -> Result<usize> {
    let fault = dice.roll(8);
    // Only a digest of more lines than a short email has can be made shorter.
    let digest = Digest::new(seed, if fault == 4 { 9 } else { 1 + dice.roll(4) });
    let window = &digest.window;
    let to = format!("user-{seed}@dev.invalid");
    match fault {
        0 => relay.fault(Fault::new(At::Dot, Act::KeepAndClose).to(&to).times(1)),
        1 => relay.fault(Fault::new(At::Dot, Act::Close).to(&to).times(1)),
        2 => relay.fault(Fault::new(At::Body, Act::Close).to(&to).times(1)),
        3 => relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).to(&to).times(1)),
        4 => relay.fault(Fault::new(At::Mail, Act::Reply("552 5.3.4 too big".into())).to(&to).times(1)),
        _ => {}
    }
    let mut late_attempts = Vec::new();
    let asked_at = window.opened_at;

    let events = digest.events.clone();
    let load = claim_of(window, events);
    let loaded = step(&mut dice, &mut late_attempts, || {
        let load = load.clone();
        Box::pin(async move { claim::run(activities, &load).await })
    })
    .await?;
    let ClaimAnswer::Claimed { items, rendered: stored, .. } = loaded else { bail!("{loaded:?}") };
    ensure!(items == digest.events.len() as u64, "{items} events");

    let input = RenderInput { asked_at, window: window.clone(), stored, too_large: None };
    let rendered = step(&mut dice, &mut late_attempts, || {
        let input = input.clone();
        Box::pin(async move { render::run(activities, &input).await })
    })
    .await?;
    ensure!(rendered == RenderAnswer::Stored, "{rendered:?}");

    let paused_until = if fault == 5 { Some(asked_at.checked_add(20.minutes())?) } else { None };
    if paused_until.is_some() {
        let chosen = Preferences { paused_until, ..Preferences::default() };
        let entry =
            CommandContext { by: "carol".to_owned(), why: "away".to_owned() }.audit_entry("preferences", asked_at);
        // What is stopped may hold the one connection that writes.
        let put = activities.store.put_preferences(&window.key, &chosen, None, &entry);
        patiently(put, &mut late_attempts).await?;
    }
    let mut sent = None;
    let mut too_large = None;
    // An attempt that died past the dot makes the next one wait for its reply: each round is later than that.
    for attempt in 0..14 {
        if attempt == 7 {
            // A worker waits for its own attempt past the dot for as long as that is stopped.
            futures::future::join_all(late_attempts.drain(..)).await;
        }
        let asked_at = asked_at.checked_add((attempt * 11).minutes())?;
        let input = SendDigestInput {
            shortens: too_large.is_none(),
            after: Some(if attempt == 0 { WaitReason::FirstDeadline } else { WaitReason::Retry }),
            ..send_of(window, asked_at)
        };
        let answer = step(&mut dice, &mut late_attempts, || {
            let input = input.clone();
            Box::pin(async move { send::run(activities, &input, futures::future::pending()).await })
        })
        .await?;
        match answer {
            CancellableResult::Done(SendAnswer::Closed { closed, .. }) => {
                sent = Some(closed);
                break;
            }
            CancellableResult::Done(SendAnswer::Waiting { why, too_large: Some(attempt), .. }) => {
                too_large = Some(TooLarge { attempt, why });
                let input =
                    RenderInput { asked_at, window: window.clone(), stored: false, too_large: too_large.clone() };
                let rendered = step(&mut dice, &mut late_attempts, || {
                    let input = input.clone();
                    Box::pin(async move { render::run(activities, &input).await })
                })
                .await?;
                ensure!(rendered == RenderAnswer::Stored, "{rendered:?}");
            }
            CancellableResult::Done(_) | CancellableResult::Cancelled => {}
        }
    }
    let closed = sent.context("fourteen attempts did not deliver it")?;
    ensure!(closed.outcome == DigestOutcome::Sent, "{closed:?}");
    let record = activities.store.digest(window.digest_id).await?.context("the ledger does not know the digest")?;
    ensure!(record.sent_at >= paused_until, "sent in the recipient's pause: {record:?}");
    futures::future::join_all(late_attempts).await;
    if too_large.is_some() {
        let mails: Vec<_> = relay.mails().into_iter().filter(|mail| mail.to == [to.clone()]).collect();
        let short = mails.iter().all(|mail| String::from_utf8_lossy(&mail.bytes()).contains("4 more"));
        ensure!(short, "the large email was sent");
    }
    check(activities, relay, &digest, &to).await
}

/// Answers how many mails more than one there were.
async fn check(activities: &StepServices, relay: &Relay, digest: &Digest, to: &str) -> Result<usize> {
    let digest_id = digest.window.digest_id;
    let mails: Vec<_> = relay.mails().into_iter().filter(|mail| mail.to == [to]).collect();
    let record = activities.store.digest(digest_id).await?.context("the ledger does not know the digest")?;
    let ambiguous = usize::try_from(record.ambiguous)?;
    ensure!(!mails.is_empty(), "no mail");
    ensure!(mails.len() <= 1 + ambiguous, "{} mails, {ambiguous} ambiguous attempts", mails.len());
    ensure!(mails.iter().all(|mail| mail.bytes() == mails[0].bytes()), "the attempts sent different bytes");
    ensure!(record.closed.as_ref().is_some_and(|closed| closed.outcome == DigestOutcome::Sent), "{record:?}");
    ensure!(record.items == digest.events.len() as u64, "{record:?}");
    let text = String::from_utf8(mails[0].bytes())?;
    ensure!(text.contains(&format!("X-Tidings-Events: {}\r\n", digest.events.len())), "the mail counts differently");
    Ok(mails.len() - 1)
}

/// A time of twenty minutes that begins soon: some attempts are put off.
fn quiet_soon() -> Result<QuietHours> {
    let at =
        |minutes: i64| (Timestamp::now() + minutes.minutes()).to_zoned(TimeZone::UTC).strftime("%H:%M").to_string();
    let words = format!("{}-{}", at(15), at(35));
    Ok(QuietHours::new(vec![words.parse().map_err(anyhow::Error::msg)?])?)
}

/// One digest after the other: what is stopped holds connections and locks, and only its own digest wakes it.
async fn many_digests(store: Arc<dyn Store>, drops: bool) -> Result<()> {
    let relay = Relay::start().await?;
    let mut settings = settings("after 1s", "after 1s");
    settings.digests.get_mut("activity").context("no such type")?.quiet = quiet_soon()?;
    let activities = activities(store, &relay.url(), settings)?;
    let seeds = match env::var("TIDINGS_SEED") {
        Ok(seed) => vec![seed.parse()?],
        Err(_) => (0..env::var("TIDINGS_SEEDS").map_or(Ok(SEEDS), |seeds| seeds.parse())?).collect(),
    };
    let count = seeds.len();
    let (activities, relay) = (&activities, &relay);
    let results = stream::iter(seeds).map(|seed| async move {
        let one =
            tokio::time::timeout(Duration::from_mins(2), one_digest(activities, relay, Dice::new(seed, drops), seed));
        one.await.map_err(Into::into).flatten().with_context(|| format!("TIDINGS_SEED={seed}"))
    });
    let second_mails: usize =
        results.buffered(1).collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<_>>>()?.into_iter().sum();
    println!(
        "{count} digests, {} mails, {second_mails} of them second mails of ambiguous attempts",
        relay.mails().len()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_await_loses_no_event_on_sqlite() -> Result<()> {
    let folder = tempfile::tempdir()?;
    many_digests(sqlite(folder.path()).await?, true).await
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_await_loses_no_event_on_postgresql() -> Result<()> {
    let url = tidings_harness::postgres::database().await?;
    let store = PostgresStore::connect(&url).await?;
    store.migrate().await?;
    many_digests(Arc::new(store), false).await
}
