//! `tidings digest`: what an operator tells a key's workflow. Each command is a workflow update, and is audited.

use std::env;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde::Serialize;
use serde_json::json;
use temporalio_client::{WorkflowExecuteUpdateOptions, errors::WorkflowUpdateError};
use temporalio_common::{HasWorkflowDefinition, UpdateDefinition};
use tidings_workflows::{
    Digest, Key,
    command::{Dropped, Flushed, Held, Hold, Order, Released},
};
use tokio::time::timeout;
use uuid::Uuid;

use super::{PATIENCE, counted, nothing_pending, unanswered, workflow};
use crate::{Config, cli::Usage};

const EXAMPLES: &str = "\
Examples:
  tidings digest hold acme/activity/ann --why 'wrong prices in the events' --until 2h
  tidings digest release acme/activity/ann --why 'prices mended'
  tidings digest drop acme/activity/ann --why 'the events were a test'
  tidings digest flush acme/activity/ann --why 'ticket 812'

On a key with nothing pending they say so, and do nothing. The audit trail keeps who, why and when.
In a part of the key, / is written %2F and % is written %25.";

/// The commands.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Sends what is pending now; a hold, a pause, consent and suppressions still hold
    Flush(Options),
    /// Collects events, but starts nothing that ends in a mail
    Hold {
        #[command(flatten)]
        options: Options,
        /// The hold ends by itself then: a time as in RFC 3339, or a span from now as in `2h 30m`
        #[arg(long, value_name = "TIME", value_parser = until)]
        until: Option<Timestamp>,
    },
    /// Ends a hold; what is overdue goes out
    Release(Options),
    /// Ends what is pending and what is on its way without a mail; the ledger keeps the events
    Drop(Options),
}

/// Which key, who and why.
#[derive(Debug, Args)]
pub struct Options {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Who, for the audit trail: a login, no address [default: yours on this machine]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Carries out the command.
///
/// # Errors
/// [`Usage`] where `by` or `why` will not do; Temporal does not answer, or no worker does.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::Flush(Options { key, why, by, json }) => flush(config, &key, order(by, why)?, json).await,
        Command::Hold { options: Options { key, why, by, json }, until } => {
            let hold = Hold { order: order(by, why)?, until };
            let held = tell(config, &key, Digest::hold, hold).await?;
            show(&held, json, || held_in_words(&key, &held, until))
        }
        Command::Release(Options { key, why, by, json }) => {
            let released = tell(config, &key, Digest::release, order(by, why)?).await?;
            show(&released, json, || released_in_words(&key, &released, Timestamp::now()))
        }
        Command::Drop(Options { key, why, by, json }) => {
            let dropped = tell(config, &key, Digest::discard, order(by, why)?).await?;
            show(&dropped, json, || dropped_in_words(&key, &dropped))
        }
    }
}

/// `tidings flush`, which asks neither who nor why.
///
/// # Errors
/// Temporal does not answer, or no worker does.
pub(crate) async fn flush_unasked(config: &Config, key: &Key, as_json: bool) -> anyhow::Result<bool> {
    let order = Order { by: login().unwrap_or_else(|| "unknown".to_owned()), why: "tidings flush".to_owned() };
    flush(config, key, order, as_json).await
}

async fn flush(config: &Config, key: &Key, order: Order, as_json: bool) -> anyhow::Result<bool> {
    let flushed = tell(config, key, Digest::flush, order).await?;
    show(&flushed, as_json, || flushed_in_words(key, &flushed))
}

/// Who gives a command, and why. Without a name it is the login.
///
/// # Errors
/// [`Usage`] where one of them will not do.
fn order(by: Option<String>, why: String) -> Result<Order, Usage> {
    let by = by.or_else(login).ok_or_else(|| Usage("--by: is required where the login is not known".to_owned()))?;
    let order = Order { by, why };
    order.check().map_err(|error| Usage(format!("--{error}")))?;
    Ok(order)
}

fn login() -> Option<String> {
    ["USER", "LOGNAME"].into_iter().find_map(|name| env::var(name).ok().filter(|login| !login.is_empty()))
}

/// Tells the key's workflow. Where none runs nothing is pending, and the answer says so.
async fn tell<U>(config: &Config, key: &Key, update: U, input: U::Input) -> anyhow::Result<U::Output>
where
    U: UpdateDefinition<Workflow = <Digest as HasWorkflowDefinition>::Run, Input: Send, Output: Default>,
{
    let workflow = workflow(config, key).await?;
    let telling = workflow.execute_update(update, input, WorkflowExecuteUpdateOptions::default());
    match timeout(PATIENCE, telling).await.with_context(|| unanswered(config, key))? {
        Err(WorkflowUpdateError::NotFound(_)) => Ok(U::Output::default()),
        answer => answer.with_context(|| unanswered(config, key)),
    }
}

