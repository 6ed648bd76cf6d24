//! How long what is kept for a time is kept, as `tidings.toml` says it.

use std::{path::PathBuf, time::Duration};

use jiff::civil::Time;
use serde::Deserialize;
use tidings_activities::upkeep;
use tidings_model::words;
use tidings_store::archive::Archive;
use toml::Spanned;

use super::problem::{Checks, Problem};

const DAY: u64 = 24 * 3600;
/// A hundred years: whoever wants more says `never`.
const LONGEST_DAYS: u64 = 36_500;

/// The word for good.
const NEVER: &str = "never";

/// What is kept how long, and when upkeep deletes the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// What the worker needs of it.
    pub settings: upkeep::Retention,
    /// When upkeep starts every day, in UTC.
    pub at: Time,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    events: Option<Spanned<String>>,
    messages: Option<Spanned<String>>,
    delivery_events: Option<Spanned<String>>,
    at: Option<Spanned<String>>,
    archive: Option<Spanned<String>>,
}

impl Written {
    pub fn check(&self, checks: &mut Checks<'_>) -> Retention {
        let default = upkeep::Retention::default();
        let events = checks.value("retention.events", self.events.as_ref(), age);
        let messages = checks.value("retention.messages", self.messages.as_ref(), age);
        let delivery_events = checks.value("retention.delivery_events", self.delivery_events.as_ref(), age);
        let at = checks.value("retention.at", self.at.as_ref(), at);
        let archive = checks.value("retention.archive", self.archive.as_ref(), folder);
        let settings = upkeep::Retention {
            events: events.unwrap_or(default.events),
            messages: messages.unwrap_or(default.messages),
            delivery_events: delivery_events.unwrap_or(default.delivery_events),
            archive,
        };
        Retention { settings, at: at.unwrap_or(Time::constant(3, 30, 0, 0)) }
    }
}

impl Retention {
    /// An archive that is not there: upkeep will wait for it.
    pub(super) fn warning(&self) -> Option<Problem> {
        let folder = self.settings.archive.as_ref()?.folder();
        (!folder.is_dir()).then(|| Problem {
            place: "here".to_owned(),
            key: "retention.archive".to_owned(),
            value: folder.display().to_string(),
            problem: "there is no such folder; upkeep deletes nothing before the worker has it".to_owned(),
        })
    }
}

/// `90d`, or for good.
fn age(text: &str) -> Result<Option<Duration>, String> {
    if text == NEVER {
        return Ok(None);
    }
    let days = text.strip_suffix('d').filter(|days| days.bytes().all(|byte| byte.is_ascii_digit()));
    match days.and_then(|days| days.parse().ok()) {
        Some(days @ 1..=LONGEST_DAYS) => Ok(Some(Duration::from_secs(days * DAY))),
        _ => Err(format!(
            "is no age; write whole days from \"1d\" to \"{LONGEST_DAYS}d\", for example \"90d\", or \"{NEVER}\""
        )),
    }
}

/// The word that `age` reads.
pub fn written(age: Option<Duration>) -> String {
    age.map_or_else(|| NEVER.to_owned(), |age| format!("{}d", age.as_secs() / DAY))
}

fn at(text: &str) -> Result<Time, String> {
    words::time(text).map_err(|_| "is no time of day in UTC; write for example \"03:30\"".to_owned())
}

/// The worker's folder, which need not be there where the configuration is checked.
fn folder(text: &str) -> Result<Archive, String> {
    if text.is_empty() {
        Err("is empty; name a folder, or leave the key out, and nothing is archived".to_owned())
    } else {
        Ok(Archive::new(PathBuf::from(text)))
    }
}
