//! `tidings messages`: reads come from the outbox; commands go to the workflow that owns the message. A
//! digest's message belongs to its key.

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use tidings_model::{
    MessageKey,
    delivery_events::ReportRecord,
    message::{command::RetryCommand, contract::RetryResult},
    records::{AttemptRecord, MessageFilter, MessageOrigin, MessagePlace, MessageRecord, MessageState},
    when,
};
use tidings_operations::message::{self, CancelAnswer, MessageError, RetryAnswer};
use tidings_store::Store;
use uuid::Uuid;

use crate::{
    Config,
    args::RequiredReason,
    client,
    commands::{
        digest,
        page::{self, PageOptions},
    },
    error::UsageError,
    phrases::{attempt_in_words, local},
    storage,
};

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  tidings messages list --state failed --limit 20
  tidings messages show 6f2d17b8-0c94-5e3a-b1d7-4a8693ce50f2
  tidings messages retry 6f2d17b8-0c94-5e3a-b1d7-4a8693ce50f2 --why 'mailbox fixed'
  tidings messages cancel 6f2d17b8-0c94-5e3a-b1d7-4a8693ce50f2 --why 'wrong invoice'")]
pub enum MessagesCommand {
    /// List messages, latest first
    #[command(
        after_help = "Example: tidings messages list --tenant acme --state ambiguous",
        mut_arg("limit", |arg| arg.help("Maximum number of messages"))
    )]
    List {
        #[command(flatten)]
        filter: MessageFilter,
        #[command(flatten)]
        page: PageOptions<MessagePlace>,
        /// Print JSON, one line each, without addresses; the last line has the cursor, if another page follows
        #[arg(long)]
        json: bool,
    },
    /// Show a message with its address, attempts and delivery reports
    #[command(after_help = "Examples:\n  \
        tidings messages show 6f2d17b8-0c94-5e3a-b1d7-4a8693ce50f2\n  \
        tidings messages show acme/welcome-ann")]
    Show {
        #[command(flatten)]
        message: MessageArg,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Retry a message that failed, was cancelled or is waiting; a digest's message only after it has ended
    #[command(
        after_help = "Example: tidings messages retry 6f2d17b8-0c94-5e3a-b1d7-4a8693ce50f2 --why 'mailbox fixed'"
    )]
    Retry {
        #[command(flatten)]
        ordered: MessageCommandOptions,
        /// Send even if the recipient may already have the message
        #[arg(long)]
        may_duplicate: bool,
    },
    /// Cancel a message; a digest is dropped together with its key's pending events
    #[command(
        after_help = "Example: tidings messages cancel 6f2d17b8-0c94-5e3a-b1d7-4a8693ce50f2 --why 'wrong invoice'"
    )]
    Cancel(MessageCommandOptions),
}

/// The message.
#[derive(Debug, clap::Args)]
pub struct MessageArg {
    /// The message id (a digest's message has the digest's id), or TENANT/KEY of a single message
    #[arg(value_name = "ID|TENANT/KEY", value_parser = parse_message)]
    message: Uuid,
}

impl MessageArg {
    const fn id(&self) -> Uuid {
        self.message
    }
}

fn parse_message(text: &str) -> Result<Uuid, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let key = MessageKey::from_workflow_id(&format!("message/{text}"));
    key.map(|key| key.message_id()).ok_or_else(|| {
        "write the id of a message, or TENANT/KEY with / as %2F and % as %25, for example acme/welcome-ann".to_owned()
    })
}

/// The message, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct MessageCommandOptions {
    #[command(flatten)]
    message: MessageArg,
    #[command(flatten)]
    reason: RequiredReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if the message is unchanged.
pub(crate) async fn run(command: MessagesCommand, config: &Config) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    match command {
        MessagesCommand::List { filter, page, json } => {
            list(&*store, &MessageFilter { page: page.into(), ..filter }, json).await
        }
        MessagesCommand::Show { message, json } => show(&*store, message.id(), json).await,
        MessagesCommand::Retry { ordered, may_duplicate } => retry(&*store, config, ordered, may_duplicate).await,
        MessagesCommand::Cancel(ordered) => cancel(&*store, config, ordered).await,
    }
}

