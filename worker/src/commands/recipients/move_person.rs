//! `tidings recipients rename` and `tidings recipients merge`: everything of one id goes on under another.

use std::fmt::Write as _;

use serde_json::json;
use tidings_activities::operations::move_person::{Answer, Error, MoveKind, PersonMove};
use tidings_client::Commands;
use tidings_model::PersonId;

use crate::{Config, args::Reason, confirm::confirmed, error::Usage, storage};

/// The two ids, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The id that is not used any more
    #[arg(value_name = "TENANT/USER")]
    from: PersonId,
    /// The id that everything goes to
    #[arg(value_name = "TENANT/USER")]
    to: PersonId,
    #[command(flatten)]
    reason: Reason,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Moves the person. `false`: nothing was moved, or producers still use the earlier id.
///
/// # Errors
/// The move is not possible, or the store, Temporal or a worker does not answer. Another run goes on.
pub(super) async fn run(kind: MoveKind, options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { from, to, reason, yes, json: as_json } = options;
    let order = reason.order()?;
    let question = match kind {
        MoveKind::Rename => format!("Rename {from} to {to}?"),
        MoveKind::Merge => format!("Make {from} and {to} one person?"),
    };
    // A rename can be undone by another one.
    let must_ask = kind == MoveKind::Merge && !yes;
    if must_ask && !confirmed(&question, &to.to_string(), "`tidings recipients show` has what is held about both")? {
        anstream::eprintln!("nothing was moved");
        return Ok(false);
    }
    let store = storage::open(&config.database_url).await?;
    if let Some(directory) = config.team_directory()? {
        anstream::eprintln!("recipients come from {directory}: it must know {to}");
    }
    let temporal = crate::installation::connect(config).await?;
    let commands = Commands::new(temporal.clone(), &config.task_queue);
    let settings = config.unsigned();
    let person_move = PersonMove {
        store: &*store,
        temporal: &temporal,
        commands: &commands,
        task_queue: &config.task_queue,
        settings: &settings,
        from: &from,
        to: &to,
    };
    let answer = person_move.run(kind, &order).await.map_err(|error| match error {
        Error::Invalid(_) => Usage(error.to_string()).into(),
        Error::Unknown(_) | Error::InUse(_) | Error::Ended(_) => error.into(),
        error => anyhow::Error::from(error).context(format!("{from} is not moved; run the command again")),
    })?;
    anstream::println!("{}", if as_json { json!(answer).to_string() } else { in_words(&from, &to, &answer) });
    for key in &answer.left {
        anstream::eprintln!("{key} got something meanwhile: let its producers use {to}, then run the command again");
    }
    Ok(answer.left.is_empty())
}

fn in_words(from: &PersonId, to: &PersonId, Answer { moved, windows, .. }: &Answer) -> String {
    let mut text = format!("{from} is {to} now:");
    let mut counts = moved.counts().peekable();
    if counts.peek().is_none() {
        text.push_str(" nothing was left to move");
    }
    for (name, count) in counts {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "\n  {name}: {count}");
    }
    for key in windows {
        let _ = write!(text, "\n  {key} goes on collecting");
    }
    text
}

#[cfg(test)]
mod tests {
    use tidings_model::records::MovedRows;

    use super::*;

    #[test]
    fn an_answer_says_what_goes_on_where() {
        let person = |user: &str| PersonId { tenant: "acme".into(), user: user.into() };
        let moved = MovedRows { recipients: 1, events: 3, returned: 2, ..MovedRows::default() };
        let windows = vec![person("anna").key("activity")];
        let text = in_words(&person("ann"), &person("anna"), &Answer { moved, windows, left: Vec::new() });
        let expected = "acme/ann is acme/anna now:\n  recipients: 1\n  events: 3\n  events that wait: 2\n  \
                        acme/activity/anna goes on collecting";
        assert_eq!(text, expected);
        let nothing = in_words(&person("ann"), &person("anna"), &Answer::default());
        assert_eq!(nothing, "acme/ann is acme/anna now: nothing was left to move");
    }
}
