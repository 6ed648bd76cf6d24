//! `tidings keys`: generates keys for signing tokens and links.

use anyhow::Context as _;
use tidings_model::link_keys::LinkKeys;

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum KeysCommand {
    /// Prints a new key for `TIDINGS_LINK_KEYS` or the file of `link_keys_file`
    #[command(after_help = "Examples:\n  \
        export TIDINGS_LINK_KEYS=$(tidings keys new)\n  \
        export TIDINGS_LINK_KEYS=\"$(tidings keys new) $TIDINGS_LINK_KEYS\"\n  \
        (umask 077; tidings keys new > /etc/tidings/link-keys)   # for link_keys_file in tidings.toml\n\n\
        The first key signs, and all verify. Keep an old key for two years: links in old messages must go on working.")]
    New,
}

/// This needs no configuration.
pub(crate) fn run(KeysCommand::New: &KeysCommand) -> anyhow::Result<bool> {
    let key = LinkKeys::generate().context("the system's source of randomness does not answer")?;
    anstream::println!("{key}");
    Ok(true)
}
