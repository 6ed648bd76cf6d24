//! The languages of everybody or of one tenant.

use elsa::sync::FrozenMap;
use unic_langid::LanguageIdentifier;

use super::{
    catalogue::{Catalogue, Catalogues},
    formats::Unreadable,
    language::{ENGLISH, Language},
    phrases::Phrases,
};

/// The most languages with a region that are kept ready. More regions than CLDR knows are mistakes in a directory.
const READY: usize = 500;

/// Languages by the files that make them.
pub(super) struct Languages {
    pub catalogues: Catalogues,
    /// The languages in use, by tag.
    ready: FrozenMap<String, Box<Language>>,
    english: Language,
}

impl Languages {
    /// Makes English now, and other languages when they are wanted.
    ///
    /// # Errors
    /// CLDR's data of English cannot be read.
    pub fn new(catalogues: Catalogues) -> Result<Self, Unreadable> {
        let english = language_of(&catalogues, ENGLISH, parsed(ENGLISH).unwrap_or_default())?;
        Ok(Self { catalogues, ready: FrozenMap::new(), english })
    }

    /// Returns the words of the first wanted language that there is, or English.
    pub fn choose<'w>(&self, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        let language = wanted.into_iter().find_map(|tag| self.language(tag)).unwrap_or(&self.english);
        Phrases { language, english: &self.english }
    }

    fn language(&self, wanted: &str) -> Option<&Language> {
        if wanted == ENGLISH {
            return Some(&self.english);
        }
        if let Some(ready) = self.ready.get(wanted) {
            return Some(ready);
        }
        let wanted = understood(wanted)?;
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

    /// Finds the language with the longest prefix of the wanted tag, else one of the same language and script.
    fn look_up(&self, wanted: &LanguageIdentifier) -> Option<(&str, &Catalogue)> {
        let tag = wanted.to_string().to_ascii_lowercase();
        let prefixes = tag.match_indices('-').map(|(end, _)| &tag[..end]).chain([tag.as_str()]).collect::<Vec<_>>();
        let found = prefixes.into_iter().rev().find_map(|prefix| self.catalogues.get_key_value(prefix));
        let script = completed(wanted);
        let found = found.or_else(|| self.catalogues.iter().find(|(_, catalogue)| completed(&catalogue.tag) == script));
        found.map(|(name, catalogue)| (name.as_str(), catalogue))
    }
}

/// Makes a language of the file `name`, over those of its prefixes: `de-at` has what `de` says and it does not.
pub(super) fn language_of(
    catalogues: &Catalogues,
    name: &str,
    tag: LanguageIdentifier,
) -> Result<Language, Unreadable> {
    let prefixes = name.match_indices('-').map(|(end, _)| &name[..end]).chain([name]);
    let resources = prefixes.filter_map(|prefix| catalogues.get(prefix)).flat_map(Catalogue::resources);
    Language::new(tag, resources)
}

/// Reads a tag that names a language.
pub(super) fn parsed(tag: &str) -> Option<LanguageIdentifier> {
    tag.parse().ok().filter(|tag: &LanguageIdentifier| !tag.language.is_empty())
}

/// Reads the longest part of a tag that is a language, a script, a region and variants.
fn understood(tag: &str) -> Option<LanguageIdentifier> {
    let tag = tag.trim().replace('_', "-");
    let mut range = tag.as_str();
    loop {
        if let Some(understood) = parsed(range) {
            return Some(understood);
        }
        range = range.rsplit_once('-')?.0;
    }
}

/// Returns the language and its script, which is the likely one if the tag has none.
fn completed(tag: &LanguageIdentifier) -> (String, String) {
    let mut tag = tag.clone();
    tag.maximize();
    (tag.language.to_string(), tag.script.map(|script| script.to_string()).unwrap_or_default())
}
