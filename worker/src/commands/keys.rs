//! `tidings keys`: generates keys for signing tokens and links.

use anyhow::Context as _;
use serde_json::json;
use tidings_model::link_keys::LinkKeys;

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum KeysCommand {
    /// Print a new key for `TIDINGS_LINK_KEYS` or the file of `link_keys_file`
    #[command(after_help = "Examples:\n  \
        export TIDINGS_LINK_KEYS=$(tidings keys new)\n  \
        export TIDINGS_LINK_KEYS=\"$(tidings keys new) $TIDINGS_LINK_KEYS\"\n  \
        (umask 077; tidings keys new > /etc/tidings/link-keys)   # for link_keys_file in tidings.toml\n\n\
        The first key signs, and all verify. Keep an old key for two years: links in old messages must keep working.")]
    New {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// This needs no configuration.
pub(crate) fn run(KeysCommand::New { json: as_json }: &KeysCommand) -> anyhow::Result<bool> {
    let key = LinkKeys::generate().context("cannot read random bytes from the system")?;
    anstream::println!("{}", if *as_json { json!({ "key": key }).to_string() } else { key });
    Ok(true)
}
