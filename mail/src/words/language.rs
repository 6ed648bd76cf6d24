//! One language: its messages and its formats.

use std::sync::Arc;

use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use intl_memoizer::concurrent::IntlLangMemoizer;
use unic_langid::{CharacterDirection, LanguageIdentifier};

use super::formats::{Formats, Numbers, Unreadable};
use crate::bidi;

/// The language that has every message.
pub(crate) const ENGLISH: &str = "en";

pub(super) struct Language {
    /// As HTML's `lang` has it.
    pub tag: String,
    pub right_to_left: bool,
    pub formats: Formats,
    bundle: FluentBundle<Arc<FluentResource>>,
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
        Ok(Self { tag: name, right_to_left, formats, bundle })
    }

    /// Says a message. `None`: the language lacks it, or one of its variables is missing.
    pub fn say(&self, id: &str, arguments: &FluentArgs<'_>) -> Option<String> {
        let pattern = self.bundle.get_message(id)?.value()?;
        let mut errors = Vec::new();
        let said = self.bundle.format_pattern(pattern, Some(arguments), &mut errors).into_owned();
        errors.is_empty().then_some(said)
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
