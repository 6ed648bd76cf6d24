//! Digest types, as `tidings.toml` would say them.

use std::collections::BTreeMap;

use serde::Serialize;
use tidings_model::{
    settings::{CategorySettings, Counted, DigestSettings},
    words,
};

use super::seen;

pub(super) type DigestsView<'a> = BTreeMap<&'a str, DigestView<'a>>;

#[derive(Serialize)]
pub(super) struct DigestView<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    was: Vec<&'a str>,
    cadence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_now: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linger: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    adapt: bool,
    zone: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    weekdays: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quiet: Vec<String>,
    template: &'a str,
    max_items: u32,
    max_lines: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_events: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    track: Vec<&'static str>,
    #[serde(flatten)]
    seen: Option<seen::SeenView<'a>>,
    choices: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    delay: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    categories: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    category: BTreeMap<&'a str, CategoryView<'a>>,
}

/// A category with the heading of its section.
#[derive(Serialize)]
struct CategoryView<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    was: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    priority: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<String>,
}

/// The digest types, of which `former` are the names that they had before: today's by former one.
pub(super) fn digest_views<'a>(
    digests: &'a BTreeMap<String, DigestSettings>,
    former: &'a BTreeMap<String, String>,
) -> DigestsView<'a> {
    let view = |(name, digest): (&'a String, &'a DigestSettings)| {
        (name.as_str(), DigestView { was: was(former, name), ..digest.into() })
    };
    digests.iter().map(view).collect()
}

/// The names that `today` had before.
pub(super) fn was<'a>(former: &'a BTreeMap<String, String>, today: &str) -> Vec<&'a str> {
    former.iter().filter(|(_, name)| *name == today).map(|(former, _)| former.as_str()).collect()
}

impl<'a> CategoryView<'a> {
    fn new(
        CategorySettings { section, priority, min_count, max_age }: &'a CategorySettings,
        was: Vec<&'a str>,
    ) -> Self {
        let max_age = max_age.map(words::written);
        let title = section.as_ref().map(|section| &*section.title);
        Self { was, title, priority: *priority, min_count: *min_count, max_age }
    }
}

impl<'a> From<&'a DigestSettings> for DigestView<'a> {
    fn from(digest: &'a DigestSettings) -> Self {
        let former = &digest.former_categories;
        let is_todays = |name: &String| !former.contains_key(name);
        let delay = digest.delay.iter().filter(|(name, _)| is_todays(name));
        let categories = digest.category.named.iter().filter(|(name, _)| is_todays(name));
        Self {
            was: Vec::new(),
            cadence: digest.cadence.to_string(),
            first_now: digest.first_now.map(words::written),
            throttle: digest.throttle.map(words::written),
            throttled: digest.throttle.map(|_| digest.throttled.name()),
            linger: digest.linger.map(words::written),
            undo: digest.undo.map(words::written),
            adapt: digest.adapt,
            zone: digest.zone.as_deref().unwrap_or("UTC"),
            weekdays: digest.weekdays.map(|days| days.to_string()),
            spread: digest.spread.map(words::written),
            quiet: digest.quiet.times().iter().map(ToString::to_string).collect(),
            template: &digest.template,
            max_items: digest.max_items,
            max_lines: digest.max_lines,
            max_events: digest.max_events,
            min_count: digest.category.others.min_count,
            max_age: digest.category.others.max_age.map(words::written),
            more_url: digest.more_url.as_deref(),
            title: digest.title.as_deref(),
            description: digest.description.as_deref(),
            track: digest.track.counted().map(Counted::name).collect(),
            seen: digest.seen.as_ref().map(seen::SeenView::new),
            choices: digest.choices.entries().iter().map(ToString::to_string).collect(),
            delay: delay.map(|(category, wait)| (category.as_str(), words::written(*wait))).collect(),
            categories: digest.categories.iter().map(|(category, title)| (category.as_str(), title.as_str())).collect(),
            category: categories
                .map(|(name, settings)| (name.as_str(), CategoryView::new(settings, was(former, name))))
                .collect(),
        }
    }
}
