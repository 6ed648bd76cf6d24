//! Emits sample events, and compares them with the ledger and the received emails.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use jiff::Timestamp;
use tidings_client::{Client, v1};
use tidings_model::{Key, records::DigestRecord, window::DigestOutcome};
use tidings_store::Store;
use tokio::time::{Instant, sleep};

use super::mailbox::{EmailSummary, Mailbox};
use crate::{Config, storage};

/// Changes by three people on one day, taken from a real repository's history, and alerts for two people.
const EVENTS: &str = include_str!("../../../tests/data/demo.ndjson");
const DEADLINE: Duration = Duration::from_mins(2);
const DIGESTS: u32 = 100;

/// Waits until the emails account for the sample events.
///
/// # Errors
/// An event is rejected, or some are still unaccounted for after two minutes. The error lists their keys.
pub(super) async fn run(config: &Config, mailbox: &Mailbox) -> anyhow::Result<()> {
    let events = sample(Timestamp::now())?;
    let emitted = emit(config, events).await?;
    let total: u64 = emitted.values().sum();
    println!("{total} events emitted for {} keys. Their digests are due in seconds.", emitted.len());
    let account = wait_for_emails(config, mailbox, &emitted).await?;
    if account.open.is_empty() {
        let DemoReconciliation { events, digests, mails, .. } = account;
        println!("{events} events in, {digests} digests out, {mails} emails: they account for every event.");
        return Ok(());
    }
    let lines: Vec<_> = account.open.iter().map(|(key, problem)| format!("  {key}: {problem}")).collect();
    bail!("after {} s the emails do not account for every event:\n{}", DEADLINE.as_secs(), lines.join("\n"))
}

/// Shifts all times so the last event has just happened. Each run has its own tenant, because the ledger
/// ignores known event ids.
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

async fn emit(config: &Config, events: Vec<v1::Event>) -> anyhow::Result<BTreeMap<Key, u64>> {
    let settings = tidings_client::Config { task_queue: config.task_queue.clone(), ..Default::default() };
    let client = Client::new(config.temporal.connect().await?, settings);
    let mut emitted = BTreeMap::new();
    for event in &events {
        let key = Key::new(event.tenant.clone(), event.digest.clone(), event.user.clone())?;
        *emitted.entry(key).or_default() += 1;
    }
    try_join_all(events.into_iter().map(|event| client.emit(event))).await.context("a sample event was rejected")?;
    Ok(emitted)
}

