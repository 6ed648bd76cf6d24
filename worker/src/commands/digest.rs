//! `tidings digest`: audited workflow updates to one key or many.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;
use tidings_client::{WorkflowCommands, commands::CommandResult};
use tidings_model::{
    Key,
    command::{CommandContext, DropResult, FlushResult, HoldResult, ReleaseResult, ReopenResult, RetimeResult},
    job::JobTask,
};
use tidings_operations::{digest::name_of, key_filter::KeyFilter};
use uuid::Uuid;

use crate::{
    Config,
    args::{RequiredReason, default_login, parse_future_time},
    client::{self, explain_unanswered},
    commands::digests,
    error::UsageError,
    phrases::{format_count, local, nothing_pending},
    storage,
};

mod bulk;
pub(crate) mod preview;

const EXAMPLES: &str = "\
Examples:
  tidings digest list --overdue                     what should have gone out by now?
  tidings digest list --tenant acme --user ann      what did ann get?
  tidings digest show 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52
                                                    why did it go out when it did?
  tidings digest hold acme/activity/ann --why 'wrong prices in the events' --until 2h
  tidings digest release acme/activity/ann --why 'prices fixed'
  tidings digest drop acme/activity/ann --why 'the events were a test'
  tidings digest flush acme/activity/ann --why 'ticket 812'
  tidings digest retime acme/activity/ann --why 'not in the night' --at 2026-12-01T08:00:00Z

A key with nothing pending stays unchanged. The audit trail records the operator, the reason and the time.
In a part of the key, / is written %2F and % is written %25.

Many keys at once:
  tidings digest hold --filter 'tenant=acme and digest_type=alerts' --why 'ticket 812' --dry-run
  tidings digest hold --filter 'tenant=acme and digest_type=alerts' --why 'ticket 812' --rate 50

--filter finds keys with a running workflow, under each name of the tenant and the type. After a failure, run the command again: completed keys do not change.";

/// The commands.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum DigestCommand {
    #[command(flatten)]
    Ledger(digests::DigestLedgerCommand),
    /// Send pending events now; holds, pauses, consent and suppressions still apply
    #[command(after_help = "Example: tidings digest flush --filter 'digest_type=alerts' --why 'ticket 812'")]
    Flush(DigestCommandOptions),
    /// Collect events, but send nothing until the hold ends
    #[command(after_help = "Example: tidings digest hold acme/activity/ann --why 'wrong prices' --until 2h")]
    Hold {
        #[command(flatten)]
        options: DigestCommandOptions,
        /// End of the hold: an RFC 3339 timestamp, or a span from now such as `2h 30m` or `14d`
        #[arg(long, value_name = "TIME", value_parser = parse_future_time, allow_hyphen_values = true)]
        until: Option<Timestamp>,
    },
    /// End a hold; overdue events of one key are sent at once, those of many keys over `spread`
    #[command(after_help = "Example: tidings digest release --filter 'tenant=acme' --why 'prices fixed'")]
    Release(DigestCommandOptions),
    /// Drop pending events and the digest in delivery; the ledger keeps the events
    #[command(after_help = "Example: tidings digest drop acme/activity/ann --why 'the events were a test'")]
    Drop(DigestCommandOptions),
    /// Move the deadline of pending events
    #[command(after_help = "Examples:\n  \
        tidings digest retime acme/activity/ann --why 'not in the night' --at 2026-12-01T08:00:00Z\n  \
        tidings digest retime --filter 'digest_type=activity' --why 'the new cadence, at once'")]
    Retime {
        #[command(flatten)]
        options: DigestCommandOptions,
        /// New deadline: an RFC 3339 timestamp, or a span from now such as `2h 30m` [default: from the configuration and
        /// the recipient's preferences]
        #[arg(long, value_name = "TIME", value_parser = parse_future_time, allow_hyphen_values = true)]
        at: Option<Timestamp>,
    },
    /// Send a digest that was dropped, failed or left unfinished
    Reopen(ReopenOptions),
    /// Show the message as it would be sent now, without sending it
    Preview(preview::PreviewOptions),
}

