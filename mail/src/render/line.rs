//! One line of a message, as templates receive it: a group of events as text.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tidings_model::records::Group;

use super::{
    clean::{self, NAME_CHARS},
    local::Local,
    sums::{self, Counts, Sum},
    words,
};

/// Limit of a title in characters.
const TITLE_CHARS: usize = 200;
/// Limit of an excerpt in characters.
const EXCERPT_CHARS: usize = 300;

/// One line of a message: a group of events.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub category: Cow<'a, str>,
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
    /// `latest Feb 3, 2:20 PM`; the time alone if the group has one event.
    pub when: String,
    /// The clean payload of the latest event, a map.
    pub payload: tera::Value,
}

impl<'a> Line<'a> {
    pub(super) fn new(group: &'a Group, local: Local<'_>) -> Self {
        let phrases = local.phrases;
        let payload = tera::Value::from_serializable(&clean::Payload(&group.payload));
        let string =
            |name: &str| group.payload.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let named = entity_name(group);
        let title = string("title").map(|title| clean::text(title, TITLE_CHARS));
        let category = clean::text(&group.category, NAME_CHARS);
        let entity_type = clean::text(&group.entity_type, NAME_CHARS);
        let (title, entity) = match (title, named) {
            (Some(title), named) => (title, named),
            (None, Some(named)) => {
                (named.into(), Some(words::humanize(&entity_type).into_owned()).filter(|name| !name.is_empty()))
            }
            (None, None) => (words::humanize(&category).into_owned().into(), None),
        };
        let actors: Vec<_> = group.actors.iter().map(|actor| clean::text(actor, NAME_CHARS)).collect();
        let last_at = local.short(group.last_at);
        Self {
            entity_type,
            entity_id: clean::text(&group.entity_id, NAME_CHARS),
            entity: entity.filter(|entity| *entity != title),
            title,
            url: payload.get_from_path("url").and_then(tera::Value::as_str).map(str::to_owned),
            excerpt: string("excerpt").map(|excerpt| clean::text(excerpt, EXCERPT_CHARS)),
            count: group.count,
            quantity: words::counted(phrases, &category, i128::from(group.count)),
            category,
            counts: Counts(&group.counts),
            sums: sums::sums(phrases, &group.counts),
            who: words::who(phrases, &actors, group.actor_count),
            actor: clean::text(&group.actor, NAME_CHARS),
            actor_count: group.actor_count,
            actors,
            first_at: local.short(group.first_at),
            when: match group.count {
                1 => last_at.clone(),
                _ => phrases.with("latest", [("time", last_at.as_str().into())]),
            },
            last_at,
            payload,
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
