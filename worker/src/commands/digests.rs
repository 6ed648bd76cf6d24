//! `tidings digest list` and `show`: digests from the ledger.

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use tidings_model::{
    delivery_events::ReportRecord,
    records::{AuditRecord, DigestEvent, DigestFilter, DigestPlace, DigestRecord, EventPlace, MessageRecord},
    window::WindowEnd,
};
use tidings_operations::digest::{DigestStory, digest_story};
use uuid::Uuid;

use crate::{
    Config,
    commands::page::{self, PageOptions},
    phrases::{attempt_in_words, format_count, local},
    storage,
};

#[derive(Debug, clap::Subcommand)]
pub enum DigestLedgerCommand {
    /// List digests, latest window first
    #[command(after_help = "Examples:\n  \
        tidings digest list --overdue --json\n  \
        tidings digest list --tenant acme --digest-type alerts --outcome failed --since 2d --limit 500\n\n\
        An open window is in the ledger only if some of its events are stashed; see tidings status KEY.\n\
        Every page but the last ends with a cursor for --after.")]
    List(DigestListOptions),
    /// Show a digest: its events, each change of its deadline, who did what, message and attempts
    #[command(after_help = "Example: tidings digest show 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52")]
    Show(DigestShowOptions),
}

/// Returns `false` if the ledger has no such digest.
pub(crate) async fn run(command: DigestLedgerCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        DigestLedgerCommand::List(options) => list(options, config).await,
        DigestLedgerCommand::Show(options) => show(options, config).await,
    }
}

/// The filter, the page and the form of the answer.
#[derive(Debug, clap::Args)]
#[command(mut_arg("limit", |arg| arg.help("Maximum number of digests")))]
pub struct DigestListOptions {
    #[command(flatten)]
    filter: DigestFilter,
    /// Only digests that are past due and unfinished
    #[arg(long, conflicts_with = "outcome")]
    overdue: bool,
    #[command(flatten)]
    page: PageOptions<DigestPlace>,
    /// Print JSON, one line each; the last line has the cursor if another page follows
    #[arg(long)]
    json: bool,
}

async fn list(options: DigestListOptions, config: &Config) -> anyhow::Result<bool> {
    let now = Timestamp::now();
    let DigestListOptions { filter, overdue, page, json: as_json } = options;
    let filter = DigestFilter { overdue_at: overdue.then_some(now), page: page.into(), ..filter };
    let store = storage::open(&config.database_url).await?;
    let listed = store.list_digests(&filter).await?;
    let header = format!("{:<36}  {:<10}  KEY, TIMES, EVENTS", "DIGEST", "STATE");
    page::print_page(listed, as_json, ("digests", &header), |row| {
        if as_json { json!(row).to_string() } else { in_a_line(row, now) }
    });
    Ok(true)
}

fn in_a_line(digest: &DigestRecord, now: Timestamp) -> String {
    let DigestRecord { digest_id, key, opened_at, due_at, state, closed, items, .. } = digest;
    let end = closed.as_ref().map_or(state.name(), |closed| closed.outcome.name());
    let overdue = if digest.is_overdue(now) { ", overdue" } else { "" };
    let (opened, due, items) = (local(*opened_at), local(*due_at), format_count(*items, "event"));
    format!("{digest_id}  {end:<10}  {key}  opened {opened}, due {due}{overdue}, {items}")
}

/// The digest and the form of the answer.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("limit", |arg| arg.help("Maximum number of events")),
    mut_arg("after", |arg| arg.help("Continue after the page of events that ended with this cursor"))
)]
pub struct DigestShowOptions {
    /// The digest
    #[arg(value_name = "DIGEST_ID")]
    digest_id: Uuid,
    #[command(flatten)]
    page: PageOptions<EventPlace>,
    /// Also print the address and the providers' replies
    #[arg(long)]
    addresses: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

async fn show(options: DigestShowOptions, config: &Config) -> anyhow::Result<bool> {
    let DigestShowOptions { digest_id, page, addresses, json: as_json } = options;
    let store = storage::open(&config.database_url).await?;
    let Some(story) = digest_story(&*store, None, digest_id, &page.into(), addresses).await? else {
        anstream::eprintln!("the ledger has no digest {digest_id}; see tidings digest list");
        return Ok(false);
    };
    anstream::println!("{}", if as_json { json!(story).to_string() } else { story_in_words(&story, Timestamp::now()) });
    if let Some(next) = story.events.next.filter(|_| !as_json) {
        anstream::eprintln!("more events: --after {next}");
    }
    Ok(true)
}

fn story_in_words(story: &DigestStory, now: Timestamp) -> String {
    let DigestStory { digest, plan, events, audit, message, attempts, delivery_events } = story;
    let end = digest.closed.as_ref().map_or(digest.state.name(), |closed| closed.outcome.name());
    let overdue = if digest.is_overdue(now) { ", overdue" } else { "" };
    let mut text = format!("{BOLD}{}{BOLD:#}: {end}{overdue}", digest.digest_id);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {name:<10} {value}");
        }
    };
    add_times(digest, &mut line);
    for (name, step) in ["why"].into_iter().chain(std::iter::repeat("then")).zip(plan) {
        line(name, step);
    }
    line("events", &event_count(digest, events.rows.len()));
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
        let told = attempt_in_words(attempt, &TimeZone::system());
        line(&format!("attempt {}", attempt.number), &told);
    }
    for ReportRecord { report, relay, .. } in delivery_events {
        let by = relay.as_ref().map(|relay| format!(" by {relay}")).unwrap_or_default();
        line("reported", &format!("{}{by}: {report}", local(report.occurred_at)));
    }
    text
}

fn add_times(digest: &DigestRecord, line: &mut impl FnMut(&str, &str)) {
    let at = |at: Option<Timestamp>| at.map(local).unwrap_or_default();
    line("key", &digest.key.to_string());
    line("opened", &local(digest.opened_at));
    line("due", &local(digest.due_at));
    line("claimed", &at(digest.claimed_at));
    line("taken", &at(digest.sent_at));
    line("ended", &at(digest.closed_at));
    line("because", digest.closed.as_ref().map_or("", |WindowEnd { why, .. }| why));
    let cadence = [digest.cadence.as_str(), digest.zone.as_str()];
    line("cadence", cadence.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" in ").as_str());
}

/// Adds when the events were returned or purged.
fn event_count(digest: &DigestRecord, listed: usize) -> String {
    let count = format_count(digest.items, "event");
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

#[cfg(test)]
mod tests {
    use tidings_model::{
        records::DigestState,
        window::{DigestOutcome, WindowEnd},
    };
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_line_has_the_end_or_that_the_digest_is_overdue() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut digest = DigestRecord {
            digest_id: Uuid::nil(),
            key: "acme/activity/ann".parse().unwrap(),
            opened_at: at(0),
            due_at: at(60),
            state: DigestState::Rendered,
            claimed_at: Some(at(60)),
            sent_at: None,
            closed: None,
            closed_at: None,
            returned_at: None,
            purged_at: None,
            items: 1,
            plan_why: String::new(),
            cadence: String::new(),
            zone: String::new(),
            attempts: 0,
            ambiguous: 0,
        };
        let line = in_a_line(&digest, at(61));
        assert!(line.contains("rendered    acme/activity/ann") && line.ends_with(", overdue, 1 event"), "{line}");
        digest.state = DigestState::Closed;
        digest.closed = Some(WindowEnd { outcome: DigestOutcome::Failed, why: "550".to_owned() });
        let line = in_a_line(&digest, at(61));
        assert!(line.contains("failed ") && !line.contains("overdue"), "{line}");
    }
}
