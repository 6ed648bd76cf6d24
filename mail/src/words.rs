//! The words that recipients read, by language: files of Project Fluent, embedded and overridden as templates are.
//!
//! A language is chosen by BCP 47 lookup (RFC 4647, 3.4): `de-AT` is `de` where there is no `de-AT`. What a language does not
//! say is said in English.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use include_dir::{Dir, include_dir};
use unic_langid::LanguageIdentifier;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates/words");
/// The folder of words, inside the folder of templates.
const FOLDER: &str = "words";
/// The language that has every message.
const ENGLISH: &str = "en";

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
}

/// The words of all languages.
pub struct Words {
    /// By tag in lower case.
    languages: BTreeMap<String, Language>,
    english: Language,
}

struct Language {
    /// As HTML's `lang` has it.
    tag: String,
    bundle: FluentBundle<FluentResource>,
}

/// The words of one language.
#[derive(Clone, Copy)]
pub struct Phrases<'a> {
    language: &'a Language,
    english: &'a Language,
}

impl Words {
    /// Reads the embedded languages, and those of the folder `words` in `templates`. A message of the folder overrides the embedded
    /// one, and a new file adds a language.
    ///
    /// # Errors
    /// A file cannot be read, breaks the syntax of Fluent, or is not named after a language.
    pub fn new(templates: Option<&Path>) -> Result<Self, Error> {
        let tag =
            LanguageIdentifier::from_bytes(ENGLISH.as_bytes()).map_err(|_| Error::Language(ENGLISH.to_owned()))?;
        let mut words = Self { languages: BTreeMap::new(), english: Language::new(tag) };
        for file in EMBEDDED.files() {
            let name = file.path().file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            words.add(name, file.contents_utf8().unwrap_or_default().to_owned())?;
        }
        let Some(folder) = templates.map(|templates| templates.join(FOLDER)).filter(|folder| folder.is_dir()) else {
            return Ok(words);
        };
        let failed = |source| Error::Read { path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|end| end == "ftl") {
                let text = fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
                words.add(name, text)?;
            }
        }
        Ok(words)
    }

    fn add(&mut self, name: &str, text: String) -> Result<(), Error> {
        let tag: LanguageIdentifier = name.parse().map_err(|_| Error::Language(name.to_owned()))?;
        let resource = FluentResource::try_new(text).map_err(|(_, errors)| Error::Syntax {
            file: format!("{name}.ftl"),
            problem: errors.first().map(ToString::to_string).unwrap_or_default(),
        })?;
        let name = name.to_ascii_lowercase();
        let language = match name.as_str() {
            ENGLISH => &mut self.english,
            _ => self.languages.entry(name).or_insert_with(|| Language::new(tag)),
        };
        language.bundle.add_resource_overriding(resource);
        Ok(())
    }

    /// Returns the words of the first wanted language that there is, or English.
    #[must_use]
    pub fn choose<'w>(&self, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        let language = wanted.into_iter().find_map(|tag| self.look_up(tag)).unwrap_or(&self.english);
        Phrases { language, english: &self.english }
    }

    fn look_up(&self, tag: &str) -> Option<&Language> {
        let tag = tag.trim().replace('_', "-").to_ascii_lowercase();
        let mut range = tag.as_str();
        loop {
            if range == ENGLISH {
                return Some(&self.english);
            }
            if let Some(language) = self.languages.get(range) {
                return Some(language);
            }
            range = range.rsplit_once('-')?.0;
            // A single character introduces what follows, and means nothing alone.
            if let Some((shorter, "" | "x" | "u" | "t")) = range.rsplit_once('-') {
                range = shorter;
            }
        }
    }
}

impl Phrases<'_> {
    /// The language's tag.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.language.tag
    }

    /// Says a message without variables.
    #[must_use]
    pub fn say(&self, id: &str) -> String {
        self.with(id, [])
    }

    /// Says a message with its variables.
    #[must_use]
    pub fn with<'v, const N: usize>(&self, id: &str, variables: [(&'v str, FluentValue<'v>); N]) -> String {
        let arguments: FluentArgs<'_> = variables.into_iter().collect();
        let said = self.language.say(id, &arguments).or_else(|| self.english.say(id, &arguments));
        said.map_or_else(|| id.to_owned(), Cow::into_owned)
    }
}

