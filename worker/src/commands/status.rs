//! `tidings status`: shows a key's pending events.

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use tidings_client::CommandError;
use tidings_model::{
    Key, command::HoldCommand, pause::PauseDetails, records::AttemptRecord, settings::StreamName, when,
};
use tidings_workflows::{DigestStage, DigestStatus};

use crate::{
    Config, client,
    phrases::{format_count, nothing_pending},
    storage,
};

/// Notes open windows under other names of the key.
pub(crate) async fn run(config: &Config, key: &Key, as_json: bool) -> anyhow::Result<bool> {
    let commands = client::connect_commands(config).await?;
    let key = &commands.open_name(&config.names, key).await?;
    let others = config.names.all_keys(key).into_iter().filter(|other| other != key);
    for other in others {
        if commands.digest(&other).is_open().await? {
            anstream::eprintln!("note: a window is open under another name of the key: tidings status {other}");
        }
    }
    let status = match commands.digest(key).status::<DigestStatus>().await {
        Err(error) => match unresponsive_state(&error) {
            Some(state) => {
                let unable = json!({ "state": state, "why": error.to_string() });
                anstream::println!("{}", if as_json { unable.to_string() } else { error.to_string() });
                return Ok(true);
            }
            None => return Err(error.into()),
        },
        Ok(status) => status,
    };
    let text = match &status {
        _ if as_json => json!(status).to_string(),
        None => nothing_pending(key),
        Some(status) => in_words(key, status, &TimeZone::system()) + &attempt_line(config, key, status).await,
    };
    anstream::println!("{text}");
    Ok(true)
}

/// Returns the last attempt with its relay, from the store. Temporal alone answers the rest, so without the store this
/// line is missing.
async fn attempt_line(config: &Config, key: &Key, status: &DigestStatus) -> String {
    let Some(digest) = status.delivering.as_ref().filter(|digest| digest.attempts > 0) else { return String::new() };
    let Ok(store) = storage::open(&config.database_url).await else { return String::new() };
    let attempts = store.attempts(digest.digest_id).await.unwrap_or_default();
    let settings = config.unchecked_settings();
    let most = settings.for_tenant(&key.tenant, StreamName::Bulk).stream.most_attempts();
    attempts.last().map_or_else(String::new, |last| format!("\n  {:<9} {}", "attempt", numbered_attempt(last, most)))
}

/// `2 of 6, by ses`
fn numbered_attempt(AttemptRecord { number, relay, .. }: &AttemptRecord, most: usize) -> String {
    format!("{number} of {most}, by {relay}")
}

/// Returns `None` if the error has another cause than the run.
const fn unresponsive_state(error: &CommandError) -> Option<&'static str> {
    match error {
        CommandError::Paused { .. } => Some("paused_in_temporal"),
        CommandError::NotStarted { .. } => Some("not_started"),
        CommandError::TasksFail { .. } => Some("tasks_fail"),
        _ => None,
    }
}

fn in_words(key: &Key, status: &DigestStatus, zone: &TimeZone) -> String {
    let at = |at: Timestamp| when::local_time(at, zone.clone());
    let mut text = format!("{BOLD}{key}{BOLD:#}: {}", status.state);
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {name:<9} {value}");
    };
    let returned = match status.returned {
        0 => String::new(),
        returned => format!(", {returned} of them returned by a failed digest"),
    };
    let uncompared = match status.uncompared {
        0 => String::new(),
        uncompared => format!(", and {uncompared} not compared with the ledger yet"),
    };
    line("pending", &(format_count(status.pending, "event") + &returned + &uncompared));
    if let Some(due_at) = status.due_at {
        line("due", &at(due_at));
    }
    if !status.why.is_empty() {
        line("why", &status.why);
    }
    if let Some(then) = &status.then {
        line("then", then);
    }
    if let Some(HoldCommand { order, until }) = &status.hold {
        let until = until.map_or_else(|| "released".to_owned(), at);
        line("on hold", &format!("until {until}, by {}: {}", order.by, order.why));
    }
    if let Some(PauseDetails { by, why, since, until }) = &status.pause {
        let until = until.map_or_else(|| "a resume".to_owned(), at);
        line("paused", &format!("since {} until {until}, by {by}: {why}", at(*since)));
    }
    if let Some(digest) = &status.delivering {
        let items = format_count(digest.items, "event");
        line(
            "sending",
            &format!(
                "digest {} with {items}, {} failed so far",
                digest.digest_id,
                format_count(digest.attempts.into(), "attempt")
            ),
        );
        if let Some(next) = digest.next_attempt_at {
            let name = if status.state == DigestStage::Undoable { "undo" } else { "again" };
            line(name, &format!("{}: {}", at(next), digest.why));
        }
    }
    if status.malformed > 0 {
        line("malformed", &format!("{} in the dead letters", status.malformed));
    }
    if let Some(trouble) = &status.trouble {
        line("trouble", trouble);
    }
    text
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
