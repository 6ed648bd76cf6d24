//! `tidings recipients erase`, `rename` and `merge`.

use std::fmt::Write as _;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tidings_client::WorkflowCommands;
use tidings_model::{PersonId, records::ErasedRows};
use tidings_operations::{
    erase::{ArchiveFolders, ErasureResult, PersonErasure},
    move_person::{self, MoveError, MoveKind, PersonMove},
    person_keys,
};

use crate::{Config, args::RequiredReason, confirm::confirm_command, error::UsageError, storage};

/// The person, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct EraseOptions {
    /// The person
    #[arg(value_name = "TENANT/USER")]
    person: PersonId,
    #[command(flatten)]
    reason: RequiredReason,
    /// Only count what would be erased
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if nothing was erased, or something is left or unreachable. After an error, run it again
/// to continue.
pub(super) async fn run(options: EraseOptions, config: &Config) -> anyhow::Result<bool> {
    let EraseOptions { person, reason, dry_run, yes, json } = options;
    let order = reason.into_order()?;
    let store = storage::open(&config.database_url).await?;
    let settings = config.unchecked_settings();
    let types = settings.digest_types(&person.tenant);
    if let Some(directory) = config.team_directory()? {
        anstream::eprintln!(
            "recipients come from {directory}: erase {person} there first, or the next event brings them back"
        );
    }
    let archive = config.retention.settings.archive.as_ref();
    let people = person_keys::person_under_each_name(&*store, &settings, &person).await?;
    let erasure = PersonErasure {
        store: &*store,
        archive,
        person: &person,
        people: &people,
        types,
        task_queue: &config.task_queue,
    };
    if dry_run {
        let erasable = erasure.count().await?;
        let text = format!("{person}: would be erased:{}", erased_lines(&erasable));
        anstream::println!("{}", if json { json!({ "erasable": erasable }).to_string() } else { text });
        let unreachable = ArchiveFolders::find(&*store, archive).await?.unreachable;
        name_unreachable(&person, &unreachable);
        return Ok(unreachable.is_empty());
    }
    let question = format!("Erase everything about {person}?");
    if !yes && !confirm_command(&question, &person.to_string(), "--dry-run shows what would be erased")? {
        anstream::eprintln!("nothing was erased");
        return Ok(false);
    }
    let temporal = crate::installation::connect(config).await?;
    let commands = WorkflowCommands::new(temporal.clone(), &config.task_queue);
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    let progress = |erased: &ErasedRows| {
        bar.set_message(erased_lines(erased).replace("\n ", ""));
        bar.tick();
    };
    let answer = erasure.run(&temporal, &commands, &order, settings.longest_linger(), progress).await;
    bar.finish_and_clear();
    let answer = answer.map_err(|error| {
        anyhow::Error::from(error).context(format!("{person} is not erased; run the command again"))
    })?;
    anstream::println!("{}", if json { json!(answer).to_string() } else { in_words(&person, &answer) });
    if answer.came_meanwhile() > 0 {
        anstream::eprintln!("new data arrived meanwhile: stop the producers of {person}, then run the command again");
    }
    name_unreachable(&person, &answer.unreachable_archives);
    Ok(answer.is_complete())
}

fn name_unreachable(person: &PersonId, folders: &[String]) {
    for folder in folders {
        anstream::eprintln!(
            "archive {folder} is not on this machine and may have lines about {person}: run the command where it is, or forget \
             the folder with tidings retention forget-archive if its files are gone"
        );
    }
}

fn erased_lines(erased: &ErasedRows) -> String {
    let counts = erased.counts();
    let lines: String = counts.map(|(name, count)| format!("\n  {}: {count}", name.replace('_', " "))).collect();
    if lines.is_empty() { " nothing".to_owned() } else { lines }
}

fn in_words(person: &PersonId, answer: &ErasureResult) -> String {
    let ErasureResult {
        dropped,
        erased,
        left,
        pending,
        archives,
        unreachable_archives: _,
        shared_addresses,
        histories_until,
    } = answer;
    let mut parts = vec![format!("{person}: erased:{}", erased_lines(erased))];
    if *dropped > 0 {
        parts.push(format!("  pending events, dropped first: {dropped}"));
    }
    if !archives.is_empty() {
        let folders: Vec<_> = archives.iter().map(|folder| folder.display().to_string()).collect();
        parts.push(format!("  archives looked through: {}", folders.join(", ")));
    }
    parts.push(
        "kept: audit entries, which have no address; ids, times and ends of digests, events and messages;\n  \
         a keyed hash of the address, so that suppressions hold if it comes back"
            .to_owned(),
    );
    if *shared_addresses > 0 {
        parts.push(format!(
            "kept: {shared_addresses} of the addresses, because other people in the directory have them"
        ));
    }
    parts.push(match histories_until {
        Some(until) => format!("kept: events in Temporal's histories, until {until:.0} at the latest"),
        None => "kept: events in Temporal's histories, until the namespace's retention has passed".to_owned(),
    });
    if !left.is_nothing() {
        parts.push(format!("left:{}", erased_lines(left)));
    }
    if *pending > 0 {
        parts.push(format!("left: {pending} pending events"));
    }
    parts.join("\n")
}