async fn list(store: &dyn Store, filter: &MessageFilter, as_json: bool) -> anyhow::Result<bool> {
    let header = format!("{:<36}  {:<10} CREATED  KEY", "MESSAGE", "STATE");
    page::print_page(store.messages(filter).await?, as_json, ("messages", &header), |message| {
        if as_json { in_json(message) } else { in_a_line(message) }
    });
    Ok(true)
}

fn in_json(message: &MessageRecord) -> String {
    let MessageRecord { id, origin, stream, state, why, created_at, sent_at, closed_at, attempts, .. } = message;
    json!({"id": id, "of": origin, "stream": stream, "state": state, "why": why, "attempts": attempts,
           "created_at": created_at, "sent_at": sent_at, "closed_at": closed_at})
    .to_string()
}

fn in_a_line(message: &MessageRecord) -> String {
    let at = local(message.created_at);
    format!("{}  {:<10} {at}  {}", message.id, message.state.name(), describe_origin(&message.origin))
}

async fn show(store: &dyn Store, id: Uuid, as_json: bool) -> anyhow::Result<bool> {
    let message = message::find(store, id).await.map_err(usage)?;
    let attempts = store.attempts(id).await?;
    let reports = store.delivery_events(id).await?;
    let text = if as_json {
        json!({"message": message, "attempts": attempts, "delivery_events": reports}).to_string()
    } else {
        in_words(&message, &attempts, &reports, &TimeZone::system())
    };
    anstream::println!("{text}");
    Ok(true)
}

async fn retry(
    store: &dyn Store,
    config: &Config,
    ordered: MessageCommandOptions,
    may_duplicate: bool,
) -> anyhow::Result<bool> {
    let MessageCommandOptions { message, reason, json: as_json } = ordered;
    let id = message.id();
    let retry = RetryCommand { order: reason.into_order()?, may_duplicate };
    match message::retry(store, &client::connect_commands(config).await?, id, retry).await.map_err(usage)? {
        RetryAnswer::Digest { key, reopened } => {
            let words = || format!("{key}: {}", digest::describe_reopened(id, &reopened));
            anstream::println!("{}", if as_json { json!(reopened).to_string() } else { words() });
            Ok(reopened.refused.is_none())
        }
        RetryAnswer::Single(answer) => {
            let text = match &answer {
                _ if as_json => json!(answer).to_string(),
                RetryResult::Queued => format!("message {id} will be sent again"),
                RetryResult::Refused { why } => format!("message {id} is unchanged: {why}"),
            };
            anstream::println!("{text}");
            Ok(answer == RetryResult::Queued)
        }
    }
}

async fn cancel(store: &dyn Store, config: &Config, ordered: MessageCommandOptions) -> anyhow::Result<bool> {
    let MessageCommandOptions { message, reason, json: as_json } = ordered;
    let id = message.id();
    let order = reason.into_order()?;
    match message::cancel(store, &client::connect_commands(config).await?, id, order).await.map_err(usage)? {
        CancelAnswer::Digest { key, dropped, state } => {
            let text = if as_json { json!(dropped).to_string() } else { digest::describe_dropped(&key, &dropped) };
            anstream::println!("{text}");
            let cancelled = state == MessageState::Cancelled;
            if !cancelled {
                let state = state.name();
                anstream::eprintln!("message {id} is not cancelled but {state}, see tidings messages show {id}");
            }
            Ok(cancelled)
        }
        CancelAnswer::Single(answer) => {
            let state = answer.closed.as_ref().map(|closed| MessageState::from_outcome(closed.outcome));
            let text = match state {
                _ if as_json => json!(answer).to_string(),
                Some(state) => format!("message {id} is {}", state.name()),
                None => format!("message {id} is unchanged"),
            };
            anstream::println!("{text}");
            Ok(state == Some(MessageState::Cancelled))
        }
    }
}

/// The caller should correct these errors.
fn usage(error: MessageError) -> anyhow::Error {
    match error {
        MessageError::Unknown(_) | MessageError::Ended { .. } | MessageError::NotInDelivery { .. } => {
            UsageError(error.to_string()).into()
        }
        MessageError::Command(_) | MessageError::Store(_) => error.into(),
    }
}

fn describe_origin(origin: &MessageOrigin) -> String {
    match origin {
        MessageOrigin::Digest(key) => format!("digest {key}"),
        MessageOrigin::Single { key, .. } => format!("message {key}"),
    }
}

