//! The words that recipients read, by language: files of Project Fluent, embedded and overridden as templates are. Dates, times,
//! numbers and lists are those of CLDR.
//!
//! A language is chosen by BCP 47 lookup (RFC 4647, 3.4): `de-AT` is `de` where there is no `de-AT`, and its dates are Austrian
//! all the same. A language without a file of its own is that of the same script: `zh-CN` is `zh-Hans`. What a language does not
//! say is said in English.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use elsa::sync::FrozenMap;
use fluent_bundle::FluentResource;
use include_dir::{Dir, include_dir};
use unic_langid::LanguageIdentifier;

mod cadence;
mod catalogue;
mod formats;
mod language;
mod phrases;

pub use cadence::cadence;
pub(crate) use catalogue::{Catalogue, Files};
use formats::Unreadable;
pub(crate) use language::ENGLISH;
use language::Language;
pub use phrases::Phrases;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates/words");
/// The folder of words, inside the folder of templates.
const FOLDER: &str = "words";
/// The most languages with a region that are kept ready. More regions than CLDR knows are mistakes in a directory.
const READY: usize = 500;

/// Words that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file is not named after a language.
    #[error("{0:?} is not a language tag (BCP 47); name the file for example \"de.ftl\"")]
    Language(String),
    /// A file breaks the syntax of Fluent.
    #[error("{file}: {problem}; see the syntax guide of Project Fluent")]
    Syntax { file: String, problem: String },
    /// The dates and numbers of a language cannot be made.
    #[error(transparent)]
    Formats(#[from] Unreadable),
}

/// The words of all languages.
pub struct Words {
    /// By tag in lower case.
    catalogues: BTreeMap<String, Catalogue>,
    /// The languages in use, by tag.
    ready: FrozenMap<String, Box<Language>>,
    english: Language,
}

impl Words {
    /// Reads the embedded languages, and those of the folder `words` in `templates`. A message of the folder overrides the embedded
    /// one, and a new file adds a language.
    ///
    /// # Errors
    /// A file cannot be read, breaks the syntax of Fluent, or is not named after a language.
    pub fn new(templates: Option<&Path>) -> Result<Self, Error> {
        let mut catalogues = BTreeMap::new();
        for file in EMBEDDED.files() {
            let name = file.path().file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            add(&mut catalogues, name, file.contents_utf8().unwrap_or_default().to_owned(), None)?;
        }
        if let Some(folder) = templates.map(|templates| templates.join(FOLDER)).filter(|folder| folder.is_dir()) {
            add_folder(&mut catalogues, &folder)?;
        }
        let english = language_of(&catalogues, ENGLISH, parsed(ENGLISH).unwrap_or_default())?;
        Ok(Self { catalogues, ready: FrozenMap::new(), english })
    }

    /// Returns the words of the first wanted language that there is, or English.
    #[must_use]
    pub fn choose<'w>(&self, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        let language = wanted.into_iter().find_map(|tag| self.language(tag)).unwrap_or(&self.english);
        Phrases { language, english: &self.english }
    }

    /// The languages that have a file, in order.
    pub(crate) fn catalogues(&self) -> impl Iterator<Item = &Catalogue> {
        self.catalogues.values()
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

fn add_folder(catalogues: &mut BTreeMap<String, Catalogue>, folder: &Path) -> Result<(), Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|end| end == "ftl") {
            let text = fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
            add(catalogues, name, text, Some(&path))?;
        }
    }
    Ok(())
}

/// Adds a file. `path` is that of a team's own file.
fn add(
    catalogues: &mut BTreeMap<String, Catalogue>,
    name: &str,
    text: String,
    path: Option<&Path>,
) -> Result<(), Error> {
    let tag = parsed(name).ok_or_else(|| Error::Language(name.to_owned()))?;
    let resource = FluentResource::try_new(text).map_err(|(_, errors)| Error::Syntax {
        file: format!("{name}.ftl"),
        problem: errors.first().map(ToString::to_string).unwrap_or_default(),
    })?;
    let catalogue = catalogues.entry(name.to_ascii_lowercase()).or_insert_with(|| Catalogue::new(tag));
    catalogue.add(Arc::new(resource), path);
    Ok(())
}

/// Makes a language of the file `name`, over those of its prefixes: `de-at` has what `de` says and it does not.
fn language_of(
    catalogues: &BTreeMap<String, Catalogue>,
    name: &str,
    tag: LanguageIdentifier,
) -> Result<Language, Unreadable> {
    let prefixes = name.match_indices('-').map(|(end, _)| &name[..end]).chain([name]);
    let resources = prefixes.filter_map(|prefix| catalogues.get(prefix)).flat_map(Catalogue::resources);
    Language::new(tag, resources)
}

fn parsed(tag: &str) -> Option<LanguageIdentifier> {
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

#[cfg(test)]
mod tests;
