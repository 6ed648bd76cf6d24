//! The sentences of one language.

use std::borrow::Cow;

use fluent_bundle::{FluentArgs, FluentValue};
use jiff::civil;

use super::language::{ENGLISH, Language};

/// The words of one language. What it lacks is said in English.
#[derive(Clone, Copy)]
pub struct Phrases<'a> {
    pub(super) language: &'a Language,
    pub(super) english: &'a Language,
}

impl<'a> Phrases<'a> {
    /// The language's tag, with the region of the reader.
    #[must_use]
    pub fn tag(&self) -> &'a str {
        &self.language.tag
    }

    /// The value of HTML's `dir`.
    #[must_use]
    pub const fn direction(&self) -> &'static str {
        if self.language.right_to_left { "rtl" } else { "ltr" }
    }

    /// Reports if the language is English, of whatever region.
    #[must_use]
    pub(crate) fn is_english(&self) -> bool {
        self.tag().split('-').next() == Some(ENGLISH)
    }

    /// Says a message without variables.
    #[must_use]
    pub fn say(&self, id: &str) -> String {
        self.with(id, [])
    }

    /// Says a message with its variables.
    #[must_use]
    pub fn with<'v, const N: usize>(&self, id: &str, variables: [(&'v str, FluentValue<'v>); N]) -> String {
        self.find(id, variables).unwrap_or_else(|| id.to_owned())
    }

    /// Says a message with its variables. `None`: there is no such message, or it needs other variables.
    pub(crate) fn find<'v>(
        &self,
        id: &str,
        variables: impl IntoIterator<Item = (&'v str, FluentValue<'v>)>,
    ) -> Option<String> {
        let variables = variables.into_iter().map(|(name, value)| (name, self.language.isolated(value)));
        let arguments: FluentArgs<'_> = variables.collect();
        self.language.say(id, &arguments).or_else(|| self.english.say(id, &arguments))
    }

    /// Says what a team calls one of its own names, as in the message `category_change`. `None`: there is no such message.
    #[must_use]
    pub fn called(&self, kind: &str, name: &str) -> Option<String> {
        self.find(&format!("{kind}_{}", name.replace(' ', "_")), [])
    }

    /// Says the name of a digest type: the message `digest_NAME`, or else its title, or else the type's own name.
    #[must_use]
    pub fn digest_name(&self, digest_type: &str, title: Option<&str>) -> String {
        let own = self.called("digest", digest_type);
        own.unwrap_or_else(|| title.map_or_else(|| digest_type.replace('_', " "), str::to_owned))
    }

    /// Says a message of this language that needs only a count. `None`: the language lacks it.
    pub(crate) fn own(&self, id: &str, count: i128) -> Option<String> {
        self.language.counted(id, count).map(Cow::into_owned)
    }

    /// Says a message that needs only a count, in English if this language lacks it.
    pub(crate) fn counted(&self, id: &str, count: i128) -> Option<String> {
        self.own(id, count).or_else(|| self.english.counted(id, count).map(Cow::into_owned))
    }

    /// Reports if there is a message.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.language.has(id) || self.english.has(id)
    }

    /// Writes a whole number.
    #[must_use]
    pub fn number(&self, number: i128) -> String {
        self.language.formats.number(&number.to_string())
    }

    /// Writes a number that may have a fraction, given in ASCII digits.
    #[must_use]
    pub fn decimal(&self, digits: &str) -> String {
        self.language.formats.number(digits)
    }

    /// Joins words to a list without a word between them, where the language has one.
    #[must_use]
    pub fn short_list(&self, items: &[&str]) -> String {
        self.language.formats.short_list(items)
    }

    /// Joins words to a list: `Ann and Ben`.
    #[must_use]
    pub fn list(&self, items: &[&str]) -> String {
        self.language.formats.list(items)
    }

    /// Writes a time of the day.
    #[must_use]
    pub fn time(&self, at: civil::Time) -> String {
        self.language.formats.time(at)
    }

    /// Writes a day and its day of the week, with the year if that is not `this_year`.
    #[must_use]
    pub fn day(&self, at: civil::Date, this_year: i16) -> String {
        self.language.formats.day(at, at.year() != this_year)
    }

    /// Writes a day with its day of the week, and a time, with the year if that is not `this_year`.
    #[must_use]
    pub fn day_time(&self, at: civil::DateTime, this_year: i16) -> String {
        self.language.formats.day_time(at, at.year() != this_year)
    }

    /// Writes a day and a time, with the year if that is not `this_year`.
    #[must_use]
    pub fn short(&self, at: civil::DateTime, this_year: i16) -> String {
        self.language.formats.short(at, at.year() != this_year)
    }

    /// Writes a zone by its city, or by its IANA name if it has none.
    #[must_use]
    pub fn zone(&self, name: &str) -> String {
        self.language.formats.city(name).unwrap_or_else(|| name.to_owned())
    }

    /// Writes a day of the week.
    #[must_use]
    pub fn weekday(&self, day: civil::Weekday) -> String {
        self.language.formats.weekday(day)
    }
}
