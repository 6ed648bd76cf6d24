//! One item of a line, as templates receive it: an event, or several of which a reader reads the same.

use std::borrow::Cow;

use serde::Serialize;
use tidings_model::records;

use super::{
    clean::{self, NAME_CHARS},
    local::Local,
};

/// Limit of a title in characters.
const TITLE_CHARS: usize = 200;
/// Limit of an excerpt in characters.
const EXCERPT_CHARS: usize = 300;

/// One item of a line.
#[derive(Serialize)]
pub(super) struct Item<'a> {
    /// The payload's title, or else the name of the entity, or else the category.
    pub title: Cow<'a, str>,
    pub url: Option<String>,
    pub excerpt: Option<Cow<'a, str>>,
    /// May be empty.
    pub actor: Cow<'a, str>,
    /// Events that the item stands for.
    pub count: u64,
    /// `Feb 3, 2:20 PM`.
    pub at: String,
    /// The clean payload of the latest event, a map.
    pub payload: tera::Value,
}

impl<'a> Item<'a> {
    pub(super) fn new(item: &'a records::Item, untitled: &Cow<'a, str>, local: Local<'_>) -> Self {
        let payload = tera::Value::from_serializable(&clean::Payload(&item.payload));
        Self {
            title: self::title(item).unwrap_or_else(|| untitled.clone()),
            url: payload.get_from_path("url").and_then(tera::Value::as_str).map(str::to_owned),
            excerpt: string(item, "excerpt").map(|excerpt| clean::text(excerpt, EXCERPT_CHARS)),
            actor: clean::text(&item.actor, NAME_CHARS),
            count: item.count,
            at: local.short(item.at),
            payload,
        }
    }
}

/// The clean title of the item's payload.
pub(super) fn title(item: &records::Item) -> Option<Cow<'_, str>> {
    string(item, "title").map(|title| clean::text(title, TITLE_CHARS))
}

fn string<'a>(item: &'a records::Item, name: &str) -> Option<&'a str> {
    item.payload.get(name)?.as_str().filter(|text| !text.trim().is_empty())
}
