//! The demo: sample events through the client, and whether the mails account for them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use jiff::Timestamp;
use tidings_client::{Client, v1};
use tidings_model::{Key, records::DigestRecord};
use tidings_store::Store;
use tokio::time::{Instant, sleep};

use super::{mailbox::Mailbox, reconcile::Reconciliation};
use crate::{Config, storage};

/// A day of three people's changes, taken from a real repository's history, and of two people's alerts.
const EVENTS: &str = include_str!("../../../tests/data/demo.ndjson");
/// Seconds are enough on an idle laptop.
const DEADLINE: Duration = Duration::from_mins(2);
/// Digests of a key that are looked at; a demo makes one or two.
const DIGESTS: u32 = 100;

/// Emits the sample events and waits until the mails account for them.
///
/// # Errors
/// An event is refused, or what is still open after two minutes.
pub(super) async fn run(config: &Config, mailbox: &Mailbox) -> anyhow::Result<()> {
    let events = sample(Timestamp::now())?;
    let emitted = emit(config, events).await?;
    let total: u64 = emitted.values().sum();
    println!("{total} events emitted for {} keys. Their digests are due in seconds.", emitted.len());
    let account = settle(config, mailbox, &emitted).await?;
    if account.open.is_empty() {
        let Reconciliation { events, digests, mails, .. } = account;
        println!("{events} events in, {digests} digests out, {mails} mails: they account for every event.");
        return Ok(());
    }
    let lines: Vec<_> = account.open.iter().map(|(key, problem)| format!("  {key}: {problem}")).collect();
    bail!("after {} s the mails do not account for every event:\n{}", DEADLINE.as_secs(), lines.join("\n"))
}

/// The events, as if the last had just happened. A tenant of its own for each run: ids that the ledger has seen would
/// change nothing.
fn sample(now: Timestamp) -> anyhow::Result<Vec<v1::Event>> {
    let lines = EVENTS.lines().map(serde_json::from_str::<v1::Event>);
    let mut events = lines.collect::<Result<Vec<_>, _>>().context("the sample events")?;
    let at = |event: &v1::Event| event.occurred_at.and_then(|at| Timestamp::try_from(at).ok());
    let latest = events.iter().filter_map(at).max().context("the sample events have no time")?;
    let tenant = now.strftime("demo-%Y%m%d-%H%M%S").to_string();
    for event in &mut events {
        let at = at(event).context("a sample event has no time")?;
        event.occurred_at = Some((now - latest.duration_until(at).abs()).into());
        event.tenant.clone_from(&tenant);
    }
    Ok(events)
}

/// Emits the events and counts them by key.
async fn emit(config: &Config, events: Vec<v1::Event>) -> anyhow::Result<BTreeMap<Key, u64>> {
    let settings = tidings_client::Config { task_queue: config.task_queue.clone(), ..Default::default() };
    let client = Client::new(config.temporal.connect().await?, settings);
    let mut emitted = BTreeMap::new();
    for event in &events {
        let key = Key::new(event.tenant.clone(), event.digest.clone(), event.user.clone())?;
        *emitted.entry(key).or_default() += 1;
    }
    try_join_all(events.into_iter().map(|event| client.emit(event))).await.context("a sample event was refused")?;
    Ok(emitted)
}

/// Looks until everything is accounted for, or the deadline has passed.
async fn settle(config: &Config, mailbox: &Mailbox, emitted: &BTreeMap<Key, u64>) -> anyhow::Result<Reconciliation> {
    let store = storage::open(&config.database_url).await?;
    let deadline = Instant::now() + DEADLINE;
    loop {
        let account = Reconciliation::of(emitted, &ledger(store.as_ref(), emitted).await?, &mailbox.list());
        if account.open.is_empty() || Instant::now() > deadline {
            return Ok(account);
        }
        sleep(Duration::from_millis(250)).await;
    }
}

async fn ledger(store: &dyn Store, emitted: &BTreeMap<Key, u64>) -> anyhow::Result<Vec<DigestRecord>> {
    let mut digests = Vec::new();
    for key in emitted.keys() {
        digests.extend(store.digests(key, DIGESTS).await?);
    }
    Ok(digests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_event_passes_the_edge_and_has_just_happened() {
        let now = Timestamp::now();
        let events = sample(now).unwrap();
        assert!(events.len() > 150);
        let latest = events.iter().filter_map(|event| event.occurred_at?.try_into().ok()).max();
        assert_eq!(latest, Some(now));
        for event in events {
            let (key, _event) = tidings_model::Event::from_wire(event, None).unwrap();
            assert!(["activity", "alerts"].contains(&key.digest_type.as_str()));
        }
    }
}
