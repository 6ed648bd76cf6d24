//! The categories of a digest type: their places in a message, and their events that are left out.

use std::{
    collections::{BTreeMap, HashMap},
    iter,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Event;

/// The categories of a digest type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categories {
    /// Those with a table of their own.
    pub named: BTreeMap<String, CategorySettings>,
    /// All others.
    pub others: CategorySettings,
}

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

impl Categories {
    /// No category has settings.
    pub const NONE: Self = Self {
        named: BTreeMap::new(),
        others: CategorySettings { section: None, priority: 0, min_count: None, max_age: None },
    };

    /// The settings of a category.
    #[must_use]
    pub fn get(&self, category: &str) -> &CategorySettings {
        self.named.get(category).unwrap_or(&self.others)
    }

    /// Reports that events of some category can be too old or too few.
    #[must_use]
    pub fn have_limits(&self) -> bool {
        let mut all = iter::once(&self.others).chain(self.named.values());
        all.any(|settings| settings.min_count.is_some() || settings.max_age.is_some())
    }

    /// Reports that some of the events may be too old or too few for their category. Urgent events never are.
    #[must_use]
    pub fn leave_out(&self, events: &[Event], now: Timestamp) -> bool {
        if !self.have_limits() {
            return false;
        }
        let mut counts: HashMap<&str, u32> = HashMap::new();
        for event in events {
            if self.get(&event.category).oldest(now).is_some_and(|oldest| event.occurred_at < oldest) {
                return true;
            }
            *counts.entry(&event.category).or_default() += 1;
        }
        counts.into_iter().any(|(category, count)| self.get(category).min_count.is_some_and(|least| count < least))
    }
}

/// Without settings for others.
impl<S: Into<String>> FromIterator<(S, CategorySettings)> for Categories {
    fn from_iter<I: IntoIterator<Item = (S, CategorySettings)>>(named: I) -> Self {
        let named = named.into_iter().map(|(category, settings)| (category.into(), settings)).collect();
        Self { named, ..Self::NONE }
    }
}
