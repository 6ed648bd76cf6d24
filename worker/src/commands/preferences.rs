//! `tidings preferences`: recipients' preferences.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tidings_model::{Key, command::CommandContext, records::Preferences, when};
use tidings_operations::rows::InputRow;
use tidings_services::choices::{self, PreferencesError, PreferencesView, StoredPreferences, capped_from};

use crate::{
    Config,
    args::{OptionalReason, parse_future_time},
    line_input::{self, LineRejection, LineReport},
    preference_store::{PreferenceStore, to_usage_error},
};

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
pub enum PreferencesCommand {
    /// Show the chosen and the effective settings, and when a window would be due
    #[command(after_help = "Example: tidings preferences get acme/activity/ann --json")]
    Get {
        /// The key
        #[arg(value_name = "TENANT/TYPE/USER")]
        key: Key,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the named settings; an open window follows at once
    #[command(
        after_help = "Examples:\n  tidings preferences set acme/activity/ann --cadence 'daily 08:00' --at 18:30\n  \
        tidings preferences set acme/activity/ann --off share --revision 3"
    )]
    Set(Box<PreferencesSetOptions>),
    /// Import settings of many recipients from the columns of a file; importing twice changes nothing
    #[command(after_help = "Example: tidings preferences import choices.csv\n\n\
        The first line names the columns: tenant,digest_type,user are required, \
        cadence,zone,at,quiet,off,paused_until are not. Settings without a column stay; an empty value clears one.\n\
        quiet and off take several entries separated by ;, and quiet also takes `none`.\n\n  \
        tenant,digest_type,user,cadence,zone,at,quiet,off,paused_until\n  \
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
pub struct PreferencesSetOptions {
    /// The key
    #[arg(value_name = "TENANT/TYPE/USER")]
    key: Key,
    #[command(flatten)]
    changes: PreferenceChanges,
    /// Change only this revision, as shown by `get`; on a conflict, show the current settings and exit with 1
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
    #[command(flatten)]
    reason: OptionalReason,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns `false` if a line was rejected or the revision has changed.
pub(crate) async fn run(command: PreferencesCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        PreferencesCommand::Get { key, json } => show(&PreferenceStore::open(config).await?, &key, json).await,
        PreferencesCommand::Set(set) => set.run(config).await,
        PreferencesCommand::Import { file, reason, json } => {
            import(&file, &reason.into_order("tidings preferences import")?, json, config).await
        }
    }
}

impl PreferencesSetOptions {
    async fn run(self, config: &Config) -> anyhow::Result<bool> {
        let Self { key, changes, revision, reason, json } = self;
        let order = reason.into_order("tidings preferences set")?;
        let mut preferences = PreferenceStore::open(config).await?;
        let now = Timestamp::now();
        let change = |chosen| changes.clone().apply_to(chosen, now);
        let (store, settings) = (&*preferences.store, &preferences.settings);
        let done = match choices::update_preferences(store, settings, &key, change, revision, &order, now).await {
            Ok(StoredPreferences { changed, .. }) => {
                if changed {
                    preferences.notify_workflows(&key).await;
                } else {
                    anstream::eprintln!("nothing changed");
                }
                true
            }
            Err(conflict @ PreferencesError::Conflict(current)) => {
                anstream::eprintln!(
                    "nothing changed: {conflict}. Read them below, then repeat with --revision {current}"
                );
                false
            }
            Err(error) => return Err(to_usage_error(error)),
        };
        show(&preferences, &key, json).await?;
        Ok(done)
    }
}

async fn show(preferences: &PreferenceStore<'_>, key: &Key, json: bool) -> anyhow::Result<bool> {
    let unknown = || to_usage_error(PreferencesError::UnknownType(key.digest_type.clone()));
    let settings = preferences.settings.digest(key).ok_or_else(unknown)?;
    let facts = preferences.store.facts(key).await?;
    let (limits, now) = (preferences.settings.frequency_limits(settings), Timestamp::now());
    let capped_from = capped_from(&*preferences.store, limits.cap, key, now).await?;
    let shown = PreferencesView::new(settings, &limits, capped_from, &facts, key, now);
    let text = if json { serde_json::to_string_pretty(&shown)? } else { shown.to_string() };
    anstream::println!("{text}");
    Ok(true)
}

/// Switches quiet times off, even the digest type's.
const NONE: &str = "none";

