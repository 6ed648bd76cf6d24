//! One key's workflow: `tidings status` asks it, [`command`] tells it what to do, and [`recover`] takes up what a
//! terminated one left behind.

use std::{fmt::Write as _, time::Duration};

use anyhow::Context as _;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use temporalio_client::{QueryRejectCondition, WorkflowQueryOptions, errors::WorkflowQueryError};
use temporalio_common::{HasWorkflowDefinition, QueryDefinition};
use tidings_activities::namespace;
use tidings_workflows::{Digest, Key, Status, command::Hold};
use tokio::time::timeout;

use crate::Config;

pub(crate) mod command;
mod deed;
mod many;
mod preview;
pub(crate) mod recover;
pub(crate) mod reopen;
mod selection;
mod words;

/// How long a worker may take to answer. A workflow that is busy with local activities answers when its workflow task ends,
/// every eight seconds; one that a killed worker had in memory, when its task has waited for that worker
/// ([`crate::registration::STICKY`]).
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Says what the key is doing.
///
/// # Errors
/// Temporal does not answer, or no worker does.
pub(crate) async fn status(config: &Config, key: &Key, as_json: bool) -> anyhow::Result<bool> {
    let status = query(config, key, Digest::status).await?;
    let text = match &status {
        _ if as_json => json!(status).to_string(),
        None => nothing_pending(key),
        Some(status) => in_words(key, status, &TimeZone::system()),
    };
    anstream::println!("{text}");
    Ok(true)
}

/// What the key's workflow answers; `None`: none runs.
async fn query<Q>(config: &Config, key: &Key, query: Q) -> anyhow::Result<Option<Q::Output>>
where
    Q: QueryDefinition<Workflow = <Digest as HasWorkflowDefinition>::Run, Input = ()>,
{
    let only_open = WorkflowQueryOptions::builder().reject_condition(QueryRejectCondition::NotOpen).build();
    let workflow = config.temporal.connect().await?.get_workflow_handle::<Digest>(key.workflow_id());
    let answer = timeout(PATIENCE, workflow.query(query, (), only_open)).await;
    match answer.with_context(|| unanswered(config, key))? {
        Ok(answer) => Ok(Some(answer)),
        Err(WorkflowQueryError::NotFound(refusal)) => Ok(namespace::is_there(&refusal).map(|()| None)?),
        Err(WorkflowQueryError::Rejected { .. }) => Ok(None),
        Err(error) => Err(error).with_context(|| unanswered(config, key)),
    }
}

fn unanswered(config: &Config, key: &Key) -> String {
    format!("{key} does not answer; is a worker running on task queue {:?}?", config.task_queue)
}

/// A command that nobody answered in time waits at Temporal, and the next worker may carry it out.
fn heard_later(config: &Config, key: &Key) -> String {
    format!("{}; it may obey yet, see tidings status {key}", unanswered(config, key))
}

fn nothing_pending(key: &Key) -> String {
    format!("{key}: nothing pending")
}

fn in_words(key: &Key, status: &Status, zone: &TimeZone) -> String {
    let at = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string();
    let mut text = format!("{BOLD}{key}{BOLD:#}: {}", status.state);
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {name:<9} {value}");
    };
    line("pending", &counted(status.pending, "event"));
    if let Some(due_at) = status.due_at {
        line("due", &at(due_at));
    }
    if !status.why.is_empty() {
        line("why", &status.why);
    }
    if let Some(Hold { order, until }) = &status.hold {
        let until = until.map_or_else(|| "released".to_owned(), at);
        line("on hold", &format!("until {until}, by {}: {}", order.by, order.why));
    }
    if let Some(digest) = &status.delivering {
        let items = counted(digest.items, "event");
        line(
            "sending",
            &format!(
                "digest {} with {items}, {} failed so far",
                digest.digest_id,
                counted(digest.attempts.into(), "attempt")
            ),
        );
        if let Some(next) = digest.next_attempt_at {
            line("again", &format!("{}: {}", at(next), digest.why));
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

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