/// The keys, the operator and the reason.
#[derive(Debug, Args)]
pub struct DigestCommandOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER", required_unless_present = "filter", conflicts_with = "filter")]
    key: Option<Key>,
    /// Instead of one key: all with this tenant, type and user, as in `tenant=acme and digest_type=alerts`
    #[arg(long, value_name = "WORDS")]
    filter: Option<KeyFilter>,
    // `requires` alone is not enough: clap waives a required argument that conflicts with a given one.
    /// Only list the keys; with --filter
    #[arg(long, requires = "filter", conflicts_with = "key")]
    dry_run: bool,
    /// Keys per second, at most 1000; with --filter
    #[arg(long, value_name = "N", requires = "filter", conflicts_with = "key", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    #[command(flatten)]
    reason: RequiredReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The digest, the operator and the reason.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    tidings digest reopen acme/activity/ann 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52 --why 'dropped by mistake'\n\n\
    Find the id with `tidings digest list`. The digest is sent under its own id with the events it has, \
    and no new ones.")]
pub struct ReopenOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// The digest: dropped, failed, unknown or ambiguous, or without an end
    digest_id: Uuid,
    #[command(flatten)]
    reason: RequiredReason,
    /// Reopen even if the recipient may already have the message
    #[arg(long)]
    may_duplicate: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if a key failed or a digest was not reopened.
pub(crate) async fn run(command: DigestCommand, config: &Config) -> anyhow::Result<bool> {
    let (options, task) = match command {
        DigestCommand::Ledger(command) => return digests::run(command, config).await,
        DigestCommand::Flush(options) => (options, JobTask::Flush),
        DigestCommand::Hold { options, until } => (options, JobTask::Hold { until }),
        DigestCommand::Release(options) => (options, JobTask::Release),
        DigestCommand::Drop(options) => (options, JobTask::Drop),
        DigestCommand::Retime { options, at } => (options, JobTask::Retime { at }),
        DigestCommand::Reopen(options) => return reopen(options, config).await,
        DigestCommand::Preview(options) => return preview::run(options, config).await,
    };
    let DigestCommandOptions { key, filter, dry_run, rate, reason, json } = options;
    let order = reason.into_order()?;
    match (key, filter) {
        (Some(key), _) => send_to_key(config, &key, &task, order, json).await,
        (None, Some(filter)) if dry_run => bulk::list(config, &filter, json).await,
        (None, Some(filter)) => bulk::run(config, &filter, &task, &order, rate, json).await,
        (None, None) => Err(UsageError("name a key, or several with --filter".to_owned()).into()),
    }
}

/// `tidings flush` needs no reason; the audit trail gets the command's name.
pub(crate) async fn flush(config: &Config, key: &Key, as_json: bool) -> anyhow::Result<bool> {
    let order = CommandContext { by: default_login(), why: "tidings flush".to_owned() };
    send_to_key(config, key, &JobTask::Flush, order, as_json).await
}

async fn send_to_key(
    config: &Config,
    key: &Key,
    task: &JobTask,
    order: CommandContext,
    as_json: bool,
) -> anyhow::Result<bool> {
    let commands = client::connect_commands(config).await?;
    let key = commands.open_name(&config.names, key).await?;
    send_command(&commands, &key, task, order, as_json).await
}

async fn reopen(options: ReopenOptions, config: &Config) -> anyhow::Result<bool> {
    let ReopenOptions { key, digest_id, reason, may_duplicate, json } = options;
    let order = reason.into_order()?;
    let key = if config.names.all_keys(&key).len() > 1 {
        name_of(&*storage::open(&config.database_url).await?, &config.names, &key, digest_id).await?
    } else {
        key
    };
    let task = JobTask::Reopen { digest_id: Some(digest_id), may_duplicate };
    send_command(&client::connect_commands(config).await?, &key, &task, order, json).await
}

/// Addresses exactly this name of the key. Returns `false` if a digest was not reopened.
async fn send_command(
    commands: &WorkflowCommands,
    key: &Key,
    task: &JobTask,
    order: CommandContext,
    as_json: bool,
) -> anyhow::Result<bool> {
    let done = commands.digest(key).send(task, order, false).await.map_err(|error| explain_unanswered(key, error))?;
    let text = if as_json { json!(done).to_string() } else { answer_in_words(key, task, &done) };
    anstream::println!("{text}");
    Ok(!matches!(done, CommandResult::Reopened(ReopenResult { refused: Some(_), .. })))
}

