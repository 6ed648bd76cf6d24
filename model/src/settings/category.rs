//! A category of a digest type with settings of its own.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Event;

/// The place of a category's lines in a message, and those of its events that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategorySettings {
    /// The heading above the lines; `None`: they stand below no heading, or below that of all others.
    pub section: Option<Section>,
    /// Lines of a higher priority come first.
    pub priority: u32,
    /// Fewer events of the category are left out of the digest.
    pub min_count: Option<u32>,
    /// Events that are older when the window becomes a digest are left out.
    pub max_age: Option<Duration>,
}

/// The heading above the lines of some categories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The category that has the heading. The words of a language may say it in the place of `title`.
    pub category: String,
    pub title: String,
}

impl Section {
    /// The section with the heading `title`, which is that of `category`.
    #[must_use]
    pub fn new(category: &str, title: &str) -> Self {
        Self { category: category.to_owned(), title: title.to_owned() }
    }
}

impl CategorySettings {
    /// The time before which events are too old. `None`: no event is.
    #[must_use]
    pub fn oldest(&self, now: Timestamp) -> Option<Timestamp> {
        let age = SignedDuration::try_from(self.max_age?).unwrap_or(SignedDuration::MAX);
        Some(now.saturating_sub(age).unwrap_or(Timestamp::MIN))
    }
}

/// Reports that some of the events may be too old or too few for their category. Urgent events never are.
#[must_use]
pub fn leaves_out(categories: &BTreeMap<String, CategorySettings>, events: &[Event], now: Timestamp) -> bool {
    categories.iter().any(|(category, settings)| {
        let of_category = || events.iter().filter(|event| event.category == *category);
        let too_few = settings.min_count.is_some_and(|least| (1..least as usize).contains(&of_category().count()));
        let oldest = settings.oldest(now);
        too_few || of_category().any(|event| oldest.is_some_and(|oldest| event.occurred_at < oldest))
    })
}
