//! Languages, either general or for one tenant.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use elsa::sync::FrozenMap;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement};
use intl_memoizer::concurrent::IntlLangMemoizer;
use unic_langid::{CharacterDirection, LanguageIdentifier};

use super::{
    formats::{CldrError, LocaleFormats, NumberFormat},
    phrases::Phrases,
};
use crate::bidi;

/// The fallback, because English has every message.
pub(crate) const ENGLISH: &str = "en";

/// Cache messages with a count below this. Most lines use one from a small set, e.g. "and 6 more".
const KEPT: u64 = 200;

pub(super) struct LanguageBundle {
    pub tag: String,
    pub right_to_left: bool,
    pub formats: LocaleFormats,
    bundle: FluentBundle<Arc<FluentResource>>,
    counted: FrozenMap<String, Box<FrozenMap<u64, Box<str>>>>,
}

impl LanguageBundle {
    /// Later resources override earlier ones.
    ///
    /// # Errors
    /// CLDR data cannot be read.
    pub fn new(
        tag: LanguageIdentifier,
        resources: impl Iterator<Item = Arc<FluentResource>>,
    ) -> Result<Self, CldrError> {
        let right_to_left = tag.character_direction() == CharacterDirection::RTL;
        let name = tag.to_string();
        let formats = LocaleFormats::new(&name)?;
        let mut bundle = FluentBundle::new_concurrent(vec![tag]);
        // In a left-to-right language, only right-to-left values need an isolate, which we add ourselves.
        bundle.set_use_isolating(right_to_left);
        bundle.set_formatter(Some(number));
        resources.for_each(|resource| bundle.add_resource_overriding(resource));
        Ok(Self { tag: name, right_to_left, formats, bundle, counted: FrozenMap::new() })
    }

    /// `None` if the message is missing here, or lacks a variable.
    pub fn format_message(&self, id: &str, arguments: &FluentArgs<'_>) -> Option<String> {
        let pattern = self.bundle.get_message(id)?.value()?;
        let mut errors = Vec::new();
        let said = self.bundle.format_pattern(pattern, Some(arguments), &mut errors).into_owned();
        errors.is_empty().then_some(said)
    }

    /// `None` if the message is missing here, or needs more variables.
    pub fn format_counted(&self, id: &str, count: i128) -> Option<Cow<'_, str>> {
        let small = u64::try_from(count).ok().filter(|count| *count < KEPT);
        if let Some(said) = small.and_then(|count| self.counted.get(id)?.get(&count)) {
            return Some(said.into());
        }
        let said = self.format_message(id, &[("count", count)].into_iter().collect())?;
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
    pub fn isolate_value<'v>(&self, value: FluentValue<'v>) -> FluentValue<'v> {
        match value {
            FluentValue::String(text)
                if !self.right_to_left
                    && !text.is_ascii()
                    && bidi::whole_isolate(&text).is_none()
                    && text.chars().any(bidi::runs_right_to_left) =>
            {
                bidi::isolate_text(&text).into()
            }
            value => value,
        }
    }
}

fn number(value: &FluentValue<'_>, memoizer: &IntlLangMemoizer) -> Option<String> {
    let FluentValue::Number(number) = value else { return None };
    let digits = number.as_string();
    memoizer.with_try_get::<NumberFormat, _, _>((), |numbers| numbers.written(&digits)).ok().flatten()
}

/// Maximum cached languages with a region. More regions than CLDR has must be mistakes in a directory.
const READY: usize = 500;

pub(super) struct LanguageSet {
    pub catalogues: CatalogueMap,
    ready: FrozenMap<String, Box<LanguageBundle>>,
    english: LanguageBundle,
}

impl LanguageSet {
    /// Loads English now, and other languages on first use.
    ///
    /// # Errors
    /// CLDR data for English cannot be read.
    pub fn new(catalogues: CatalogueMap) -> Result<Self, CldrError> {
        let english = language_of(&catalogues, ENGLISH, parse_language(ENGLISH).unwrap_or_default())?;
        Ok(Self { catalogues, ready: FrozenMap::new(), english })
    }

    pub fn choose<'w>(&self, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        let language = wanted.into_iter().find_map(|tag| self.language(tag)).unwrap_or(&self.english);
        Phrases { language, english: &self.english }
    }

    fn language(&self, wanted: &str) -> Option<&LanguageBundle> {
        if wanted == ENGLISH {
            return Some(&self.english);
        }
        if let Some(ready) = self.ready.get(wanted) {
            return Some(ready);
        }
        let wanted = parse_longest(wanted)?;
        let (name, catalogue) = self.look_up(&wanted)?;
        let own = &catalogue.tag;
        let region = own.region.or(wanted.region).filter(|_| self.ready.len() < READY).or(own.region);
        let mut tag = own.clone();
        tag.region = region;
        let key = tag.to_string();
        if key == ENGLISH {
            return Some(&self.english);
        }
        if let Some(ready) = self.ready.get(&key) {
            return Some(ready);
        }
        let language = language_of(&self.catalogues, name, tag).ok()?;
        Some(self.ready.insert(key, Box::new(language)))
    }

    /// The longest matching prefix of the tag, otherwise a language with the same script.
    fn look_up(&self, wanted: &LanguageIdentifier) -> Option<(&str, &LanguageCatalogue)> {
        let tag = wanted.to_string().to_ascii_lowercase();
        let prefixes = tag.match_indices('-').map(|(end, _)| &tag[..end]).chain([tag.as_str()]).collect::<Vec<_>>();
        let found = prefixes.into_iter().rev().find_map(|prefix| self.catalogues.get_key_value(prefix));
        let script = likely_script(wanted);
        let found =
            found.or_else(|| self.catalogues.iter().find(|(_, catalogue)| likely_script(&catalogue.tag) == script));
        found.map(|(name, catalogue)| (name.as_str(), catalogue))
    }
}

