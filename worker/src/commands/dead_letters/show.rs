//! `tidings dead-letters show`: one dead letter.

use std::io::{Write as _, stdout};

use serde_json::json;
use tidings_activities::operations::dead_letters::{LetterId, shown};
use tidings_model::{
    decode::{Again, decode_again},
    records::{DeadLetterRecord, Emitted, KeptLetter},
    without_addresses,
};

use super::{
    lines::{BOLD, line},
    webhook,
};
use crate::{
    Config,
    phrases::{counted, local},
    storage,
};

/// The letter and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The letter
    #[arg(value_name = "ID")]
    id: LetterId,
    /// Print the kept bytes of the payload and nothing else; they may contain addresses
    #[arg(long)]
    payload: bool,
    /// Answer in JSON
    #[arg(long, conflicts_with = "payload")]
    json: bool,
}

/// Prints the letter, or its payload. `false`: there is no such letter.
///
/// # Errors
/// The store does not answer, or standard output is closed.
pub(super) async fn run(Options { id, payload, json: as_json }: Options, config: &Config) -> anyhow::Result<bool> {
    let store = storage::open(&config.database_url).await?;
    let id = match id {
        LetterId::Events(id) => id,
        LetterId::Webhook(id) => return webhook::show(&*store, &id, payload, as_json, config).await,
    };
    let Some(letter) = store.dead_letter(None, &id).await? else {
        anstream::eprintln!("there is no dead letter {id}; see tidings dead-letters list");
        return Ok(false);
    };
    if payload {
        stdout().write_all(&letter.head)?;
    } else {
        anstream::println!("{}", if as_json { json!(shown(&letter)).to_string() } else { in_words(&letter) });
    }
    Ok(true)
}

fn in_words(letter: &KeptLetter) -> String {
    let DeadLetterRecord { id, buried_at, reason, encoding, message_type, size, sha256, emitted, .. } = &letter.record;
    let mut text = format!("{BOLD}{id}{BOLD:#}: {reason}");
    let mut line = |name: &str, value: &str| line(&mut text, name, value);
    line("to", &letter.record.receiver());
    line("buried", &local(*buried_at));
    line("encoding", encoding);
    line("type", message_type.as_deref().unwrap_or_default());
    line("size", &format!("{}, {} kept", counted(*size, "byte"), letter.head.len()));
    line("sha256", sha256);
    match (emitted, decode_again(letter)) {
        (Some(Emitted { at, by }), _) => line("emitted", &format!("by {by} at {}", local(*at))),
        (None, Ok(again)) => line("emit", &format!("would send {}", contents(&again))),
        (None, Err(why)) => line("emit", &format!("refuses it: {}", without_addresses(&why))),
    }
    text
}

/// The contents of a letter with their keys.
fn contents(Again { events, retracts, keys }: &Again) -> String {
    let (events, retracts) = (counted(events.len() as u64, "event"), counted(retracts.len() as u64, "retract"));
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    format!("{events} and {retracts} to {}", keys.join(", "))
}
