//! Localized text: Project Fluent files, embedded and overridden like templates. Dates, times, numbers and
//! lists come from CLDR.
//!
//! Languages are matched by BCP 47 lookup (RFC 4647, 3.4). E.g. `de-AT` falls back to `de` for words, but
//! keeps Austrian date formats. Otherwise we pick a language with the same script: `zh-CN` gets `zh-Hans`.
//! Missing messages fall back to English. A tenant's own folder can override messages.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fluent_bundle::FluentResource;
use include_dir::{Dir, include_dir};
use tidings_model::foreign_text::decode_file;

mod formats;
mod language;
mod phrases;

use self::language::LanguageSet;
pub(crate) use self::language::{CatalogueFiles, CatalogueMap, LanguageCatalogue};
pub use self::phrases::{describe_cadence, describe_days};
use formats::CldrError;
pub(crate) use language::ENGLISH;
pub use phrases::Phrases;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates/words");
const FOLDER: &str = "words";

#[derive(Debug, thiserror::Error)]
pub enum WordsError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{0:?} is not a language tag (BCP 47); name the file for example \"de.ftl\"")]
    Language(String),
    #[error("{file}: {problem}; see the syntax guide of Project Fluent")]
    Syntax { file: String, problem: String },
    #[error(transparent)]
    Formats(#[from] CldrError),
}

pub struct LocalizedWords {
    general: LanguageSet,
    tenants: BTreeMap<String, TenantWords>,
}

struct TenantWords {
    own: CatalogueMap,
    languages: LanguageSet,
}

impl LocalizedWords {
    /// Reads the embedded languages, then the folder `words` in `templates`. Its messages override embedded
    /// ones, and a new file adds a language. A subfolder does the same for the tenant with its name.
    ///
    /// # Errors
    /// A file cannot be read, has invalid Fluent syntax, or is not named after a language.
    pub fn new(templates: Option<&Path>) -> Result<Self, WordsError> {
        let (mut general, mut own) = (CatalogueMap::new(), BTreeMap::new());
        for file in EMBEDDED.files() {
            let name = file.path().file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            add(&mut general, name, name, file.contents_utf8().unwrap_or_default().to_owned(), None)?;
        }
        if let Some(folder) = templates.map(|templates| templates.join(FOLDER)).filter(|folder| folder.is_dir()) {
            for tenant in add_folder(&mut general, &folder, "")? {
                let mut files = CatalogueMap::new();
                add_folder(&mut files, &folder.join(&tenant), &format!("{tenant}/"))?;
                own.insert(tenant, files);
            }
        }
        let tenants = own.into_iter().map(|(tenant, own)| {
            let languages = LanguageSet::new(merge_catalogues(&own, general.clone()));
            languages.map(|languages| (tenant, TenantWords { own, languages }))
        });
        let tenants = tenants.collect::<Result<_, CldrError>>()?;
        Ok(Self { general: LanguageSet::new(general)?, tenants })
    }

    /// Picks the first available language, or English.
    #[must_use]
    pub fn choose<'w>(&self, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        self.general.choose(wanted)
    }

    /// As [`choose`](Self::choose), with this tenant's overrides.
    #[must_use]
    pub fn choose_for<'w>(&self, tenant: &str, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        self.tenants.get(tenant).map_or(&self.general, |own| &own.languages).choose(wanted)
    }

    pub(crate) fn catalogues(&self) -> impl Iterator<Item = &LanguageCatalogue> {
        self.general.catalogues.values()
    }

    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&str, &CatalogueMap)> {
        self.tenants.iter().map(|(tenant, words)| (tenant.as_str(), &words.own))
    }
}

fn merge_catalogues(own: &CatalogueMap, mut general: CatalogueMap) -> CatalogueMap {
    for (name, catalogue) in own {
        general.entry(name.clone()).or_insert_with(|| LanguageCatalogue::new(catalogue.tag.clone())).extend(catalogue);
    }
    general
}

/// Adds all files in a folder, and returns its subfolders. `prefix` goes before file names in errors. Skips
/// names that are not UTF-8.
fn add_folder(catalogues: &mut CatalogueMap, folder: &Path, prefix: &str) -> Result<Vec<String>, WordsError> {
    let failed = |source| WordsError::Read { path: folder.to_owned(), source };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|end| end == "ftl") {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let text = fs::read(&path)
                .and_then(decode_file)
                .map_err(|source| WordsError::Read { path: path.clone(), source })?;
            add(catalogues, name, &format!("{prefix}{name}"), text, Some(&path))?;
        }
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'));
        folders.extend(name.filter(|_| path.is_dir()).map(str::to_owned));
    }
    Ok(folders)
}

/// Errors mention `file`. `path` is set for a team's own file.
fn add(
    catalogues: &mut CatalogueMap,
    name: &str,
    file: &str,
    text: String,
    path: Option<&Path>,
) -> Result<(), WordsError> {
    let tag = language::parse_language(name).ok_or_else(|| WordsError::Language(file.to_owned()))?;
    let resource = FluentResource::try_new(text).map_err(|(_, errors)| WordsError::Syntax {
        file: format!("{file}.ftl"),
        problem: errors.first().map(ToString::to_string).unwrap_or_default(),
    })?;
    let catalogue = catalogues.entry(name.to_ascii_lowercase()).or_insert_with(|| LanguageCatalogue::new(tag));
    catalogue.add(Arc::new(resource), path);
    Ok(())
}

#[cfg(test)]
mod tests;