/// From file `name` and its prefixes. E.g. `de-at` overrides `de`.
pub(super) fn language_of(
    catalogues: &CatalogueMap,
    name: &str,
    tag: LanguageIdentifier,
) -> Result<LanguageBundle, CldrError> {
    let prefixes = name.match_indices('-').map(|(end, _)| &name[..end]).chain([name]);
    let resources = prefixes.filter_map(|prefix| catalogues.get(prefix)).flat_map(LanguageCatalogue::resources);
    LanguageBundle::new(tag, resources)
}

pub(super) fn parse_language(tag: &str) -> Option<LanguageIdentifier> {
    tag.parse().ok().filter(|tag: &LanguageIdentifier| !tag.language.is_empty())
}

/// The longest valid prefix: language, script, region and variants.
fn parse_longest(tag: &str) -> Option<LanguageIdentifier> {
    let tag = tag.trim().replace('_', "-");
    let mut range = tag.as_str();
    loop {
        if let Some(understood) = parse_language(range) {
            return Some(understood);
        }
        range = range.rsplit_once('-')?.0;
    }
}

fn likely_script(tag: &LanguageIdentifier) -> (String, String) {
    let mut tag = tag.clone();
    tag.maximize();
    (tag.language.to_string(), tag.script.map(|script| script.to_string()).unwrap_or_default())
}

/// Keys are tags in lower case.
pub(crate) type CatalogueMap = BTreeMap<String, LanguageCatalogue>;

#[derive(Clone)]
pub(crate) struct LanguageCatalogue {
    pub tag: LanguageIdentifier,
    files: Vec<(Arc<FluentResource>, Option<PathBuf>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogueFiles {
    All,
    Shipped,
    Own,
}

impl LanguageCatalogue {
    pub fn new(tag: LanguageIdentifier) -> Self {
        Self { tag, files: Vec::new() }
    }

    pub fn add(&mut self, resource: Arc<FluentResource>, path: Option<&Path>) {
        self.files.push((resource, path.map(Path::to_owned)));
    }

    pub fn extend(&mut self, other: &Self) {
        self.files.extend(other.files.iter().cloned());
    }

    pub fn resources(&self) -> impl Iterator<Item = Arc<FluentResource>> {
        self.files.iter().map(|(resource, _)| resource.clone())
    }

    pub fn messages(&self, of: CatalogueFiles) -> BTreeMap<&str, BTreeSet<&str>> {
        let wanted = |path: &Option<PathBuf>| match of {
            CatalogueFiles::All => true,
            CatalogueFiles::Shipped => path.is_none(),
            CatalogueFiles::Own => path.is_some(),
        };
        let files = self.files.iter().filter(|(_, path)| wanted(path));
        let entries = files.flat_map(|(resource, _)| resource.entries());
        let messages = entries.filter_map(|entry| match entry {
            Entry::Message(message) => Some((message.id.name, message.value.as_ref()?)),
            _ => None,
        });
        let with_variables = |(id, pattern)| {
            let mut variables = BTreeSet::new();
            of_pattern(pattern, &mut variables);
            (id, variables)
        };
        messages.map(with_variables).collect()
    }
}

fn of_pattern<'a>(pattern: &Pattern<&'a str>, found: &mut BTreeSet<&'a str>) {
    for element in &pattern.elements {
        if let PatternElement::Placeable { expression } = element {
            of_expression(expression, found);
        }
    }
}

fn of_expression<'a>(expression: &Expression<&'a str>, found: &mut BTreeSet<&'a str>) {
    match expression {
        Expression::Select { selector, variants } => {
            of_inline(selector, found);
            for variant in variants {
                of_pattern(&variant.value, found);
            }
        }
        Expression::Inline(inline) => of_inline(inline, found),
    }
}

fn of_inline<'a>(inline: &InlineExpression<&'a str>, found: &mut BTreeSet<&'a str>) {
    match inline {
        InlineExpression::VariableReference { id } => {
            found.insert(id.name);
        }
        InlineExpression::FunctionReference { arguments, .. }
        | InlineExpression::TermReference { arguments: Some(arguments), .. } => {
            let named = arguments.named.iter().map(|argument| &argument.value);
            arguments.positional.iter().chain(named).for_each(|argument| of_inline(argument, found));
        }
        InlineExpression::Placeable { expression } => of_expression(expression, found),
        _ => {}
    }
}