async fn wait_for_emails(
    config: &Config,
    mailbox: &Mailbox,
    emitted: &BTreeMap<Key, u64>,
) -> anyhow::Result<DemoReconciliation> {
    let store = storage::open(&config.database_url).await?;
    let deadline = Instant::now() + DEADLINE;
    loop {
        let account = DemoReconciliation::compare_counts(
            emitted,
            &ledger(store.as_ref(), emitted).await?,
            &mailbox.list_emails(),
        );
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

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DemoReconciliation {
    pub events: u64,
    pub digests: u64,
    pub mails: u64,
    /// Keys with events that no email accounts for, and why.
    pub open: BTreeMap<Key, String>,
}

impl DemoReconciliation {
    pub fn compare_counts(emitted: &BTreeMap<Key, u64>, ledger: &[DigestRecord], mails: &[EmailSummary]) -> Self {
        let mut account = Self::default();
        for (key, &events) in emitted {
            let digests: Vec<_> = ledger.iter().filter(|digest| digest.key == *key).collect();
            let ids: BTreeSet<_> = digests.iter().map(|digest| digest.digest_id.to_string()).collect();
            let ours = mails.iter().filter(|mail| mail.digest_id.as_ref().is_some_and(|id| ids.contains(id)));
            account.events += events;
            account.digests += digests.len() as u64;
            account.mails += ours.count() as u64;
            if let Err(problem) = accounts_for(events, &digests, mails) {
                account.open.insert(key.clone(), problem);
            }
        }
        account
    }
}

/// Every digest must be sent, and its email must name as many events as the ledger. Together they must cover
/// `events`. A second email is only accepted after an ambiguous attempt (rule 26).
fn accounts_for(events: u64, digests: &[&DigestRecord], mails: &[EmailSummary]) -> Result<(), String> {
    let mut mailed = 0;
    for digest in digests {
        let id = digest.digest_id.to_string();
        match &digest.closed {
            Some(closed) if closed.outcome == DigestOutcome::Sent => {}
            Some(closed) => return Err(format!("digest {id} is {}: {}", closed.outcome.name(), closed.why)),
            None => return Err(format!("digest {id} is {}", digest.state)),
        }
        let ours: Vec<_> = mails.iter().filter(|mail| mail.digest_id.as_ref() == Some(&id)).collect();
        if ours.is_empty() || ours.len() > 1 + digest.ambiguous as usize {
            return Err(format!("digest {id} has {} emails", ours.len()));
        }
        if let Some(wrong) = ours.iter().find(|mail| mail.events != Some(digest.items)) {
            return Err(format!("digest {id} has {} events, but its email has {:?}", digest.items, wrong.events));
        }
        mailed += digest.items;
    }
    if mailed == events { Ok(()) } else { Err(format!("{mailed} of {events} events are in an email")) }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidings_model::{records::DigestState, window::WindowEnd};
    use uuid::Uuid;

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

    fn key() -> Key {
        Key::new("demo".into(), "activity".into(), "ann".into()).unwrap()
    }

    fn digest(id: u128, items: u64, outcome: Option<DigestOutcome>) -> DigestRecord {
        DigestRecord {
            digest_id: Uuid::from_u128(id),
            key: key(),
            opened_at: Timestamp::UNIX_EPOCH,
            due_at: Timestamp::UNIX_EPOCH,
            state: if outcome.is_some() { DigestState::Closed } else { DigestState::Claimed },
            claimed_at: None,
            sent_at: None,
            closed: outcome.map(|outcome| WindowEnd { outcome, why: String::new() }),
            closed_at: None,
            returned_at: None,
            purged_at: None,
            items,
            plan_why: String::new(),
            cadence: String::new(),
            zone: String::new(),
            attempts: 1,
            ambiguous: 0,
        }
    }

    fn mail(id: u128, events: u64) -> EmailSummary {
        EmailSummary {
            digest_id: Some(Uuid::from_u128(id).to_string()),
            events: Some(events),
            ..EmailSummary::default()
        }
    }

    fn open(ledger: &[DigestRecord], mails: &[EmailSummary]) -> Option<String> {
        DemoReconciliation::compare_counts(&BTreeMap::from([(key(), 3)]), ledger, mails).open.remove(&key())
    }

    #[test]
    fn two_mails_with_all_events_account_for_them() {
        let ledger = [digest(1, 2, Some(DigestOutcome::Sent)), digest(2, 1, Some(DigestOutcome::Sent))];
        let account = DemoReconciliation::compare_counts(
            &BTreeMap::from([(key(), 3)]),
            &ledger,
            &[mail(1, 2), mail(2, 1), mail(9, 5)],
        );
        assert_eq!(account, DemoReconciliation { events: 3, digests: 2, mails: 2, open: BTreeMap::new() });
    }

    #[test]
    fn a_key_with_a_missing_part_or_a_second_email_stays_open() {
        let sent = [digest(1, 3, Some(DigestOutcome::Sent))];
        for (ledger, mails, problem) in [
            (&[][..], &[][..], "0 of 3 events"),
            (&[digest(1, 2, Some(DigestOutcome::Sent))], &[mail(1, 2)], "2 of 3 events"),
            (&[digest(1, 3, None)], &[mail(1, 3)], "is claimed"),
            (&[digest(1, 3, Some(DigestOutcome::Failed))], &[], "is failed"),
            (&sent, &[], "0 emails"),
            (&sent, &[mail(1, 3), mail(1, 3)], "2 emails"),
            (&sent, &[mail(1, 2)], "its email has Some(2)"),
        ] {
            let found = open(ledger, mails).expect("nothing was found");
            assert!(found.contains(problem), "{found}");
        }
    }
}
