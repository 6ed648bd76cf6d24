//! `tidings digest reopen`: a digest that came to nothing is sent after all.

use anyhow::Context as _;
use serde_json::json;
use tidings_model::{
    Key,
    command::{Reopen, Reopened},
};
use tokio::time::timeout;
use uuid::Uuid;

use crate::{
    Config,
    args::Reason,
    client,
    key_workflow::{PATIENCE, heard_later},
    phrases::counted,
};

/// Which digest, who and why.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    tidings digest reopen acme/activity/ann 0192f0c1-7a55-5e0c-8f0e-2b1c93f46a52 --why 'dropped by mistake'\n\n\
    The ledger has the ids: tables digests and audit. The digest goes out under its own id with the events that it has, \
    and nothing new.")]
pub struct Options {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    /// The digest: dropped, failed, unknown or ambiguous, or without an end
    digest_id: Uuid,
    #[command(flatten)]
    reason: Reason,
    /// Also where the recipient may have the mail already
    #[arg(long)]
    may_duplicate: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Reopens the digest. `false`: it stays as it is.
///
/// # Errors
/// [`crate::error::Usage`] where `by` or `why` will not do; Temporal does not answer, or no worker does.
pub(super) async fn run(options: Options, config: &Config) -> anyhow::Result<bool> {
    let Options { key, digest_id, reason, may_duplicate, json } = options;
    reopen(config, &key, Reopen { order: reason.order()?, digest_id, may_duplicate }, json).await
}

/// The same for whoever has found the key by other ways. `false`: the digest stays as it is.
///
/// # Errors
/// Temporal does not answer, or no worker does.
pub(crate) async fn reopen(config: &Config, key: &Key, reopen: Reopen, as_json: bool) -> anyhow::Result<bool> {
    let digest_id = reopen.digest_id;
    let client = client::connect(config).await?;
    let asking = timeout(PATIENCE, client.reopen(key, reopen)).await;
    let reopened = asking.map_err(anyhow::Error::from).and_then(|answer| Ok(answer?));
    let reopened = reopened.with_context(|| heard_later(config, key))?;
    let text = in_words(digest_id, &reopened);
    let text = match text.starts_with(&key.to_string()) {
        _ if as_json => json!(reopened).to_string(),
        true => text,
        false => format!("{key}: {text}"),
    };
    anstream::println!("{text}");
    Ok(reopened.refused.is_none())
}

pub(crate) fn in_words(digest_id: Uuid, reopened: &Reopened) -> String {
    match &reopened.refused {
        None => format!("digest {digest_id} goes out with {}", counted(reopened.events, "event")),
        Some(why) if why.contains(&digest_id.to_string()) => why.clone(),
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
        let named = Reopened { events: 0, refused: Some(format!("digest {} was sent", Uuid::nil())) };
        assert_eq!(in_words(Uuid::nil(), &named), format!("digest {} was sent", Uuid::nil()));
    }
}
