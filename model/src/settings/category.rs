//! Settings by category: order, headings, and which events to leave out.

use std::{
    collections::{BTreeMap, HashMap},
    iter,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Event;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestCategories {
    pub named: BTreeMap<String, CategorySettings>,
    pub others: CategorySettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategorySettings {
    /// `None` for no heading, or the one for all other categories.
    pub section: Option<SectionHeading>,
    pub priority: u32,
    pub min_count: Option<u32>,
    pub max_age: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionHeading {
    /// Defines the heading. A translation may replace its `title`.
    pub category: String,
    pub title: String,
}

impl SectionHeading {
    #[must_use]
    pub fn new(category: &str, title: &str) -> Self {
        Self { category: category.to_owned(), title: title.to_owned() }
    }
}

impl CategorySettings {
    #[must_use]
    pub fn oldest(&self, now: Timestamp) -> Option<Timestamp> {
        let age = SignedDuration::try_from(self.max_age?).unwrap_or(SignedDuration::MAX);
        Some(now.saturating_sub(age).unwrap_or(Timestamp::MIN))
    }
}

impl DigestCategories {
    pub const NONE: Self = Self {
        named: BTreeMap::new(),
        others: CategorySettings { section: None, priority: 0, min_count: None, max_age: None },
    };

    #[must_use]
    pub fn get(&self, category: &str) -> &CategorySettings {
        self.named.get(category).unwrap_or(&self.others)
    }

    #[must_use]
    pub fn have_limits(&self) -> bool {
        let mut all = iter::once(&self.others).chain(self.named.values());
        all.any(|settings| settings.min_count.is_some() || settings.max_age.is_some())
    }

    /// Returns `true` if any events may be too old, or too few for their category. The store never leaves out
    /// urgent events.
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

impl<S: Into<String>> FromIterator<(S, CategorySettings)> for DigestCategories {
    fn from_iter<I: IntoIterator<Item = (S, CategorySettings)>>(named: I) -> Self {
        let named = named.into_iter().map(|(category, settings)| (category.into(), settings)).collect();
        Self { named, ..Self::NONE }
    }
}
