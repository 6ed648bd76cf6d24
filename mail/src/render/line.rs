//! A line in a message, i.e. a group of events, formatted for templates.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use tidings_model::records::{self, DigestLine};

use super::{
    clean::{self, NAME_CHARS},
    words::{self, TimeContext},
};
use crate::words::Phrases;

#[derive(Serialize)]
pub(super) struct LineView<'a> {
    pub category: Cow<'a, str>,
    pub section: Option<Cow<'a, str>>,
    pub entity_type: Cow<'a, str>,
    pub entity_id: Cow<'a, str>,
    /// If the title contains the entity's name, its type or `None`.
    pub entity: Option<String>,
    /// From the payload, otherwise the entity's name, otherwise the category.
    pub title: Cow<'a, str>,
    pub url: Option<String>,
    pub excerpt: Option<Cow<'a, str>>,
    pub count: u64,
    /// Count with category, e.g. `12 changes`.
    pub quantity: String,
    pub counts: CleanCounts<'a>,
    /// Formatted counts, worst first.
    pub sums: Vec<CountLabel>,
    /// E.g. `Ann and 3 others`; may be empty.
    pub who: String,
    pub actor: Cow<'a, str>,
    pub actor_count: u64,
    pub actors: Vec<Cow<'a, str>>,
    /// E.g. `Feb 3, 2:20 PM`.
    pub first_at: String,
    pub last_at: String,
    pub age: LineAge,
    /// E.g. `latest Feb 3, 2:20 PM`; only the time if there is a single event.
    pub when: String,
    /// Clean payload of the latest event (a map).
    pub payload: tera::Value,
    pub items: Vec<tera::Value>,
    /// Events not shown as items.
    pub more: u64,
}

impl<'a> LineView<'a> {
    pub fn new(group: &'a DigestLine, local: TimeContext<'_>) -> Self {
        let phrases = local.phrases;
        let named = entity_name(group);
        let title = group.latest.first().and_then(title);
        let category = clean::clean_text(&group.category, NAME_CHARS);
        let entity_type = clean::clean_text(&group.entity_type, NAME_CHARS);
        let untitled: Cow<'_, str> =
            Cow::Owned(named.clone().unwrap_or_else(|| words::humanize(&category).into_owned()));
        let (title, entity) = match (title, named) {
            (Some(title), named) => (title, named),
            (None, Some(_)) => {
                (untitled.clone(), Some(words::humanize(&entity_type).into_owned()).filter(|name| !name.is_empty()))
            }
            (None, None) => (untitled.clone(), None),
        };
        let items: Vec<_> = group.latest.iter().map(|item| ItemView::new(item, &untitled, local)).collect();
        let shown: u64 = items.iter().map(|item| item.count).sum();
        let latest = items.first();
        let actors: Vec<_> = group.actors.iter().map(|actor| clean::clean_text(actor, NAME_CHARS)).collect();
        let last_at = local.short_time(group.last_at);
        Self {
            entity_type,
            entity_id: clean::clean_text(&group.entity_id, NAME_CHARS),
            entity: entity.filter(|entity| *entity != title),
            title,
            url: latest.and_then(|item| item.url.clone()),
            excerpt: latest.and_then(|item| item.excerpt.clone()),
            count: group.count,
            quantity: words::counted_noun(phrases, &category, i128::from(group.count)),
            category,
            section: group.section.as_ref().map(|section| {
                let said = phrases.team_name("category", &section.category);
                said.map_or_else(|| clean::clean_text(&section.title, NAME_CHARS), Cow::Owned)
            }),
            counts: CleanCounts(&group.counts),
            sums: sums(phrases, &group.counts),
            who: words::list_actors(phrases, &actors, group.actor_count),
            actor: latest.map_or(Cow::Borrowed(""), |item| item.actor.clone()),
            actor_count: group.actor_count,
            actors,
            first_at: local.short_time(group.first_at),
            age: LineAge::new(group.first_at, local.now),
            when: match group.count {
                1 => last_at.clone(),
                _ => phrases.message_with("latest", [("time", last_at.as_str().into())]),
            },
            last_at,
            payload: latest.map_or_else(|| tera::Map::new().into(), |item| item.payload.clone()),
            more: group.count.saturating_sub(shown),
            items: items.iter().map(tera::Value::from_serializable).collect(),
        }
    }
}

/// E.g. `crates/cli` alone, but `build 812`, because a number needs its type.
fn entity_name(group: &DigestLine) -> Option<String> {
    let id = &group.entity_id;
    let name = match (group.entity_type.is_empty(), id.is_empty()) {
        (true, true) => return None,
        (false, true) => words::humanize(&group.entity_type),
        (false, false) if id.chars().all(|c| c.is_ascii_digit()) => {
            format!("{} {id}", words::humanize(&group.entity_type)).into()
        }
        (_, false) => id.into(),
    };
    Some(clean::clean_text(&name, NAME_CHARS).into_owned()).filter(|name| !name.is_empty())
}

const TITLE_CHARS: usize = 200;
const EXCERPT_CHARS: usize = 300;

