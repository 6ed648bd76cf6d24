//! `tidings preferences`: the settings that recipients chose.

use std::path::PathBuf;

use jiff::Timestamp;
use tidings_activities::choices::{self, Chosen, Error, PreferencesView, capped_from};
use tidings_model::Key;

use crate::{
    Config,
    args::OptionalReason,
    preference_store::{PreferenceStore, usage},
};

mod changes;
mod import;

use changes::Changes;

const EXAMPLES: &str = "\
Examples:
  tidings preferences get acme/activity/ann
  tidings preferences set acme/activity/ann --cadence 'weekly mon 08:00' --zone Europe/Berlin
  tidings preferences set acme/activity/ann --off share --quiet 22:00-07:00 --quiet 'sat-sun 00:00-24:00'
  tidings preferences set acme/activity/ann --pause-until 14d --by carol --why 'ticket 812'
  tidings preferences set acme/activity/ann --clear cadence --clear quiet
  tidings preferences set acme/activity/ann --cadence instant --revision 3
  tidings preferences import preferences.csv

In a part of the key, / is written %2F and % is written %25.";

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// Shows the chosen and the effective settings, and when a window would be due
    #[command(after_help = "Example: tidings preferences get acme/activity/ann --json")]
    Get {
        /// The key
        #[arg(value_name = "TENANT/TYPE/USER")]
        key: Key,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Changes the named settings; an open window follows at once
    #[command(
        after_help = "Examples:\n  tidings preferences set acme/activity/ann --cadence 'daily 08:00' --at 18:30\n  \
        tidings preferences set acme/activity/ann --off share --revision 3"
    )]
    Set(Box<Set>),
    /// Replaces the settings of many recipients that the file has columns for; importing twice changes nothing
    #[command(after_help = "The first line names the columns: tenant,digest,user are required, \
        cadence,zone,at,quiet,off,paused_until are not. What has no column stays, and an empty value clears it.\n\
        quiet and off take several entries with ; between them, and quiet `none`.\n\n  \
        tenant,digest,user,cadence,zone,at,quiet,off,paused_until\n  \
        acme,activity,ann,weekly mon 08:00,Europe/Berlin,,22:00-07:00;sat-sun 00:00-24:00,share,")]
    Import {
        /// CSV file (RFC 4180, UTF-8), gzipped or not; `-` is standard input
        #[arg(value_name = "FILE.csv")]
        file: PathBuf,
        #[command(flatten)]
        reason: OptionalReason,
        /// Print the rejected lines and the summary as JSON
        #[arg(long)]
        json: bool,
    },
}

/// The key, the changes, the operator and the reason.
#[derive(Debug, clap::Args)]
pub struct Set {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    #[command(flatten)]
    changes: Changes,
    /// Change only this revision, as `get` shows it; if another change came first, show that and exit with 1
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Carries out the command. `false`: a line was refused, or the revision is another.
///
/// # Errors
/// [`Usage`](crate::error::Usage) names the field and what would be right; the store does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::Get { key, json } => show(&PreferenceStore::open(config).await?, &key, json).await,
        Command::Set(set) => set.run(config).await,
        Command::Import { file, reason, json } => {
            import::run(&file, &reason.order("tidings preferences import")?, json, config).await
        }
    }
}

impl Set {
    async fn run(self, config: &Config) -> anyhow::Result<bool> {
        let Self { key, changes, revision, reason, json } = self;
        let order = reason.order("tidings preferences set")?;
        let mut preferences = PreferenceStore::open(config).await?;
        let now = Timestamp::now();
        let change = |chosen| changes.clone().over(chosen, now);
        let (store, settings) = (&*preferences.store, &preferences.settings);
        let done = match choices::change(store, settings, &key, change, revision, &order, now).await {
            Ok(Chosen { changed, .. }) => {
                if changed {
                    preferences.tell(&key).await;
                } else {
                    anstream::eprintln!("nothing changed");
                }
                true
            }
            Err(conflict @ Error::Conflict(current)) => {
                anstream::eprintln!(
                    "nothing changed: {conflict}. Read them below, then repeat with --revision {current}"
                );
                false
            }
            Err(error) => return Err(usage(error)),
        };
        show(&preferences, &key, json).await?;
        Ok(done)
    }
}

async fn show(preferences: &PreferenceStore<'_>, key: &Key, json: bool) -> anyhow::Result<bool> {
    let unknown = || usage(Error::UnknownType(key.digest_type.clone()));
    let settings = preferences.settings.digest(key).ok_or_else(unknown)?;
    let facts = preferences.store.facts(key).await?;
    let (limits, now) = (preferences.settings.frequency_limits(settings), Timestamp::now());
    let capped_from = capped_from(&*preferences.store, limits.cap, key, now).await?;
    let shown = PreferencesView::new(settings, &limits, capped_from, &facts, key, now);
    let text = if json { serde_json::to_string_pretty(&shown)? } else { shown.to_string() };
    anstream::println!("{text}");
    Ok(true)
}