fn answer_in_words(key: &Key, task: &JobTask, done: &CommandResult) -> String {
    let until = if let JobTask::Hold { until } = task { *until } else { None };
    let digest_id = if let JobTask::Reopen { digest_id, .. } = task { *digest_id } else { None };
    match done {
        CommandResult::Flushed(answer) => describe_flushed(key, answer),
        CommandResult::Held(answer) => describe_held(key, answer, until),
        CommandResult::Released(answer) => describe_released(key, answer, Timestamp::now()),
        CommandResult::Dropped(answer) => describe_dropped(key, answer),
        CommandResult::Retimed(answer) => describe_retimed(key, answer),
        CommandResult::Reopened(answer) => {
            format!("{key}: {}", describe_reopened(digest_id.unwrap_or_default(), answer))
        }
    }
}

fn describe_flushed(key: &Key, flushed: &FlushResult) -> String {
    let events = format_count(flushed.events, "event");
    match flushed {
        FlushResult { events: 0, behind: None, .. } => nothing_pending(key),
        FlushResult { events: 0, behind: Some(digest), hurried: true, held: false, paused: None } => {
            format!("{key}: sending digest {digest} now")
        }
        FlushResult { events: 0, behind: Some(digest), .. } => {
            format!("{key}: nothing pending; digest {digest} is on its way, see tidings status {key}")
        }
        FlushResult { held: true, .. } => format!("{key}: on hold; {events} will be sent when that ends"),
        FlushResult { paused: Some(paused), .. } => format!("{key}: {paused}; {events} will be sent when that ends"),
        // We only check for pauses and opt-outs by the recipient when the window is claimed.
        FlushResult { behind: None, .. } => {
            format!("{key}: sending {events} now, unless the recipient's choices forbid it")
        }
        FlushResult { behind: Some(digest), hurried: true, .. } => {
            format!("{key}: sending digest {digest} now, and {events} as soon as it is delivered or given up")
        }
        FlushResult { behind: Some(digest), .. } => {
            format!("{key}: sending {events} as soon as digest {digest} is delivered or given up")
        }
    }
}

fn describe_held(key: &Key, held: &HoldResult, until: Option<Timestamp>) -> String {
    if *held == HoldResult::default() {
        return nothing_pending(key);
    }
    let until = until.map_or_else(|| "it is released".to_owned(), local);
    format!(
        "{key}: on hold until {until}; {} waiting{}",
        format_count(held.events, "event"),
        and_digest(held.delivering)
    )
}

fn describe_released(key: &Key, released: &ReleaseResult, now: Timestamp) -> String {
    if !released.held {
        return format!("{key}: was not on hold");
    }
    let events = format_count(released.events, "event");
    if let Some(paused) = &released.paused {
        return format!("{key}: released, but {paused}; {events} waiting");
    }
    match released.due_at {
        Some(due_at) if due_at > now => format!("{key}: released; {events} due at {}", local(due_at)),
        _ => format!("{key}: released; sending {events} now"),
    }
}

pub(crate) fn describe_dropped(key: &Key, dropped: &DropResult) -> String {
    if *dropped == DropResult::default() {
        return nothing_pending(key);
    }
    let events = format_count(dropped.events, "event");
    format!("{key}: dropped {events}{}; the ledger keeps them", and_digest(dropped.delivering))
}

fn describe_retimed(key: &Key, retimed: &RetimeResult) -> String {
    let RetimeResult { events, was, due_at, why } = retimed;
    // Events behind a digest in delivery have no deadline yet.
    let Some(due_at) = due_at else { return format!("{key}: no window is open, so nothing was retimed") };
    let events = format_count(*events, "event");
    match was {
        Some(was) if was == due_at => format!("{key}: {events} still due at {}: {why}", local(*due_at)),
        Some(was) => format!("{key}: {events} due at {}, not at {}: {why}", local(*due_at), local(*was)),
        None => format!("{key}: {events} due at {}: {why}", local(*due_at)),
    }
}