/// Flag by flag. What is not named stays.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct PreferenceChanges {
    /// The cadence, as in tidings.toml: `daily 08:00`
    #[arg(long, value_name = "WORDS")]
    cadence: Option<String>,
    /// IANA time zone, which overrides the directory's
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// The time of day of `daily`, `weekdays`, `weekly` and `monthly`
    #[arg(long, value_name = "HH:MM")]
    at: Option<String>,
    /// A quiet time that replaces the digest type's; `none` for no quiet times. Repeat the option for several
    #[arg(long, value_name = "WORDS")]
    quiet: Vec<String>,
    /// A category to leave out. Repeat the option for several
    #[arg(long, value_name = "CATEGORY")]
    off: Vec<String>,
    /// A category to include again. Repeat the option for several
    #[arg(long, value_name = "CATEGORY")]
    on: Vec<String>,
    /// Pause all messages until then: an RFC 3339 timestamp, or a span from now such as `14d`
    #[arg(long, value_name = "TIME", value_parser = parse_pause)]
    pause_until: Option<Timestamp>,
    /// End the pause
    #[arg(long, conflicts_with = "pause_until")]
    resume: bool,
    /// A setting to reset to the configuration. Repeat the option for several
    #[arg(long, value_name = "FIELD", value_enum)]
    clear: Vec<PreferenceField>,
}

/// A setting that `--clear` resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PreferenceField {
    Cadence,
    Zone,
    At,
    Quiet,
    Off,
    Pause,
}

impl PreferenceChanges {
    /// This also removes an expired pause.
    pub fn apply_to(self, mut chosen: Preferences, now: Timestamp) -> Preferences {
        for field in &self.clear {
            match field {
                PreferenceField::Cadence => chosen.cadence = None,
                PreferenceField::Zone => chosen.zone = None,
                PreferenceField::At => chosen.at = None,
                PreferenceField::Quiet => chosen.quiet = None,
                PreferenceField::Off => chosen.off.clear(),
                PreferenceField::Pause => chosen.paused_until = None,
            }
        }
        chosen.off.extend(self.off);
        chosen.off.retain(|category| !self.on.contains(category));
        let kept = chosen.paused_until.filter(|until| *until > now && !self.resume);
        Preferences {
            cadence: self.cadence.or(chosen.cadence),
            zone: self.zone.or(chosen.zone),
            at: self.at.or(chosen.at),
            quiet: parse_quiet(self.quiet).or(chosen.quiet),
            off: chosen.off,
            paused_until: self.pause_until.or(kept),
        }
    }
}

fn parse_pause(text: &str) -> Result<Timestamp, String> {
    // A span from now leaves fractions of a second.
    let until = parse_future_time(text)?;
    Ok(Timestamp::from_second(until.as_second()).unwrap_or(until))
}

/// Returns `None` if unset, and an empty list for a single `none`.
fn parse_quiet(words: Vec<String>) -> Option<Vec<String>> {
    match words.as_slice() {
        [] => None,
        [none] if none == NONE => Some(Vec::new()),
        _ => Some(words),
    }
}

const COLUMNS: [&str; 9] = ["tenant", "digest_type", "user", "cadence", "zone", "at", "quiet", "off", "paused_until"];
const REQUIRED: [&str; 3] = ["tenant", "digest_type", "user"];

/// Imports all valid lines. Returns `false` if any was rejected.
async fn import(file: &Path, order: &CommandContext, json: bool, config: &Config) -> anyhow::Result<bool> {
    let (bar, input) = line_input::open_input(file)?;
    let table = line_input::table(input, &COLUMNS, &REQUIRED)?;
    let mut people = PreferenceStore::open(config).await?;
    let mut report = LineReport::new(json, bar);
    for line in table {
        let put = match line? {
            Ok(row) => store_row(&mut people, &row, order).await?,
            Err(wrong) => Err(wrong.into()),
        };
        match put {
            Ok(()) => report.count_accepted(1),
            Err(rejection) => report.report_rejection(&rejection),
        }
    }
    Ok(report.print_totals("preferences"))
}

/// Signals the key's workflow if something changed.
async fn store_row(
    people: &mut PreferenceStore<'_>,
    row: &InputRow,
    order: &CommandContext,
) -> anyhow::Result<Result<(), LineRejection>> {
    let rejected = |(field, problem): (String, String)| Ok(Err(LineRejection::new(row.line, &field, &problem)));
    let (key, chosen) = match parse_row(|column| row.value(column)) {
        Ok(read) => read,
        Err(problem) => return rejected(problem),
    };
    let has = |column: &str| row.get(column).is_some();
    let change = |before| merge_columns(before, chosen.clone(), has);
    match choices::update_preferences(&*people.store, &people.settings, &key, change, None, order, Timestamp::now())
        .await
    {
        Ok(StoredPreferences { changed: true, .. }) => people.notify_workflows(&key).await,
        Ok(_) => {}
        Err(error @ (PreferencesError::Store(_) | PreferencesError::Conflict(_))) => return Err(error.into()),
        Err(PreferencesError::Invalid(invalid)) => return rejected((invalid.field, invalid.problem)),
        Err(error @ PreferencesError::UnknownType(_)) => {
            return rejected(("digest_type".to_owned(), error.to_string()));
        }
    }
    Ok(Ok(()))
}