#[derive(Serialize)]
pub(super) struct ItemView<'a> {
    pub title: Cow<'a, str>,
    pub url: Option<String>,
    pub excerpt: Option<Cow<'a, str>>,
    /// May be empty.
    pub actor: Cow<'a, str>,
    pub count: u64,
    /// E.g. `Feb 3, 2:20 PM`.
    pub at: String,
    pub payload: tera::Value,
}

impl<'a> ItemView<'a> {
    pub fn new(item: &'a records::LineItem, untitled: &Cow<'a, str>, local: TimeContext<'_>) -> Self {
        let payload = tera::Value::from_serializable(&clean::CleanPayload(&item.payload));
        Self {
            title: title(item).unwrap_or_else(|| untitled.clone()),
            url: payload.get_from_path("url").and_then(tera::Value::as_str).map(str::to_owned),
            excerpt: payload_string(item, "excerpt").map(|excerpt| clean::clean_text(excerpt, EXCERPT_CHARS)),
            actor: clean::clean_text(&item.actor, NAME_CHARS),
            count: item.count,
            at: local.short_time(item.at),
            payload,
        }
    }
}

fn title(item: &records::LineItem) -> Option<Cow<'_, str>> {
    payload_string(item, "title").map(|title| clean::clean_text(title, TITLE_CHARS))
}

fn payload_string<'a>(item: &'a records::LineItem, name: &str) -> Option<&'a str> {
    item.payload.get(name)?.as_str().filter(|text| !text.trim().is_empty())
}

#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct CountLabel {
    /// E.g. `2 critical`, `1 warning`.
    pub label: String,
    pub tone: CountTone,
}

/// Ordered from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountTone {
    Bad,
    Warn,
    Plain,
    Good,
}

impl CountTone {
    fn of_count(name: &str) -> Self {
        match name {
            "critical" | "failed" | "failure" | "failures" | "error" | "errors" | "down" | "fatal" => Self::Bad,
            "warning" | "warnings" | "degraded" | "unstable" | "flaky" | "skipped" => Self::Warn,
            "passed" | "resolved" | "recovered" | "fixed" => Self::Good,
            _ => Self::Plain,
        }
    }
}

pub(super) fn sums(phrases: Phrases<'_>, counts: &BTreeMap<String, i64>) -> Vec<CountLabel> {
    let mut sums: Vec<_> = counts
        .iter()
        .filter(|(_, n)| **n != 0)
        .map(|(name, n)| CountLabel {
            label: words::counted_name(phrases, &clean::clean_text(name, NAME_CHARS), i128::from(*n)),
            tone: CountTone::of_count(name),
        })
        .collect();
    sums.sort_by_key(|sum| sum.tone);
    sums
}

pub(super) struct CleanCounts<'a>(pub &'a BTreeMap<String, i64>);

impl Serialize for CleanCounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, n)| (clean::clean_text(name, NAME_CHARS), n)))
    }
}

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LineAge {
    pub seconds: u64,
    pub count: u64,
    pub unit: AgeUnit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgeUnit {
    Days,
    Hours,
    Minutes,
}

impl LineAge {
    /// Events after `now` get no age yet.
    pub fn new(from: Timestamp, now: Timestamp) -> Self {
        let seconds = u64::try_from(now.duration_since(from).as_secs()).unwrap_or_default();
        let (count, unit) = match seconds {
            DAY.. => (seconds / DAY, AgeUnit::Days),
            HOUR.. => (seconds / HOUR, AgeUnit::Hours),
            _ => ((seconds / 60).max(1), AgeUnit::Minutes),
        };
        Self { seconds, count, unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::LocalizedWords;

    #[test]
    fn the_worst_comes_first_and_nothing_is_not_mentioned() {
        let counts = [("passed", 40), ("files", 3), ("flaky", 0), ("warnings", 1), ("critical", 2)];
        let counts = counts.map(|(name, n)| (name.to_owned(), n)).into();
        let words = LocalizedWords::new(None).unwrap();
        let labels: Vec<_> = sums(words.choose([]), &counts).into_iter().map(|sum| sum.label).collect();
        assert_eq!(labels, ["2 critical", "1 warning", "3 files", "40 passed"]);
    }

    #[test]
    fn an_age_is_in_the_largest_unit_that_it_fills() {
        let now: Timestamp = "2025-02-03T08:00:00Z".parse().unwrap();
        for (from, count, unit) in [
            ("2025-01-22T20:00:00Z", 11, AgeUnit::Days),
            ("2025-02-02T08:00:00Z", 1, AgeUnit::Days),
            ("2025-02-02T08:00:01Z", 23, AgeUnit::Hours),
            ("2025-02-03T07:00:00Z", 1, AgeUnit::Hours),
            ("2025-02-03T07:00:01Z", 59, AgeUnit::Minutes),
            ("2025-02-03T08:00:00Z", 1, AgeUnit::Minutes),
            ("2025-02-03T09:00:00Z", 1, AgeUnit::Minutes),
        ] {
            let age = LineAge::new(from.parse().unwrap(), now);
            assert_eq!((age.count, age.unit), (count, unit), "{from}");
        }
    }
}
