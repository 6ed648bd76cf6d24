//! The words that recipients read, by language: files of Project Fluent, embedded and overridden as templates are. Dates, times,
//! numbers and lists are those of CLDR.
//!
//! A language is chosen by BCP 47 lookup (RFC 4647, 3.4): `de-AT` is `de` where there is no `de-AT`, and its dates are Austrian
//! all the same. A language without a file of its own is that of the same script: `zh-CN` is `zh-Hans`. What a language does not
//! say is said in English. A tenant with a folder of its own says its messages instead of everybody's.

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

use self::language::Languages;
pub(crate) use self::language::{Catalogue, Catalogues, Files};
pub use self::phrases::{cadence, days};
use formats::Unreadable;
pub(crate) use language::ENGLISH;
pub use phrases::Phrases;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates/words");
/// The folder of words, inside the folder of templates.
const FOLDER: &str = "words";

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

/// The words of all languages, of everybody and of tenants.
pub struct Words {
    general: Languages,
    tenants: BTreeMap<String, TenantWords>,
}

/// The words of a tenant with a folder of its own.
struct TenantWords {
    /// The tenant's files.
    own: Catalogues,
    /// Everybody's languages with the tenant's files over them.
    languages: Languages,
}

impl Words {
    /// Reads the embedded languages, and those of the folder `words` in `templates`. A message of the folder overrides the embedded
    /// one, and a new file adds a language. A folder in it does the same for the tenant of its name.
    ///
    /// # Errors
    /// A file cannot be read, breaks the syntax of Fluent, or is not named after a language.
    pub fn new(templates: Option<&Path>) -> Result<Self, Error> {
        let (mut general, mut own) = (Catalogues::new(), BTreeMap::new());
        for file in EMBEDDED.files() {
            let name = file.path().file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            add(&mut general, name, name, file.contents_utf8().unwrap_or_default().to_owned(), None)?;
        }
        if let Some(folder) = templates.map(|templates| templates.join(FOLDER)).filter(|folder| folder.is_dir()) {
            for tenant in add_folder(&mut general, &folder, "")? {
                let mut files = Catalogues::new();
                add_folder(&mut files, &folder.join(&tenant), &format!("{tenant}/"))?;
                own.insert(tenant, files);
            }
        }
        let tenants = own.into_iter().map(|(tenant, own)| {
            let languages = Languages::new(over(&own, general.clone()));
            languages.map(|languages| (tenant, TenantWords { own, languages }))
        });
        let tenants = tenants.collect::<Result<_, Unreadable>>()?;
        Ok(Self { general: Languages::new(general)?, tenants })
    }

    /// Returns everybody's words of the first wanted language that there is, or English.
    #[must_use]
    pub fn choose<'w>(&self, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        self.general.choose(wanted)
    }

    /// Returns a tenant's words of the first wanted language that there is, or English.
    #[must_use]
    pub fn choose_for<'w>(&self, tenant: &str, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        self.tenants.get(tenant).map_or(&self.general, |own| &own.languages).choose(wanted)
    }

    /// Everybody's languages that have a file, in order.
    pub(crate) fn catalogues(&self) -> impl Iterator<Item = &Catalogue> {
        self.general.catalogues.values()
    }

    /// The tenants with words of their own, each with its files.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&str, &Catalogues)> {
        self.tenants.iter().map(|(tenant, words)| (tenant.as_str(), &words.own))
    }
}

/// Puts a tenant's files behind everybody's, so that they override them.
fn over(own: &Catalogues, mut general: Catalogues) -> Catalogues {
    for (name, catalogue) in own {
        general.entry(name.clone()).or_insert_with(|| Catalogue::new(catalogue.tag.clone())).extend(catalogue);
    }
    general
}

/// Adds the files of a folder, and returns the names of its folders. `prefix` stands before the names of files in errors. A name that is not
/// UTF-8 is left out.
fn add_folder(catalogues: &mut Catalogues, folder: &Path, prefix: &str) -> Result<Vec<String>, Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|end| end == "ftl") {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let text =
                fs::read(&path).and_then(decode_file).map_err(|source| Error::Read { path: path.clone(), source })?;
            add(catalogues, name, &format!("{prefix}{name}"), text, Some(&path))?;
        }
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'));
        folders.extend(name.filter(|_| path.is_dir()).map(str::to_owned));
    }
    Ok(folders)
}

/// Adds the file of the language `name`, which errors call `file`. `path` is that of a team's own file.
fn add(catalogues: &mut Catalogues, name: &str, file: &str, text: String, path: Option<&Path>) -> Result<(), Error> {
    let tag = language::parsed(name).ok_or_else(|| Error::Language(file.to_owned()))?;
    let resource = FluentResource::try_new(text).map_err(|(_, errors)| Error::Syntax {
        file: format!("{file}.ftl"),
        problem: errors.first().map(ToString::to_string).unwrap_or_default(),
    })?;
    let catalogue = catalogues.entry(name.to_ascii_lowercase()).or_insert_with(|| Catalogue::new(tag));
    catalogue.add(Arc::new(resource), path);
    Ok(())
}

#[cfg(test)]
mod tests;