/// A missing column changes nothing; otherwise this file would end pauses and turn categories on again.
fn merge_columns(before: Preferences, chosen: Preferences, has: impl Fn(&str) -> bool) -> Preferences {
    Preferences {
        cadence: if has("cadence") { chosen.cadence } else { before.cadence },
        zone: if has("zone") { chosen.zone } else { before.zone },
        at: if has("at") { chosen.at } else { before.at },
        quiet: if has("quiet") { chosen.quiet } else { before.quiet },
        off: if has("off") { chosen.off } else { before.off },
        paused_until: if has("paused_until") { chosen.paused_until } else { before.paused_until },
    }
}

/// The error is the wrong field and the remedy.
fn parse_row(value: impl Fn(&str) -> String) -> Result<(Key, Preferences), (String, String)> {
    let key = Key::new(value("tenant"), value("digest_type"), value("user"));
    // An event calls this field `digest`.
    let column = |field: String| if field == "digest" { "digest_type".to_owned() } else { field };
    let key = key.map_err(|invalid| (column(invalid.field), invalid.problem))?;
    let text = |column| Some(value(column)).filter(|text| !text.is_empty());
    let list =
        |column| value(column).split(';').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let paused_until = text("paused_until").map(|written| {
        when::parse_time(&written).map_err(|problem| ("paused_until".to_owned(), format!("{written:?} {problem}")))
    });
    let preferences = Preferences {
        cadence: text("cadence"),
        zone: text("zone"),
        at: text("at"),
        quiet: parse_quiet(list("quiet")),
        off: list("off").into_iter().collect(),
        paused_until: paused_until.transpose()?,
    };
    Ok((key, preferences))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_pause_ends_at_a_time_or_after_a_span_with_days() {
        let days = |days: i64| Timestamp::now() + SignedDuration::from_hours(24 * days);
        let until = parse_pause("14d").unwrap();
        assert!(days(13) < until && until < days(15) && until.subsec_nanosecond() == 0, "{until}");
        assert!(parse_pause("2h 30m").unwrap() < days(1));
        assert_eq!(parse_pause("2126-12-01T08:00:00Z").unwrap().to_string(), "2126-12-01T08:00:00Z");
        assert_eq!(parse_pause("9999-12-31T23:59:59Z").unwrap().to_string(), "9999-12-30T22:00:00Z");
        assert!(parse_pause("soon").is_err() && parse_pause("2001-01-01T00:00:00Z").is_err());
    }

    #[test]
    fn a_change_clears_before_it_sets_and_keeps_the_rest() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now + SignedDuration::from_hours(1);
        let chosen = Preferences {
            cadence: Some("daily 08:00".into()),
            zone: Some("Asia/Tokyo".into()),
            quiet: Some(words(&["22:00-07:00"])),
            off: ["share".to_owned(), "like".to_owned()].into(),
            paused_until: Some(later),
            ..Preferences::default()
        };
        assert_eq!(PreferenceChanges::default().apply_to(chosen.clone(), now), chosen);
        let changes = PreferenceChanges {
            cadence: Some("hourly".into()),
            quiet: words(&["none"]),
            off: words(&["mention"]),
            on: words(&["like", "nothing"]),
            resume: true,
            clear: vec![PreferenceField::Zone, PreferenceField::Cadence],
            ..PreferenceChanges::default()
        };
        let expected = Preferences {
            cadence: Some("hourly".into()),
            quiet: Some(Vec::new()),
            off: ["share".to_owned(), "mention".to_owned()].into(),
            ..Preferences::default()
        };
        assert_eq!(changes.apply_to(chosen.clone(), now), expected);
        assert_eq!(PreferenceChanges::default().apply_to(chosen, later).paused_until, None, "a pause that is over");
    }

    #[test]
    fn a_column_that_the_file_lacks_leaves_what_was_chosen() {
        let before = Preferences {
            cadence: Some("daily 08:00".into()),
            zone: Some("Asia/Tokyo".into()),
            off: ["comment".to_owned()].into(),
            paused_until: Some(Timestamp::UNIX_EPOCH),
            ..Preferences::default()
        };
        let weekly = Preferences { cadence: Some("weekly mon 09:00".into()), ..Preferences::default() };
        let after = merge_columns(before.clone(), weekly.clone(), |column| ["cadence", "zone"].contains(&column));
        assert_eq!((after.cadence.as_deref(), after.zone.as_deref()), (Some("weekly mon 09:00"), None));
        assert_eq!((&after.off, after.paused_until), (&before.off, before.paused_until));
        assert_eq!(merge_columns(before, weekly.clone(), |_| true), weekly);
    }
}
