//! Retention periods, as `[retention]` sets them.

use std::{path::PathBuf, time::Duration};

use jiff::civil::Time;
use serde::Deserialize;
use tidings_activities::retention;
use tidings_model::{settings::DigestSettings, words};
use tidings_store::archive::Archive;
use toml::Spanned;

use super::problem::{Checks, Problem};

const DAY: u64 = 24 * 3600;
/// A hundred years. For longer, write `never`.
const LONGEST_DAYS: u64 = 36_500;

/// Shortest age of the messages that tell if a recipient still reads.
const ADAPTS: Duration = Duration::from_hours(60 * 24);

/// The age of data that is never deleted.
const NEVER: &str = "never";

/// The retention periods, and the time of the nightly purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The periods and the archive.
    pub settings: retention::Retention,
    /// The time of the daily purge, in UTC.
    pub at: Time,
}

/// The keys of `[retention]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRetention {
    events: Option<Spanned<String>>,
    messages: Option<Spanned<String>>,
    delivery_events: Option<Spanned<String>>,
    at: Option<Spanned<String>>,
    archive: Option<Spanned<String>>,
}

impl RawRetention {
    /// Checks the periods. A digest type that `adapts` looks back at five messages, which then come weekly.
    pub fn check(&self, inbox: Duration, adapts: bool, checks: &mut Checks<'_>) -> Retention {
        let default = retention::Retention::default();
        let long_enough = |text: &str| match age(text)? {
            Some(age) if adapts && age < ADAPTS => {
                Err("is too short for a digest type with `adapt`; write \"60d\" or more".to_owned())
            }
            age => Ok(age),
        };
        let events = checks.value("retention.events", self.events.as_ref(), age);
        let messages = checks.value("retention.messages", self.messages.as_ref(), long_enough);
        let delivery_events = checks.value("retention.delivery_events", self.delivery_events.as_ref(), age);
        let at = checks.value("retention.at", self.at.as_ref(), at);
        let archive = checks.value("retention.archive", self.archive.as_ref(), folder);
        let settings = retention::Retention {
            events: events.unwrap_or(default.events),
            messages: messages.unwrap_or(default.messages),
            delivery_events: delivery_events.unwrap_or(default.delivery_events),
            inbox,
            archive,
        };
        Retention { settings, at: at.unwrap_or(Time::constant(3, 30, 0, 0)) }
    }
}

impl Retention {
    /// Warns of an archive folder that does not exist. The purge waits for the folder.
    pub(super) fn warning(&self) -> Option<Problem> {
        let folder = self.settings.archive.as_ref()?.folder();
        (!folder.is_dir()).then(|| Problem {
            place: "here".to_owned(),
            key: "retention.archive".to_owned(),
            value: folder.display().to_string(),
            problem: "there is no such folder; the worker deletes nothing until the folder exists".to_owned(),
        })
    }
}

/// Warns of digest types whose windows may be open for longer than an event is kept. The tables come with their keys.
pub(super) fn short_retention<'a>(
    events: Option<Duration>,
    tables: impl Iterator<Item = (String, &'a DigestSettings)>,
) -> Vec<Problem> {
    let Some(kept) = events else { return Vec::new() };
    let warning = |(table, digest): (String, &DigestSettings)| {
        let waits = [digest.throttle, digest.undo, digest.spread].into_iter().flatten().sum::<Duration>();
        let open = digest.cadence.longest_window().unsigned_abs() + waits;
        (open > kept).then(|| Problem {
            place: "here".to_owned(),
            key: "retention.events".to_owned(),
            value: age_text(Some(kept)),
            problem: format!(
                "is shorter than a window of [{table}] may be open, so that an event which comes again is a new one there; write \"{}d\" or \
                 more",
                open.as_secs().div_ceil(DAY)
            ),
        })
    };
    tables.filter_map(warning).collect()
}

/// Parses `90d` or `never`.
fn age(text: &str) -> Result<Option<Duration>, String> {
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

/// Formats an age as `tidings.toml` writes it.
#[must_use]
pub fn age_text(age: Option<Duration>) -> String {
    age.map_or_else(|| NEVER.to_owned(), |age| format!("{}d", age.as_secs() / DAY))
}

fn at(text: &str) -> Result<Time, String> {
    words::time(text).map_err(|_| "is not a time of day in UTC; write for example \"03:30\"".to_owned())
}

/// Parses the name of a folder. Only the worker needs the folder itself.
fn folder(text: &str) -> Result<Archive, String> {
    if text.is_empty() {
        Err("is empty; name a folder, or leave the key out to archive nothing".to_owned())
    } else {
        Ok(Archive::new(PathBuf::from(text)))
    }
}
