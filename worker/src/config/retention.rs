//! Retention periods: the table `[retention]`.

use std::{path::PathBuf, time::Duration};

use jiff::civil::Time;
use tidings_activities::retention;
use tidings_model::{settings::DigestSettings, words};
use tidings_store::archive::Archive;

use super::{
    checks::Checks,
    keys::{ToConfigValue as _, table},
    problem::ConfigProblem,
};

const DAY: u64 = 24 * 3600;
/// A hundred years. For longer, write `never`.
const LONGEST_DAYS: u64 = 36_500;

/// Minimum for messages with `adapt`. To see if a recipient still reads, we look back at five messages, which
/// may come weekly.
const ADAPTS: Duration = Duration::from_hours(60 * 24);

const NEVER: &str = "never";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionConfig {
    pub settings: retention::RetentionLimits,
    /// Time of the nightly purge, in UTC.
    pub at: Time,
}

table! {
    /// The keys of `[retention]`. A digest type that `adapts` looks back at five messages, which then come weekly.
    pub(super) struct RawRetention for retention: RetentionConfig, read(adapts: bool) {
        events: text(parse_age) in settings.events, shown age_text(retention.settings.events).show();
        messages: text(|text| long_enough(text, adapts)) in settings.messages,
            shown age_text(retention.settings.messages).show();
        delivery_events: text(parse_age) in settings.delivery_events,
            shown age_text(retention.settings.delivery_events).show();
        at: text(parse_time), shown retention.at.strftime("%H:%M").to_string().show();
        archive: text(parse_archive) in settings.archive, shown retention.settings.archive.as_ref().map(Archive::folder).show();
    }
}

impl RawRetention {
    pub fn check(&self, inbox: Duration, adapts: bool, checks: &mut Checks<'_>) -> RetentionConfig {
        let settings = retention::RetentionLimits { inbox, ..retention::RetentionLimits::default() };
        let mut retention = RetentionConfig { settings, at: tidings_model::retention::DEFAULT_TIME };
        self.read("retention", &mut retention, checks, adapts);
        retention
    }
}

impl RetentionConfig {
    /// Warns about a missing archive folder. The purge waits until it exists.
    pub(super) fn warning(&self) -> Option<ConfigProblem> {
        let folder = self.settings.archive.as_ref()?.folder();
        let problem = "there is no such folder; the worker deletes nothing until the folder exists";
        (!folder.is_dir())
            .then(|| ConfigProblem::new("here", "retention.archive", problem).with_value(folder.display().to_string()))
    }
}

/// Warns about digest types with windows that may stay open longer than events are kept: a repeated event
/// would then count as new. Each table comes with its key.
pub(super) fn short_retention<'a>(
    events: Option<Duration>,
    tables: impl Iterator<Item = (String, &'a DigestSettings)>,
) -> Vec<ConfigProblem> {
    let Some(kept) = events else { return Vec::new() };
    let warning = |(table, digest): (String, &DigestSettings)| {
        let waits = [digest.throttle, digest.undo, digest.spread].into_iter().flatten().sum::<Duration>();
        let open = digest.cadence.longest_window().unsigned_abs() + waits;
        (open > kept).then(|| {
            let problem = format!(
                "is shorter than a window of [{table}] may be open, so a repeated event would count as new there; write \"{}d\" or \
                 more",
                open.as_secs().div_ceil(DAY)
            );
            ConfigProblem::new("here", "retention.events", problem).with_value(age_text(Some(kept)))
        })
    };
    tables.filter_map(warning).collect()
}

fn parse_age(text: &str) -> Result<Option<Duration>, String> {
    if text == NEVER {
        return Ok(None);
    }
    let days = text.strip_suffix('d').filter(|days| days.bytes().all(|byte| byte.is_ascii_digit()));
    match days.and_then(|days| days.parse().ok()) {
        Some(days @ 1..=LONGEST_DAYS) => Ok(Some(Duration::from_secs(days * DAY))),
        _ => Err(format!(
            "is not an age; write whole days from \"1d\" to \"{LONGEST_DAYS}d\", for example \"90d\", or \"{NEVER}\""
        )),
    }
}

fn long_enough(text: &str, adapts: bool) -> Result<Option<Duration>, String> {
    match parse_age(text)? {
        Some(age) if adapts && age < ADAPTS => {
            Err("is too short for a digest type with `adapt`; write \"60d\" or more".to_owned())
        }
        age => Ok(age),
    }
}

fn age_text(age: Option<Duration>) -> String {
    age.map_or_else(|| NEVER.to_owned(), |age| format!("{}d", age.as_secs() / DAY))
}

fn parse_time(text: &str) -> Result<Time, String> {
    words::parse_time(text).map_err(|_| "is not a time of day in UTC; write for example \"03:30\"".to_owned())
}

/// The folder may be missing here, because only the worker needs it.
fn parse_archive(text: &str) -> Result<Archive, String> {
    if text.is_empty() {
        Err("is empty; name a folder, or leave the key out to archive nothing".to_owned())
    } else {
        Ok(Archive::new(PathBuf::from(text)))
    }
}
