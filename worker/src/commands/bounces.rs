//! `tidings bounces`: reads bounces and complaints from returned messages.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::bounce::{self, ReturnedMessage};
use tidings_model::{link_keys::EmailToken, settings::Settings};
use tidings_operations::bounces::{self, BounceOutcome};
use tidings_services::choices;
use tidings_store::Store;

use crate::{Config, config, error::TemporaryFailure, storage};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum BouncesCommand {
    /// Read one message from standard input, or the new messages of a Maildir
    #[command(after_help = "Examples:\n  \
        tidings bounces read --recipient bounce+TOKEN@mail.acme.example < message\n  \
        tidings bounces read --maildir /var/mail/bounce --json\n\n\
        Bounces (RFC 3464) and complaints (RFC 5965) take effect only with a token signed by a key in TIDINGS_LINK_KEYS. \
        See docs/delivery.md for Postfix.\n\n\
        Exit codes: 0 read, whatever the message was; 75 try again later; 2 wrong usage.")]
    Read(ReadOptions),
}

/// The options of `bounces read`.
#[derive(Debug, clap::Args)]
pub struct ReadOptions {
    /// Address to which the message was delivered
    #[arg(long, value_name = "ADDRESS", conflicts_with = "maildir")]
    recipient: Option<String>,
    /// Read the messages in `new` of this folder, and move them to `cur`
    #[arg(long, value_name = "FOLDER")]
    maildir: Option<PathBuf>,
    /// Delete the messages instead of moving them
    #[arg(long, requires = "maildir")]
    delete: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Every error becomes [`TemporaryFailure`], so a mail server keeps the message until we are able to read it.
pub(crate) async fn run(
    BouncesCommand::Read(options): BouncesCommand,
    load: impl FnOnce() -> Result<Config, config::ConfigError>,
) -> anyhow::Result<bool> {
    read_bounces(options, load).await.map(|()| true).map_err(|error| TemporaryFailure(error).into())
}

async fn read_bounces(
    options: ReadOptions,
    load: impl FnOnce() -> Result<Config, config::ConfigError>,
) -> anyhow::Result<()> {
    let config = load()?;
    let reader = BounceReader::new(&config).await?;
    let mut counts = BounceCounts::default();
    if let Some(folder) = &options.maildir {
        read_maildir(folder, options.delete, &reader, &mut counts).await?;
    } else {
        let mut returned = bounce::parse_bounce(&from_stdin().context("standard input cannot be read")?);
        let recipient = options.recipient.unwrap_or_default();
        returned.tokens.splice(0..0, EmailToken::find_tokens(&recipient));
        counts.add(&reader.record_bounce(returned).await?);
    }
    let shown = if options.json { serde_json::to_string(&counts)? } else { counts.summary_text() };
    anstream::println!("{shown}");
    Ok(())
}

/// Drains the whole input, because the writer should not see a closed pipe.
fn from_stdin() -> io::Result<Vec<u8>> {
    let (mut stdin, mut bytes) = (io::stdin().lock(), Vec::new());
    stdin.by_ref().take(bounce::MESSAGE_BYTES as u64).read_to_end(&mut bytes)?;
    io::copy(&mut stdin, &mut io::sink())?;
    Ok(bytes)
}

struct BounceReader<'a> {
    config: &'a Config,
    settings: Settings,
    store: std::sync::Arc<dyn Store>,
}

impl<'a> BounceReader<'a> {
    async fn new(config: &'a Config) -> anyhow::Result<Self> {
        let settings = config.unchecked_settings();
        if let Some(unreadable) = config.link_keys.problem() {
            bail!("{unreadable}");
        }
        anyhow::ensure!(
            settings.link_keys.is_some(),
            "no link keys are configured, so reports cannot be verified; set TIDINGS_LINK_KEYS or link_keys_file to the workers' keys"
        );
        Ok(Self { config, settings, store: storage::open(&config.database_url).await? })
    }

    async fn record_bounce(&self, returned: ReturnedMessage) -> anyhow::Result<BounceOutcome> {
        let taken = bounces::record_bounce(&*self.store, &self.settings, returned, Timestamp::now()).await?;
        if let BounceOutcome::Recorded { withdrawn: Some(key), .. } = &taken {
            let client = crate::installation::connect(self.config).await;
            choices::wake_windows(client.as_ref(), &self.settings.names, [key], "the withdrawn consent").await;
        }
        Ok(taken)
    }
}

#[derive(Debug, Default, Serialize)]
struct BounceCounts {
    /// Messages with at least one new report.
    recorded: u32,
    known: u32,
    unauthenticated: u32,
    unknown_message: u32,
    no_news: u32,
    auto_replies: u32,
    unrecognized: u32,
}

impl BounceCounts {
    fn add(&mut self, taken: &BounceOutcome) {
        *match taken {
            BounceOutcome::Recorded { new: 1.., .. } => &mut self.recorded,
            BounceOutcome::Recorded { .. } => &mut self.known,
            BounceOutcome::Unauthenticated => &mut self.unauthenticated,
            BounceOutcome::UnknownMessage => &mut self.unknown_message,
            BounceOutcome::NoNews => &mut self.no_news,
            BounceOutcome::AutoReply => &mut self.auto_replies,
            BounceOutcome::Unrecognized => &mut self.unrecognized,
        } += 1;
    }

    fn summary_text(&self) -> String {
        let counts = [
            (self.recorded, "recorded"),
            (self.known, "recorded before"),
            (self.unauthenticated, "without a valid token"),
            (self.unknown_message, "about an unknown message"),
            (self.no_news, "without news"),
            (self.auto_replies, "automatic replies"),
            (self.unrecognized, "not recognized"),
        ];
        let counts =
            counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{words}: {count}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        if counts.is_empty() { "no message".to_owned() } else { counts }
    }
}

/// Moves each message from `new` to `cur`, or deletes it, once its reports are stored. A report is recorded
/// only once, so crashes and parallel readers do no harm.
async fn read_maildir(
    folder: &Path,
    delete: bool,
    reader: &BounceReader<'_>,
    counts: &mut BounceCounts,
) -> anyhow::Result<()> {
    let new = folder.join("new");
    let entries = fs::read_dir(&new).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.with_context(|| format!("{} cannot be listed; name a Maildir", new.display()))?;
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let path = new.join(&name);
        let failed = || format!("{} cannot be read or moved", path.display());
        let Some(bytes) = unless_gone(read_start(&path)).with_context(failed)? else { continue };
        counts.add(&reader.record_bounce(bounce::parse_bounce(&bytes)).await?);
        let mut seen = name;
        seen.push(":2,S");
        let away = if delete { fs::remove_file(&path) } else { fs::rename(&path, folder.join("cur").join(seen)) };
        unless_gone(away).with_context(failed)?;
    }
    Ok(())
}

fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bounce::MESSAGE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns `None` if another reader moved the message.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
