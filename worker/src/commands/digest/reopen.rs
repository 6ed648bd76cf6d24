//! `tidings digest reopen`: sends a digest that ended without a message.

use serde_json::json;
use tidings_activities::operations::reopen::name_of;
use tidings_model::{
    Key,
    command::{Reopen, Reopened},
};
use uuid::Uuid;

use crate::{
    Config,
    args::Reason,
    client::{self, explain},
    phrases::counted,
    storage,
};

/// The digest, the operator and the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    tidings digest reopen acme/activity/ann 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52 --why 'dropped by mistake'\n\n\
    `tidings digests list` has the ids. The digest goes out under its own id with the events that it has, \
    and nothing new.")]
pub struct Options {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// The digest: dropped, failed, unknown or ambiguous, or without an end
    digest_id: Uuid,
    #[command(flatten)]
    reason: Reason,
    /// Reopen even if the recipient may already have the message
    #[arg(long)]
    may_duplicate: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Reopens the digest. `false` means refused.
///
/// # Errors
/// [`crate::error::Usage`] where `by` or `why` will not do; Temporal does not answer, or no worker does.
pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { key, digest_id, reason, may_duplicate, json } = options;
    let reopen = Reopen { order: reason.order()?, digest_id, may_duplicate };
    let key = if config.names.keys(&key).len() > 1 {
        name_of(&*storage::open(&config.database_url).await?, &config.names, &key, digest_id).await?
    } else {
        key
    };
    let answer = client::commands(config).await?.digest(&key).reopen(reopen).await;
    let reopened = answer.map_err(|error| explain(&key, error))?;
    anstream::println!("{}", text(&key, digest_id, &reopened, json));
    Ok(reopened.refused.is_none())
}

/// Returns the answer of a reopen as text or JSON, with the key.
pub(crate) fn text(key: &Key, digest_id: Uuid, reopened: &Reopened, as_json: bool) -> String {
    if as_json { json!(reopened).to_string() } else { format!("{key}: {}", in_words(digest_id, reopened)) }
}

pub(crate) fn in_words(digest_id: Uuid, reopened: &Reopened) -> String {
    match &reopened.refused {
        None => format!("digest {digest_id} goes out with {}", counted(reopened.events, "event")),
        Some(why) => format!("digest {digest_id} stays as it is: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_goes_out_or_why_nothing_does() {
        let reopened = Reopened { events: 2, refused: None };
        assert_eq!(in_words(Uuid::nil(), &reopened), format!("digest {} goes out with 2 events", Uuid::nil()));
        let refused = Reopened { events: 0, refused: Some("it was sent".to_owned()) };
        assert_eq!(in_words(Uuid::nil(), &refused), format!("digest {} stays as it is: it was sent", Uuid::nil()));
    }
}