pub(crate) fn describe_reopened(digest_id: Uuid, reopened: &ReopenResult) -> String {
    match &reopened.refused {
        None => format!("digest {digest_id} is sent with {}", format_count(reopened.events, "event")),
        Some(why) => format!("digest {digest_id} is unchanged: {why}"),
    }
}

fn and_digest(delivering: Option<Uuid>) -> String {
    delivering.map(|digest| format!(" and digest {digest}, which was on its way")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use tidings_model::pause::PauseDetails;

    use super::*;

    fn key() -> Key {
        "acme/activity/ann".parse().unwrap()
    }

    fn paused() -> PauseDetails {
        PauseDetails { by: "ann".to_owned(), why: "wrong prices".to_owned(), since: Timestamp::UNIX_EPOCH, until: None }
    }

    #[test]
    fn a_flush_names_pending_events_and_the_delivery() {
        let digest = Some(Uuid::nil());
        for (events, behind, held, said) in [
            (0, None, false, "acme/activity/ann: nothing pending"),
            (0, digest, false, "nothing pending; digest 00000000-0000-0000-0000-000000000000 is on its way"),
            (1, None, false, "acme/activity/ann: sending 1 event now, unless the recipient's choices forbid it"),
            (1, None, true, "on hold; 1 event will be sent when that ends"),
            (2, digest, false, "sending 2 events as soon as digest 00000000-0000-0000-0000-000000000000 is delivered"),
        ] {
            let words = describe_flushed(&key(), &FlushResult { events, behind, held, ..FlushResult::default() });
            assert!(words.contains(said), "{words}");
        }
    }

    #[test]
    fn each_command_reports_its_effect_or_that_it_had_none() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(12);
        let timed = |was| RetimeResult { events: 2, was, due_at: Some(now), why: "after 1h".to_owned() };
        let digest = Some(Uuid::nil());
        let released_now = ReleaseResult { held: true, events: 1, due_at: Some(now), paused: None };
        for (words, said) in [
            (describe_held(&key(), &HoldResult::default(), None), "nothing pending"),
            (
                describe_held(&key(), &HoldResult { events: 2, delivering: None }, None),
                "until it is released; 2 events waiting",
            ),
            (describe_released(&key(), &ReleaseResult::default(), now), "was not on hold"),
            (describe_released(&key(), &released_now, now), "sending 1 event now"),
            (
                describe_released(&key(), &ReleaseResult { paused: Some(paused()), ..released_now.clone() }, now),
                "released, but paused by ann since 1970-01-01T00:00:00Z: wrong prices; 1 event waiting",
            ),
            (
                describe_flushed(&key(), &FlushResult { events: 1, paused: Some(paused()), ..FlushResult::default() }),
                "paused by ann since 1970-01-01T00:00:00Z: wrong prices; 1 event will be sent when that ends",
            ),
            (
                describe_flushed(&key(), &FlushResult { behind: digest, hurried: true, ..FlushResult::default() }),
                "acme/activity/ann: sending digest 00000000-0000-0000-0000-000000000000 now",
            ),
            (describe_dropped(&key(), &DropResult::default()), "nothing pending"),
            (
                describe_dropped(&key(), &DropResult { events: 1, delivering: digest }),
                "dropped 1 event and digest 00000000",
            ),
            (describe_retimed(&key(), &RetimeResult::default()), "no window is open"),
            (describe_retimed(&key(), &timed(Some(now))), "2 events still due at Thu 1970-01-01"),
            (describe_retimed(&key(), &timed(Some(now + SignedDuration::from_hours(48)))), ", not at Sat 1970-01-03"),
            (describe_retimed(&key(), &timed(None)), "2 events due at Thu 1970-01-01"),
        ] {
            assert!(words.contains(said), "{words}");
        }
    }

    #[test]
    fn it_says_what_goes_out_or_why_nothing_does() {
        let answer = ReopenResult { events: 2, refused: None };
        assert_eq!(describe_reopened(Uuid::nil(), &answer), format!("digest {} is sent with 2 events", Uuid::nil()));
        let refused = ReopenResult { events: 0, refused: Some("it was sent".to_owned()) };
        assert_eq!(
            describe_reopened(Uuid::nil(), &refused),
            format!("digest {} is unchanged: it was sent", Uuid::nil())
        );
    }
}
