//! The page's form and the preferences changes it contains.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::{Deserialize, Serialize};
use tidings_model::{
    Key,
    records::{KeyFacts, Preferences, PreferencesChange},
    rules::{effective::EffectiveSettings, preference_check},
};

use super::{
    often::{CadenceEntry, CadenceFields},
    subject::DigestSubject,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormAction {
    Save,
    /// Turn off all digests.
    None,
    Undo,
}

/// Most fields parsed. A page with 30 digest types of 40 categories each has 2,700; each field costs memory
/// even if it is short.
const FIELDS: usize = 20_000;

pub(super) struct PreferencesForm {
    pub action: FormAction,
    fields: BTreeMap<String, Vec<String>>,
}

/// Preferences of a digest type before a change, and the facts after it.
#[derive(Serialize, Deserialize)]
struct UndoEntry {
    digest_type: String,
    seen: FactsSeen,
    preferences: Preferences,
    consent: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct FactsSeen {
    revision: u64,
    consent: bool,
}

pub(super) fn seen_value(facts: &KeyFacts) -> String {
    format!("{} {}", facts.revision, if facts.consent { "on" } else { "off" })
}

/// In JSON. `None` if something can no longer be chosen, e.g. a cadence not offered any more.
pub(super) fn undo_value(
    before: &[DigestSubject<'_>],
    wishes: &[PreferencesChange],
    changed: &[Key],
    now: Timestamp,
) -> Option<String> {
    let undo = |wish: &PreferencesChange| {
        let DigestSubject { key, settings, facts, .. } = before.iter().find(|subject| subject.key == wish.key)?;
        let preferences = without_ended_pause(facts.preferences.clone(), now);
        preference_check::check_preferences(settings, &wish.preferences, &preferences, now).ok()?;
        let chose = u64::from(facts.preferences != wish.preferences);
        Some(UndoEntry {
            digest_type: key.digest_type.clone(),
            seen: FactsSeen { revision: wish.seen_revision + chose, consent: wish.consent },
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

impl PreferencesForm {
    /// Returns `None` if this has more fields than a page.
    pub fn from_body(body: &[u8]) -> Option<Self> {
        let mut fields = BTreeMap::<String, Vec<String>>::new();
        for (number, (name, value)) in url::form_urlencoded::parse(body).enumerate() {
            if number == FIELDS {
                return None;
            }
            fields.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        let action = match fields.get("action").and_then(|values| values.first()).map(String::as_str) {
            _ if fields.contains_key("undo") => FormAction::Undo,
            Some("none") => FormAction::None,
            _ => FormAction::Save,
        };
        Some(Self { action, fields })
    }

    /// Digest types missing in the form should stay unchanged.
    pub fn preference_changes(
        &self,
        key: &Key,
        subjects: &[DigestSubject<'_>],
        now: Timestamp,
    ) -> Vec<PreferencesChange> {
        if self.action == FormAction::Undo {
            return self.undo_changes(key, now);
        }
        subjects.iter().filter_map(|subject| self.digest_change(subject, now)).collect()
    }

    fn undo_changes(&self, key: &Key, now: Timestamp) -> Vec<PreferencesChange> {
        let undo: Vec<UndoEntry> =
            self.first("undo").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let wish = |UndoEntry { digest_type, seen, preferences, consent }| PreferencesChange {
            key: Key { digest_type, ..key.clone() },
            seen_revision: seen.revision,
            seen_consent: seen.consent,
            preferences: without_ended_pause(preferences, now),
            consent,
        };
        undo.into_iter().map(wish).collect()
    }

    fn digest_change(&self, subject: &DigestSubject<'_>, now: Timestamp) -> Option<PreferencesChange> {
        let DigestSubject { key, facts, .. } = subject;
        let seen = self.seen_facts(&key.digest_type)?;
        let (preferences, consent) = match self.action {
            FormAction::None => (facts.preferences.clone(), false),
            FormAction::Save | FormAction::Undo => {
                (self.preferences(subject, now), self.digest_field(&key.digest_type, "on").is_some())
            }
        };
        Some(PreferencesChange {
            key: key.clone(),
            seen_revision: seen.revision,
            seen_consent: seen.consent,
            preferences,
            consent,
        })
    }

    fn preferences(&self, subject: &DigestSubject<'_>, now: Timestamp) -> Preferences {
        let DigestSubject { key, settings, facts, .. } = subject;
        let name = &key.digest_type;
        let mut preferences = facts.preferences.clone();
        let present = CadenceFields::from_facts(settings, facts);
        let field =
            |field, present: &String| self.digest_field(name, field).map_or_else(|| present.clone(), str::to_owned);
        let often = self.digest_field(name, "often");
        let (time, day, date) =
            (field("time", &present.time), field("day", &present.day), field("date", &present.date));
        if let Some(often) = often.map_or_else(|| Some(present.often.clone()), CadenceEntry::from_value) {
            CadenceFields { often, time, day, date }.apply_to(&present, &mut preferences);
        } else {
            // An unknown entry becomes an invalid cadence, which we will reject later.
            (preferences.cadence, preferences.at) = (often.map(str::to_owned), None);
        }
        let (shown, on) = (self.digest_values(name, "shown"), self.digest_values(name, "category"));
        preferences.off.retain(|category| !shown.contains(settings.category_today(category)));
        preferences.off.extend(shown.difference(&on).cloned());
        if let Some(zone) = self.first("zone").filter(|zone| self.first("zone_was") != Some(zone)) {
            preferences.zone = Some(zone.to_owned());
        }
        let shown = paused_date(facts, &subject.effective(now).zone, now);
        if let Some(date) = self.digest_field(name, "pause").filter(|date| *date != shown) {
            let chosen = KeyFacts { preferences: preferences.clone(), ..facts.clone() };
            preferences.paused_until = pause_end(date, &EffectiveSettings::without_adapting(settings, &chosen).zone);
        }
        preferences
    }

    fn seen_facts(&self, digest_type: &str) -> Option<FactsSeen> {
        let (revision, consent) = self.digest_field(digest_type, "seen")?.split_once(' ')?;
        Some(FactsSeen { revision: revision.parse().ok()?, consent: consent == "on" })
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.first().map(String::as_str)
    }

    fn digest_field(&self, digest_type: &str, field: &str) -> Option<&str> {
        self.first(&format!("{digest_type}:{field}"))
    }

    fn digest_values(&self, digest_type: &str, field: &str) -> BTreeSet<String> {
        self.fields.get(&format!("{digest_type}:{field}")).into_iter().flatten().cloned().collect()
    }
}

/// E.g. `2026-12-01`, or empty without a pause.
pub(super) fn paused_date(facts: &KeyFacts, zone: &TimeZone, now: Timestamp) -> String {
    let until = facts.preferences.paused_until.filter(|until| *until > now);
    until.map(|until| until.to_zoned(zone.clone()).strftime("%F").to_string()).unwrap_or_default()
}

/// Start of the day. An invalid date becomes a time we will reject later.
fn pause_end(date: &str, zone: &TimeZone) -> Option<Timestamp> {
    if date.is_empty() {
        return None;
    }
    let Ok(date) = date.parse::<Date>() else { return Some(Timestamp::MIN) };
    // Treats the last days of year 9999 as the latest time, as the API does.
    let latest = if date.year() == 9999 { Timestamp::MAX } else { Timestamp::MIN };
    Some(date.to_zoned(zone.clone()).map_or(latest, |day| day.timestamp()))
}