impl Language {
    fn new(tag: LanguageIdentifier) -> Self {
        Self { tag: tag.to_string(), bundle: FluentBundle::new_concurrent(vec![tag]) }
    }

    fn say<'a>(&'a self, id: &str, arguments: &'a FluentArgs<'_>) -> Option<Cow<'a, str>> {
        let pattern = self.bundle.get_message(id)?.value()?;
        let mut errors = Vec::new();
        let said = self.bundle.format_pattern(pattern, Some(arguments), &mut errors);
        errors.is_empty().then_some(said)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn words() -> Words {
        Words::new(None).unwrap()
    }

    /// The messages of a file, each with its variables.
    fn messages(text: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut messages = BTreeMap::<_, BTreeSet<_>>::new();
        let mut message = String::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((id, _)) = line.split_once(" = ").filter(|_| line.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                id.clone_into(&mut message);
                messages.insert(message.clone(), BTreeSet::new());
            }
            for variable in line.split('$').skip(1) {
                let name = variable.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
                messages.get_mut(&message).unwrap().insert(name.to_owned());
            }
        }
        messages
    }

    #[test]
    fn every_language_has_the_messages_and_variables_of_english() {
        let text = |file: &str| EMBEDDED.get_file(file).and_then(|file| file.contents_utf8()).unwrap();
        let english = messages(text("en.ftl"));
        assert!(english.len() > 50);
        let files: Vec<_> = EMBEDDED.files().map(|file| file.path().to_str().unwrap()).collect();
        assert!(files.contains(&"de.ftl"), "{files:?}");
        for file in files {
            assert_eq!(messages(text(file)), english, "{file}");
        }
        let words = words();
        for (id, variables) in english {
            for language in words.languages.values().chain([&words.english]) {
                let arguments: FluentArgs<'_> = variables.iter().map(|name| (name.as_str(), 2)).collect();
                assert!(language.say(&id, &arguments).is_some(), "{}: {id}", language.tag);
            }
        }
    }

    #[test]
    fn a_language_is_chosen_from_the_most_to_the_least_exact_tag() {
        let words = words();
        for (wanted, tag) in [
            (vec!["de-AT"], "de"),
            (vec!["de_CH"], "de"),
            (vec!["DE-Latn-DE-x-private"], "de"),
            (vec!["", "de"], "de"),
            (vec!["fr", "de"], "de"),
            (vec!["en-GB", "de"], "en"),
            (vec!["fr"], "en"),
            (vec!["x"], "en"),
            (vec![], "en"),
        ] {
            assert_eq!(words.choose(wanted.iter().copied()).tag(), tag, "{wanted:?}");
        }
    }

    #[test]
    fn a_folder_adds_a_language_and_what_it_lacks_is_english() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(FOLDER).join(name), text).unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        file("he.ftl", "direction = rtl\n");
        file("de.ftl", "save = Sichern\n");
        let words = Words::new(Some(folder.path())).unwrap();
        let hebrew = words.choose(["he-IL"]);
        assert_eq!((hebrew.tag(), hebrew.say("direction"), hebrew.say("save")), ("he", "rtl".into(), "Save".into()));
        let german = words.choose(["de"]);
        assert_eq!((german.say("save"), german.say("on")), ("Sichern".into(), "Diese Zusammenfassung bekommen".into()));
        for (name, text, problem) in [("d e.ftl", "", "is not a language tag"), ("fr.ftl", "save = { $", "fr.ftl: ")] {
            file(name, text);
            let error = Words::new(Some(folder.path())).err().unwrap().to_string();
            assert!(error.contains(problem), "{error}");
            fs::remove_file(folder.path().join(FOLDER).join(name)).unwrap();
        }
    }
}