fn in_words(message: &MessageRecord, attempts: &[AttemptRecord], reports: &[ReportRecord], zone: &TimeZone) -> String {
    let at = |at: Timestamp| when::local_time(at, zone.clone());
    let mut text = format!("{BOLD}{}{BOLD:#}: {}", message.id, message.state.name());
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {name:<10} {value}");
        }
    };
    line("why", &message.why);
    line("of", &describe_origin(&message.origin));
    line("stream", message.stream.name());
    line("to", &message.envelope_to);
    line("subject", &message.subject);
    line("Message-ID", &message.message_id);
    line("made", &at(message.created_at));
    line("taken", &message.sent_at.map(at).unwrap_or_default());
    line("ended", &message.closed_at.map(at).unwrap_or_default());
    for attempt in attempts {
        line(&format!("attempt {}", attempt.number), &attempt_in_words(attempt, zone));
    }
    for ReportRecord { report, relay, .. } in reports {
        let by = relay.as_ref().map(|relay| format!(" by {relay}")).unwrap_or_default();
        line("reported", &format!("{}{by}: {report}", at(report.occurred_at)));
    }
    text
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();

#[cfg(test)]
mod tests {
    use tidings_model::{
        attempt::{AttemptClass, AttemptPhase},
        delivery_events::{BounceKind, DeliveryReport, EnhancedStatus, ReportKind},
        settings::StreamName,
    };

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn attempt(number: u32, class: Option<AttemptClass>) -> AttemptRecord {
        AttemptRecord {
            number,
            relay: "default".into(),
            begun_at: at(0),
            past_the_dot_at: None,
            ended_at: Some(at(1)),
            phase: class.map(|_| AttemptPhase::Rcpt),
            class,
            reply: class.map(|_| "451 4.3.0 later".into()),
            relay_id: None,
            late: None,
        }
    }

    #[test]
    fn a_message_is_shown_with_every_attempt_and_every_report() {
        let key = MessageKey::new("acme".into(), "k/1".into()).unwrap();
        let message = MessageRecord {
            id: Uuid::nil(),
            origin: MessageOrigin::Single { key, user: None, content_sha256: String::new() },
            stream: StreamName::Transactional,
            state: MessageState::Sending,
            why: String::new(),
            envelope_to: "ann@example.net".into(),
            message_id: "m@example.com".into(),
            subject: "Welcome".into(),
            created_at: at(0),
            made_at: at(0),
            made_from: String::new(),
            sent_at: None,
            closed_at: None,
            attempts: 2,
        };
        let attempts = [attempt(1, Some(AttemptClass::Deferred)), attempt(2, None)];
        let bounced = DeliveryReport {
            status: Some(EnhancedStatus(5, 1, 1)),
            diagnostic: "no such user".into(),
            ..DeliveryReport::new(ReportKind::Bounced(BounceKind::Hard), at(60))
        };
        let opened = DeliveryReport::new(ReportKind::Opened, at(61));
        let reports = [(bounced, Some("ses".to_owned())), (opened, None)].map(|(report, relay)| ReportRecord {
            report,
            relay,
            event_id: None,
            received_at: at(62),
        });
        let text = anstream::adapter::strip_str(&in_words(&message, &attempts, &reports, &TimeZone::UTC)).to_string();
        assert_eq!(
            text,
            "00000000-0000-0000-0000-000000000000: sending
  of         message acme/k%2F1
  stream     transactional
  to         ann@example.net
  subject    Welcome
  Message-ID m@example.com
  made       Fri 2027-01-15 08:00:00 UTC
  attempt 1  Fri 2027-01-15 08:00:00 UTC by default: deferred at rcpt: 451 4.3.0 later
  attempt 2  Fri 2027-01-15 08:00:00 UTC by default: in progress
  reported   Fri 2027-01-15 08:01:00 UTC by ses: bounced: 5.1.1 no such user
  reported   Fri 2027-01-15 08:01:01 UTC: opened"
        );
        assert_eq!(
            json!(reports[0]).to_string(),
            r#"{"bounce":"hard","diagnostic":"no such user","kind":"bounced","occurred_at":"2027-01-15T08:01:00Z","received_at":"2027-01-15T08:01:02Z","relay":"ses","status":"5.1.1"}"#
        );
    }
}