fn show(answer: &impl Serialize, as_json: bool, in_words: impl FnOnce() -> String) -> anyhow::Result<bool> {
    let text = if as_json { json!(answer).to_string() } else { in_words() };
    anstream::println!("{text}");
    Ok(true)
}

fn until(text: &str) -> Result<Timestamp, String> {
    let from_now = |span: SignedDuration| Timestamp::now().checked_add(span).ok();
    let until = text.parse().ok().or_else(|| text.parse().ok().and_then(from_now));
    let until = until.ok_or("is neither a time nor a span; write for example 2026-12-01T08:00:00Z, or 2h")?;
    if until > Timestamp::now() { Ok(until) } else { Err("is in the past".to_owned()) }
}

fn flushed_in_words(key: &Key, flushed: &Flushed) -> String {
    let events = counted(flushed.events, "event");
    match flushed {
        Flushed { events: 0, behind: None, .. } => nothing_pending(key),
        Flushed { events: 0, behind: Some(digest), .. } => {
            format!("{key}: nothing pending; digest {digest} is on its way, see tidings status {key}")
        }
        Flushed { held: true, .. } => format!("{key}: on hold; {events} will be sent when that ends"),
        Flushed { behind: None, .. } => format!("{key}: sending {events} now"),
        Flushed { behind: Some(digest), .. } => {
            format!("{key}: sending {events} as soon as digest {digest} is delivered or given up")
        }
    }
}

fn held_in_words(key: &Key, held: &Held, until: Option<Timestamp>) -> String {
    if *held == Held::default() {
        return nothing_pending(key);
    }
    let until = until.map_or_else(|| "it is released".to_owned(), local);
    format!("{key}: on hold until {until}; {} waiting{}", counted(held.events, "event"), and_digest(held.delivering))
}

fn released_in_words(key: &Key, released: &Released, now: Timestamp) -> String {
    if !released.held {
        return format!("{key}: was not on hold");
    }
    let events = counted(released.events, "event");
    match released.due_at {
        Some(due_at) if due_at > now => format!("{key}: released; {events} due at {}", local(due_at)),
        _ => format!("{key}: released; sending {events} now"),
    }
}

fn dropped_in_words(key: &Key, dropped: &Dropped) -> String {
    if *dropped == Dropped::default() {
        return nothing_pending(key);
    }
    let events = counted(dropped.events, "event");
    format!("{key}: dropped {events}{}; the ledger keeps them", and_digest(dropped.delivering))
}

fn and_digest(delivering: Option<Uuid>) -> String {
    delivering.map(|digest| format!(" and digest {digest}, which was on its way")).unwrap_or_default()
}

fn local(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        "acme/activity/ann".parse().unwrap()
    }

    #[test]
    fn a_flush_says_what_goes_out_and_what_is_on_its_way() {
        let digest = Some(Uuid::nil());
        for (events, behind, held, said) in [
            (0, None, false, "acme/activity/ann: nothing pending"),
            (0, digest, false, "nothing pending; digest 00000000-0000-0000-0000-000000000000 is on its way"),
            (1, None, false, "acme/activity/ann: sending 1 event now"),
            (1, None, true, "on hold; 1 event will be sent when that ends"),
            (2, digest, false, "sending 2 events as soon as digest 00000000-0000-0000-0000-000000000000 is delivered"),
        ] {
            let words = flushed_in_words(&key(), &Flushed { events, behind, held });
            assert!(words.contains(said), "{words}");
        }
    }

    #[test]
    fn each_command_says_what_it_did_or_that_there_was_nothing_to_do() {
        let now = Timestamp::UNIX_EPOCH;
        let digest = Some(Uuid::nil());
        for (words, said) in [
            (held_in_words(&key(), &Held::default(), None), "nothing pending"),
            (
                held_in_words(&key(), &Held { events: 2, delivering: None }, None),
                "until it is released; 2 events waiting",
            ),
            (released_in_words(&key(), &Released::default(), now), "was not on hold"),
            (
                released_in_words(&key(), &Released { held: true, events: 1, due_at: Some(now) }, now),
                "sending 1 event now",
            ),
            (dropped_in_words(&key(), &Dropped::default()), "nothing pending"),
            (
                dropped_in_words(&key(), &Dropped { events: 1, delivering: digest }),
                "dropped 1 event and digest 00000000",
            ),
        ] {
            assert!(words.contains(said), "{words}");
        }
    }

    #[test]
    fn a_hold_ends_at_a_time_or_after_a_span_and_never_in_the_past() {
        assert!(until("2h 30m").unwrap() > Timestamp::now());
        assert_eq!(until("2126-12-01T08:00:00Z").unwrap().to_string(), "2126-12-01T08:00:00Z");
        for wrong in ["2001-01-01T00:00:00Z", "-2h", "tomorrow", ""] {
            assert!(until(wrong).is_err(), "{wrong:?}");
        }
    }
}