/// The two ids, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct MoveOptions {
    /// The id to retire
    #[arg(value_name = "TENANT/USER")]
    from: PersonId,
    /// The id to keep
    #[arg(value_name = "TENANT/USER")]
    to: PersonId,
    #[command(flatten)]
    reason: RequiredReason,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if nothing was moved, or producers still use the old id. After an error, run it again to
/// continue.
pub(super) async fn move_person(kind: MoveKind, options: MoveOptions, config: &Config) -> anyhow::Result<bool> {
    let MoveOptions { from, to, reason, yes, json: as_json } = options;
    let order = reason.into_order()?;
    let question = match kind {
        MoveKind::Rename => format!("Rename {from} to {to}?"),
        MoveKind::Merge => format!("Make {from} and {to} one person?"),
    };
    // Another rename can undo a rename.
    let must_ask = kind == MoveKind::Merge && !yes;
    if must_ask
        && !confirm_command(&question, &to.to_string(), "`tidings recipients show` shows what is stored about both")?
    {
        anstream::eprintln!("nothing was moved");
        return Ok(false);
    }
    let store = storage::open(&config.database_url).await?;
    if let Some(directory) = config.team_directory()? {
        anstream::eprintln!("recipients come from {directory}: add {to} there");
    }
    let temporal = crate::installation::connect(config).await?;
    let commands = WorkflowCommands::new(temporal.clone(), &config.task_queue);
    let settings = config.unchecked_settings();
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
        MoveError::Invalid(_) => UsageError(error.to_string()).into(),
        MoveError::Unknown(_) | MoveError::InUse(_) | MoveError::Ended(_) => error.into(),
        error => anyhow::Error::from(error).context(format!("{from} is not moved; run the command again")),
    })?;
    anstream::println!("{}", if as_json { json!(answer).to_string() } else { moved_in_words(&from, &to, &answer) });
    for key in &answer.left {
        anstream::eprintln!("{key} got new events meanwhile: switch its producers to {to}, then run the command again");
    }
    Ok(answer.left.is_empty())
}

fn moved_in_words(
    from: &PersonId,
    to: &PersonId,
    move_person::MoveResult { moved, windows, .. }: &move_person::MoveResult,
) -> String {
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
        let _ = write!(text, "\n  {key} keeps collecting events");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_model::records::MovedRows;

    #[test]
    fn an_answer_says_what_is_erased_kept_and_left() {
        let person = PersonId { tenant: "acme".into(), user: "ann".into() };
        let answer = ErasureResult {
            dropped: 2,
            erased: ErasedRows { events: 3, delivery_events: 1, ..ErasedRows::default() },
            left: ErasedRows { events: 1, ..ErasedRows::default() },
            pending: 4,
            archives: vec!["/archive/old".into(), "/archive/new".into()],
            unreachable_archives: Vec::new(),
            shared_addresses: 1,
            histories_until: Some("2026-12-01T00:00:00Z".parse().unwrap()),
        };
        let text = in_words(&person, &answer);
        for said in [
            "acme/ann: erased:\n  events: 3\n  delivery events: 1\n  pending events, dropped first: 2\n  \
             archives looked through: /archive/old, /archive/new\nkept:",
            "\nkept: 1 of the addresses, because other people",
            "until 2026-12-01T00:00:00Z at the latest\nleft:\n  events: 1\nleft: 4 pending events",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn an_answer_says_what_goes_on_where() {
        let person = |user: &str| PersonId { tenant: "acme".into(), user: user.into() };
        let moved = MovedRows { recipients: 1, events: 3, returned: 2, ..MovedRows::default() };
        let windows = vec![person("anna").key("activity")];
        let text = moved_in_words(
            &person("ann"),
            &person("anna"),
            &move_person::MoveResult { moved, windows, left: Vec::new() },
        );
        let expected = "acme/ann is acme/anna now:\n  recipients: 1\n  events: 3\n  events that wait: 2\n  \
                        acme/activity/anna keeps collecting events";
        assert_eq!(text, expected);
        let nothing = moved_in_words(&person("ann"), &person("anna"), &move_person::MoveResult::default());
        assert_eq!(nothing, "acme/ann is acme/anna now: nothing was left to move");
    }
}
