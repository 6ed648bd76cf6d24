//! One line of a message, as templates receive it: a group of events as text.

use std::borrow::Cow;

use serde::Serialize;
use tidings_model::records::Group;

use super::{
    age::Age,
    clean::{self, NAME_CHARS},
    item::{self, Item},
    local::Local,
    sums::{self, Counts, Sum},
    words,
};

/// One line of a message: a group of events.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub category: Cow<'a, str>,
    /// The heading of the line's section.
    pub section: Option<Cow<'a, str>>,
    pub entity_type: Cow<'a, str>,
    pub entity_id: Cow<'a, str>,
    /// The name of the entity in the line. If the title already names the entity: its type or `None`.
    pub entity: Option<String>,
    /// The payload's title, or else the name of the entity, or else the category.
    pub title: Cow<'a, str>,
    pub url: Option<String>,
    pub excerpt: Option<Cow<'a, str>>,
    pub count: u64,
    /// The count with its category: `12 changes`.
    pub quantity: String,
    pub counts: Counts<'a>,
    /// The counts as text, the worst first.
    pub sums: Vec<Sum>,
    /// `Ann and 3 others`; may be empty.
    pub who: String,
    pub actor: Cow<'a, str>,
    pub actor_count: u64,
    pub actors: Vec<Cow<'a, str>>,
    /// `Feb 3, 2:20 PM`.
    pub first_at: String,
    pub last_at: String,
    /// The time since the first event.
    pub age: Age,
    /// `latest Feb 3, 2:20 PM`; the time alone if the group has one event.
    pub when: String,
    /// The clean payload of the latest event, a map.
    pub payload: tera::Value,
    /// The latest items, each an `Item`.
    pub items: Vec<tera::Value>,
    /// Events of the line that no item shows.
    pub more: u64,
}

impl<'a> Line<'a> {
    pub(super) fn new(group: &'a Group, local: Local<'_>) -> Self {
        let phrases = local.phrases;
        let named = entity_name(group);
        let title = group.latest.first().and_then(item::title);
        let category = clean::text(&group.category, NAME_CHARS);
        let entity_type = clean::text(&group.entity_type, NAME_CHARS);
        // The title of an event without one.
        let untitled: Cow<'_, str> =
            Cow::Owned(named.clone().unwrap_or_else(|| words::humanize(&category).into_owned()));
        let (title, entity) = match (title, named) {
            (Some(title), named) => (title, named),
            (None, Some(_)) => {
                (untitled.clone(), Some(words::humanize(&entity_type).into_owned()).filter(|name| !name.is_empty()))
            }
            (None, None) => (untitled.clone(), None),
        };
        let items: Vec<_> = group.latest.iter().map(|item| Item::new(item, &untitled, local)).collect();
        let shown: u64 = items.iter().map(|item| item.count).sum();
        let latest = items.first();
        let actors: Vec<_> = group.actors.iter().map(|actor| clean::text(actor, NAME_CHARS)).collect();
        let last_at = local.short(group.last_at);
        Self {
            entity_type,
            entity_id: clean::text(&group.entity_id, NAME_CHARS),
            entity: entity.filter(|entity| *entity != title),
            title,
            url: latest.and_then(|item| item.url.clone()),
            excerpt: latest.and_then(|item| item.excerpt.clone()),
            count: group.count,
            quantity: words::counted(phrases, &category, i128::from(group.count)),
            category,
            section: group.section.as_ref().map(|section| {
                let said = phrases.called("category", &section.category);
                said.map_or_else(|| clean::text(&section.title, NAME_CHARS), Cow::Owned)
            }),
            counts: Counts(&group.counts),
            sums: sums::sums(phrases, &group.counts),
            who: words::who(phrases, &actors, group.actor_count),
            actor: latest.map_or(Cow::Borrowed(""), |item| item.actor.clone()),
            actor_count: group.actor_count,
            actors,
            first_at: local.short(group.first_at),
            age: Age::new(group.first_at, local.now),
            when: match group.count {
                1 => last_at.clone(),
                _ => phrases.with("latest", [("time", last_at.as_str().into())]),
            },
            last_at,
            payload: latest.map_or_else(|| tera::Map::new().into(), |item| item.payload.clone()),
            more: group.count.saturating_sub(shown),
            items: items.iter().map(tera::Value::from_serializable).collect(),
        }
    }
}

/// Returns the name of an entity: `crates/cli` by itself, but `build 812`, because a number needs its type.
fn entity_name(group: &Group) -> Option<String> {
    let id = &group.entity_id;
    let name = match (group.entity_type.is_empty(), id.is_empty()) {
        (true, true) => return None,
        (false, true) => words::humanize(&group.entity_type),
        (false, false) if id.chars().all(|c| c.is_ascii_digit()) => {
            format!("{} {id}", words::humanize(&group.entity_type)).into()
        }
        (_, false) => id.into(),
    };
    Some(clean::text(&name, NAME_CHARS).into_owned()).filter(|name| !name.is_empty())
}
