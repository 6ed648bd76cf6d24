//! One line of the mail, as templates see it: a group of events in words.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{
    clean,
    view::{NAME_CHARS, local},
    words,
};
use crate::store::Group;

/// Characters of a title.
const TITLE_CHARS: usize = 200;
/// Characters of an excerpt.
const EXCERPT_CHARS: usize = 300;

/// One line of the mail: a group of events.
#[derive(Clone, PartialEq, Serialize)]
pub struct Line {
    pub category: String,
    pub entity_type: String,
    pub entity_id: String,
    /// How the line names the entity; only its type, or `None`, where the title names it already.
    pub entity: Option<String>,
    /// The payload's, else the entity's name, else the category's.
    pub title: String,
    pub url: Option<String>,
    pub excerpt: Option<String>,
    pub count: u64,
    /// The count with its category: `12 changes`.
    pub quantity: String,
    pub counts: Counts,
    /// `Ann and 3 others`; may be empty.
    pub who: String,
    pub actor: String,
    pub actor_count: u64,
    pub actors: Vec<String>,
    /// `3 Feb, 14:20`.
    pub first_at: String,
    pub last_at: String,
    pub payload: Map<String, Value>,
}

/// Sums that are not zero, the worst first (by `tone`), then by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(String, i64)>);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, n)| (name, n)))
    }
}

impl Line {
    pub(super) fn new(group: &Group, zone: &TimeZone) -> Self {
        let string =
            |name: &str| group.payload.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let named = entity_name(group);
        let title = string("title").map(|title| clean::text(title, TITLE_CHARS));
        let category = clean::text(&group.category, NAME_CHARS);
        let entity_type = clean::text(&group.entity_type, NAME_CHARS);
        let (title, entity) = match (title, named) {
            (Some(title), named) => (title, named),
            (None, Some(named)) => (named, Some(words::humanize(&entity_type)).filter(|name| !name.is_empty())),
            (None, None) => (words::humanize(&category), None),
        };
        let actors: Vec<_> = group.actors.iter().map(|actor| clean::text(actor, NAME_CHARS)).collect();
        Self {
            entity_type,
            entity_id: clean::text(&group.entity_id, NAME_CHARS),
            entity: entity.filter(|entity| *entity != title),
            title,
            url: string("url").and_then(clean::url),
            excerpt: string("excerpt").map(|excerpt| clean::text(excerpt, EXCERPT_CHARS)),
            count: group.count,
            quantity: words::counted(&category, i128::from(group.count)),
            category,
            counts: Counts::new(&group.counts),
            who: words::who(&actors, group.actor_count),
            actor: clean::text(&group.actor, NAME_CHARS),
            actor_count: group.actor_count,
            actors,
            first_at: local(group.first_at, zone, "%-d %b, %H:%M"),
            last_at: local(group.last_at, zone, "%-d %b, %H:%M"),
            payload: clean::payload(&group.payload),
        }
    }
}

impl Counts {
    pub(super) fn new(counts: &BTreeMap<String, i64>) -> Self {
        let rank = |name: &str| match words::tone(name) {
            "bad" => 0,
            "warn" => 1,
            "good" => 3,
            _ => 2,
        };
        let mut counts: Vec<_> =
            counts.iter().filter(|(_, n)| **n != 0).map(|(name, n)| (clean::text(name, NAME_CHARS), *n)).collect();
        counts.sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
        Self(counts)
    }
}

/// `crates/cli` by itself, but `build 812`: a bare number says nothing without its type.
fn entity_name(group: &Group) -> Option<String> {
    let id = &group.entity_id;
    let name = match (group.entity_type.is_empty(), id.is_empty()) {
        (true, true) => return None,
        (false, true) => words::humanize(&group.entity_type),
        (false, false) if id.chars().all(|c| c.is_ascii_digit()) => {
            format!("{} {id}", words::humanize(&group.entity_type))
        }
        (_, false) => id.clone(),
    };
    Some(clean::text(&name, NAME_CHARS)).filter(|name| !name.is_empty())
}
