//! The page's form and the preferences changes it contains.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::{Deserialize, Serialize};
use tidings_model::{
    Key,
    records::{Facts, Preferences, Wish},
    rules::{effective::Effective, preference_check},
};

use super::{
    often::{Often, Times},
    subject::Subject,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Save,
    /// Turn off all digests.
    None,
    Undo,
}

/// Most fields parsed. A page with 30 digest types of 40 categories each has 2,700; each field costs memory
/// even if it is short.
const FIELDS: usize = 20_000;

pub(super) struct Form {
    pub action: Action,
    fields: BTreeMap<String, Vec<String>>,
}

/// Preferences of a digest type before a change, and the facts after it.
#[derive(Serialize, Deserialize)]
struct Undo {
    digest_type: String,
    seen: Seen,
    preferences: Preferences,
    consent: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Seen {
    revision: u64,
    consent: bool,
}

pub(super) fn seen(facts: &Facts) -> String {
    format!("{} {}", facts.revision, if facts.consent { "on" } else { "off" })
}

/// In JSON. `None` if something can no longer be chosen, e.g. a cadence not offered any more.
pub(super) fn undo(before: &[Subject<'_>], wishes: &[Wish], changed: &[Key], now: Timestamp) -> Option<String> {
    let undo = |wish: &Wish| {
        let Subject { key, settings, facts, .. } = before.iter().find(|subject| subject.key == wish.key)?;
        let preferences = without_ended_pause(facts.preferences.clone(), now);
        preference_check::preferences(settings, &wish.preferences, &preferences, now).ok()?;
        let chose = u64::from(facts.preferences != wish.preferences);
        Some(Undo {
            digest_type: key.digest_type.clone(),
            seen: Seen { revision: wish.seen_revision + chose, consent: wish.consent },
            preferences,
            consent: facts.consent,
        })
    };
    let undo: Option<Vec<_>> = wishes.iter().filter(|wish| changed.contains(&wish.key)).map(undo).collect();
    serde_json::to_string(&undo?).ok()
}

fn without_ended_pause(preferences: Preferences, now: Timestamp) -> Preferences {
    Preferences { paused_until: preferences.paused_until.filter(|until| *until > now), ..preferences }
}

impl Form {
    /// Returns `None` if this has more fields than a page.
    pub fn read(body: &[u8]) -> Option<Self> {
        let mut fields = BTreeMap::<String, Vec<String>>::new();
        for (number, (name, value)) in url::form_urlencoded::parse(body).enumerate() {
            if number == FIELDS {
                return None;
            }
            fields.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        let action = match fields.get("action").and_then(|values| values.first()).map(String::as_str) {
            _ if fields.contains_key("undo") => Action::Undo,
            Some("none") => Action::None,
            _ => Action::Save,
        };
        Some(Self { action, fields })
    }

    /// Digest types missing in the form should stay unchanged.
    pub fn wishes(&self, key: &Key, subjects: &[Subject<'_>], now: Timestamp) -> Vec<Wish> {
        if self.action == Action::Undo {
            return self.undone(key, now);
        }
        subjects.iter().filter_map(|subject| self.wish(subject, now)).collect()
    }

    fn undone(&self, key: &Key, now: Timestamp) -> Vec<Wish> {
        let undo: Vec<Undo> = self.first("undo").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let wish = |Undo { digest_type, seen, preferences, consent }| Wish {
            key: Key { digest_type, ..key.clone() },
            seen_revision: seen.revision,
            seen_consent: seen.consent,
            preferences: without_ended_pause(preferences, now),
            consent,
        };
        undo.into_iter().map(wish).collect()
    }

    fn wish(&self, subject: &Subject<'_>, now: Timestamp) -> Option<Wish> {
        let Subject { key, facts, .. } = subject;
        let seen = self.seen(&key.digest_type)?;
        let (preferences, consent) = match self.action {
            Action::None => (facts.preferences.clone(), false),
            Action::Save | Action::Undo => (self.preferences(subject, now), self.of(&key.digest_type, "on").is_some()),
        };
        Some(Wish { key: key.clone(), seen_revision: seen.revision, seen_consent: seen.consent, preferences, consent })
    }

    fn preferences(&self, subject: &Subject<'_>, now: Timestamp) -> Preferences {
        let Subject { key, settings, facts, .. } = subject;
        let name = &key.digest_type;
        let mut preferences = facts.preferences.clone();
        let present = Times::present(settings, facts);
        let field = |field, present: &String| self.of(name, field).map_or_else(|| present.clone(), str::to_owned);
        let often = self.of(name, "often");
        let (time, day, date) =
            (field("time", &present.time), field("day", &present.day), field("date", &present.date));
        if let Some(often) = often.map_or_else(|| Some(present.often.clone()), Often::read) {
            Times { often, time, day, date }.put(&present, &mut preferences);
        } else {
            // An unknown entry becomes an invalid cadence, which we will reject later.
            (preferences.cadence, preferences.at) = (often.map(str::to_owned), None);
        }
        let (shown, on) = (self.all(name, "shown"), self.all(name, "category"));
        preferences.off.retain(|category| !shown.contains(settings.category_today(category)));
        preferences.off.extend(shown.difference(&on).cloned());
        if let Some(zone) = self.first("zone").filter(|zone| self.first("zone_was") != Some(zone)) {
            preferences.zone = Some(zone.to_owned());
        }
        let shown = paused_date(facts, &subject.effective(now).zone, now);
        if let Some(date) = self.of(name, "pause").filter(|date| *date != shown) {
            let chosen = Facts { preferences: preferences.clone(), ..facts.clone() };
            preferences.paused_until = until(date, &Effective::unadapted(settings, &chosen).zone);
        }
        preferences
    }

    fn seen(&self, digest_type: &str) -> Option<Seen> {
        let (revision, consent) = self.of(digest_type, "seen")?.split_once(' ')?;
        Some(Seen { revision: revision.parse().ok()?, consent: consent == "on" })
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.first().map(String::as_str)
    }

    fn of(&self, digest_type: &str, field: &str) -> Option<&str> {
        self.first(&format!("{digest_type}:{field}"))
    }

    fn all(&self, digest_type: &str, field: &str) -> BTreeSet<String> {
        self.fields.get(&format!("{digest_type}:{field}")).into_iter().flatten().cloned().collect()
    }
}

/// E.g. `2026-12-01`, or empty without a pause.
pub(super) fn paused_date(facts: &Facts, zone: &TimeZone, now: Timestamp) -> String {
    let until = facts.preferences.paused_until.filter(|until| *until > now);
    until.map(|until| until.to_zoned(zone.clone()).strftime("%F").to_string()).unwrap_or_default()
}

/// Start of the day. An invalid date becomes a time we will reject later.
fn until(date: &str, zone: &TimeZone) -> Option<Timestamp> {
    if date.is_empty() {
        return None;
    }
    let Ok(date) = date.parse::<Date>() else { return Some(Timestamp::MIN) };
    // Treats the last days of year 9999 as the latest time, as the API does.
    let latest = if date.year() == 9999 { Timestamp::MAX } else { Timestamp::MIN };
    Some(date.to_zoned(zone.clone()).map_or(latest, |day| day.timestamp()))
}
