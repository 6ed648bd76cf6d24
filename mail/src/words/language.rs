//! One language: its messages and its formats.

use std::{borrow::Cow, sync::Arc};

use elsa::sync::FrozenMap;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use intl_memoizer::concurrent::IntlLangMemoizer;
use unic_langid::{CharacterDirection, LanguageIdentifier};

use super::formats::{Formats, Numbers, Unreadable};
use crate::bidi;

/// The language that has every message.
pub(crate) const ENGLISH: &str = "en";

/// Messages with a smaller count are made once. Most lines of an email say one of a few: "and 6 more".
const KEPT: u64 = 200;

pub(super) struct Language {
    /// As HTML's `lang` has it.
    pub tag: String,
    pub right_to_left: bool,
    pub formats: Formats,
    bundle: FluentBundle<Arc<FluentResource>>,
    /// Messages that have been said with a count and no other variable, by id and count.
    counted: FrozenMap<String, Box<FrozenMap<u64, Box<str>>>>,
}

impl Language {
    /// Makes the language. Later resources override earlier ones.
    ///
    /// # Errors
    /// CLDR's data cannot be read.
    pub fn new(
        tag: LanguageIdentifier,
        resources: impl Iterator<Item = Arc<FluentResource>>,
    ) -> Result<Self, Unreadable> {
        let right_to_left = tag.character_direction() == CharacterDirection::RTL;
        let name = tag.to_string();
        let formats = Formats::new(&name)?;
        let mut bundle = FluentBundle::new_concurrent(vec![tag]);
        // Values of a left-to-right language need an isolate only if they run from right to left; `isolated` gives it to them.
        bundle.set_use_isolating(right_to_left);
        bundle.set_formatter(Some(number));
        resources.for_each(|resource| bundle.add_resource_overriding(resource));
        Ok(Self { tag: name, right_to_left, formats, bundle, counted: FrozenMap::new() })
    }

    /// Says a message. `None`: the language lacks it, or one of its variables is missing.
    pub fn say(&self, id: &str, arguments: &FluentArgs<'_>) -> Option<String> {
        let pattern = self.bundle.get_message(id)?.value()?;
        let mut errors = Vec::new();
        let said = self.bundle.format_pattern(pattern, Some(arguments), &mut errors).into_owned();
        errors.is_empty().then_some(said)
    }

    /// Says a message that needs only a count. `None`: the language lacks it, or it needs more.
    pub fn counted(&self, id: &str, count: i128) -> Option<Cow<'_, str>> {
        let small = u64::try_from(count).ok().filter(|count| *count < KEPT);
        if let Some(said) = small.and_then(|count| self.counted.get(id)?.get(&count)) {
            return Some(said.into());
        }
        let said = self.say(id, &[("count", count)].into_iter().collect())?;
        Some(match small {
            Some(count) => {
                let of_id = self.counted.get(id);
                let of_id = of_id.unwrap_or_else(|| self.counted.insert(id.to_owned(), Box::default()));
                of_id.insert(count, said.into()).into()
            }
            None => said.into(),
        })
    }

    pub fn has(&self, id: &str) -> bool {
        self.bundle.has_message(id)
    }

    /// Isolates a value that would reorder the text around it.
    pub fn isolated<'v>(&self, value: FluentValue<'v>) -> FluentValue<'v> {
        match value {
            FluentValue::String(text)
                if !self.right_to_left
                    && !text.is_ascii()
                    && bidi::whole_isolate(&text).is_none()
                    && text.chars().any(bidi::runs_right_to_left) =>
            {
                bidi::isolated(&text).into()
            }
            value => value,
        }
    }
}

/// Writes the numbers of messages as the language does.
fn number(value: &FluentValue<'_>, memoizer: &IntlLangMemoizer) -> Option<String> {
    let FluentValue::Number(number) = value else { return None };
    let digits = number.as_string();
    memoizer.with_try_get::<Numbers, _, _>((), |numbers| numbers.written(&digits)).ok().flatten()
}
