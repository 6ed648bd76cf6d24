//! `tidings digests show`: the story of one digest.

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use tidings_activities::operations::digest::{Story, story};
use tidings_model::{
    delivery_events::ReportRecord,
    records::{AuditRecord, Cursor, DigestEvent, DigestRecord, EventPlace, MessageRecord, Page},
    window::Closed,
};
use uuid::Uuid;

use crate::{
    Config,
    commands::messages,
    phrases::{counted, local},
    storage,
};

/// The digest and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The digest
    #[arg(value_name = "DIGEST_ID")]
    digest_id: Uuid,
    /// The largest number of events
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continues after the page of events that ended with this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor<EventPlace>>,
    /// Print the address and the texts of providers too
    #[arg(long)]
    addresses: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Prints the digest. `false`: the ledger does not know the digest.
///
/// # Errors
/// The store does not answer.
pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { digest_id, limit, after, addresses, json: as_json } = options;
    let store = storage::open(&config.database_url).await?;
    let Some(story) = story(&*store, None, digest_id, &Page { limit, after }, addresses).await? else {
        anstream::eprintln!("the ledger has no digest {digest_id}; see tidings digests list");
        return Ok(false);
    };
    anstream::println!("{}", if as_json { json!(story).to_string() } else { in_words(&story, Timestamp::now()) });
    if let Some(next) = story.events.next.filter(|_| !as_json) {
        anstream::eprintln!("more events: --after {next}");
    }
    Ok(true)
}

fn in_words(story: &Story, now: Timestamp) -> String {
    let Story { digest, plan, events, audit, message, attempts, delivery_events } = story;
    let end = digest.closed.as_ref().map_or(digest.state.name(), |closed| closed.outcome.name());
    let overdue = if digest.is_overdue(now) { ", overdue" } else { "" };
    let mut text = format!("{BOLD}{}{BOLD:#}: {end}{overdue}", digest.digest_id);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {name:<10} {value}");
        }
    };
    times(digest, &mut line);
    for (name, step) in ["why"].into_iter().chain(std::iter::repeat("then")).zip(plan) {
        line(name, step);
    }
    line("events", &count(digest, events.rows.len()));
    for event in &events.rows {
        line("event", &event_in_words(event));
    }
    for entry in audit {
        line("audit", &entry_in_words(entry));
    }
    if let Some(MessageRecord { state, envelope_to, subject, .. }) = message {
        line("message", &format!("{state}: {subject}"));
        line("to", envelope_to);
    }
    for attempt in attempts {
        let told = messages::attempt_in_words(attempt, &TimeZone::system());
        line(&format!("attempt {}", attempt.number), &told);
    }
    for ReportRecord { report, relay, .. } in delivery_events {
        let by = relay.as_ref().map(|relay| format!(" by {relay}")).unwrap_or_default();
        line("reported", &format!("{}{by}: {report}", local(report.occurred_at)));
    }
    text
}

/// The key, the times, the end and the cadence.
fn times(digest: &DigestRecord, line: &mut impl FnMut(&str, &str)) {
    let at = |at: Option<Timestamp>| at.map(local).unwrap_or_default();
    line("key", &digest.key.to_string());
    line("opened", &local(digest.opened_at));
    line("due", &local(digest.due_at));
    line("claimed", &at(digest.claimed_at));
    line("taken", &at(digest.sent_at));
    line("ended", &at(digest.closed_at));
    line("because", digest.closed.as_ref().map_or("", |Closed { why, .. }| why));
    let cadence = [digest.cadence.as_str(), digest.zone.as_str()];
    line("cadence", cadence.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" in ").as_str());
}

/// The number of events, and the reason why fewer are listed.
fn count(digest: &DigestRecord, listed: usize) -> String {
    let count = counted(digest.items, "event");
    match (digest.returned_at, digest.purged_at) {
        (Some(at), _) => format!("{count}, returned to the key at {}", local(at)),
        (None, Some(at)) if listed == 0 => format!("{count}, purged at {}", local(at)),
        _ => count,
    }
}

fn event_in_words(event: &DigestEvent) -> String {
    let DigestEvent { event_id, category, entity_type, occurred_at, urgent, excluded, returned_from, .. } = event;
    let mut text = format!("{}  {category} {entity_type}  {event_id}", local(*occurred_at));
    if *urgent {
        text += ", urgent";
    }
    if let Some(digest) = returned_from {
        let _ = write!(text, ", returned from digest {digest}");
    }
    if let Some(why) = excluded {
        let _ = write!(text, ", in no email: {why}");
    }
    text
}

fn entry_in_words(AuditRecord { at, actor, action, why, .. }: &AuditRecord) -> String {
    format!("{}  {action} by {actor}: {why}", local(*at))
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
