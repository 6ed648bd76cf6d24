//! Template sources: embedded files, and a folder that overrides or extends them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use include_dir::{Dir, include_dir};
use tidings_model::{
    changed_names::{CHANGED_NAMES, NamePlace},
    foreign_text::decode_file,
};

use super::{inline, meter::insert_calls, support};
use crate::words;

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("words: {0}")]
    Words(#[from] words::WordsError),
    #[error("{file} is missing: a digest type needs subject.txt, body.html and body.txt")]
    Missing { file: String },
    /// The template is invalid, or failed on a value.
    #[error("{place}: {problem}")]
    Template {
        /// With line, if known.
        place: String,
        problem: String,
    },
    #[error("unknown template {name:?}; available: {}", names.join(", "))]
    Unknown { name: String, names: Vec<String> },
}

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates");

/// A digest type needs all three.
pub(super) const PARTS: [&str; 3] = ["subject.txt", "body.html", "body.txt"];
pub(super) const SAMPLE: &str = "sample.json";

/// Finds the first variable with a former name.
fn former_variable(text: &str) -> Option<(usize, String)> {
    let variables = CHANGED_NAMES.iter().filter(|(place, ..)| *place == NamePlace::Variable);
    let found = variables.filter_map(|(_, former, current)| {
        let ends = |at: &usize| !text[at + former.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let at = text.match_indices(former).map(|(at, _)| at).find(ends)?;
        Some((at, format!("{former} is called {current} now")))
    });
    found.min_by_key(|(at, _)| *at)
}

pub(super) struct TemplateSource {
    pub text: String,
    pub path: PathBuf,
    /// From the team's folder.
    own: bool,
    prepared: Option<String>,
}

impl TemplateSource {
    fn new(text: String, path: PathBuf, own: bool) -> Self {
        Self { text, path, own, prepared: None }
    }

    /// Lines match those in the file.
    pub fn source_text(&self) -> &str {
        self.prepared.as_deref().unwrap_or(&self.text)
    }
}

/// Files by name, e.g. `layout.html` or `activity/body.html`.
pub(super) struct TemplateSources(BTreeMap<String, TemplateSource>);

impl TemplateSources {
    /// Also reads `.html`, `.txt` and `.json` files in `folder` and its subfolders.
    pub fn from_folder(folder: Option<&Path>) -> Result<Self, TemplateError> {
        let mut sources = Self(BTreeMap::new());
        sources.embed(&EMBEDDED);
        if let Some(folder) = folder {
            sources.add_folder(folder, "").map_err(|(path, source)| TemplateError::Read { path, source })?;
        }
        if let Some(file) = sources.missing_part() {
            return Err(TemplateError::Missing { file });
        }
        sources.prepare_own()?;
        Ok(sources)
    }

    pub fn names(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|name| Some(name.split_once('/')?.0)).collect()
    }

    /// Returns `true` if the digest type has templates, i.e. all of [`PARTS`].
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(&format!("{name}/{}", PARTS[0]))
    }

    pub fn templates(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter(|(name, _)| !name.ends_with(SAMPLE))
            .map(|(name, source)| (name.as_str(), source.source_text()))
    }

    /// Style and feature warnings for the team's own files, with path and line.
    pub fn style_warnings(&self, weak: &inline::OverriddenRules) -> Vec<(String, String)> {
        let own = self.0.iter().filter(|(name, source)| source.own && is_html(name));
        own.flat_map(|(_, TemplateSource { text, path, .. })| {
            let mut remarks: Vec<_> =
                support::unsupported(text).into_iter().chain(inline::style_warnings(text, weak)).collect();
            remarks.sort_by_key(|remark| remark.at);
            remarks.into_iter().map(move |remark| {
                let line = 1 + text[..remark.at].matches('\n').count();
                (format!("{}:{line}", path.display()), remark.text)
            })
        })
        .collect()
    }

    pub fn get(&self, name: &str) -> Option<&TemplateSource> {
        self.0.get(name)
    }

    fn embed(&mut self, folder: &Dir<'_>) {
        for file in folder.files().filter(|file| is_read(file.path())) {
            if let (Some(name), Some(text)) = (file.path().to_str(), file.contents_utf8()) {
                let source = TemplateSource::new(text.to_owned(), Path::new("embedded").join(name), false);
                self.0.insert(name.replace('\\', "/"), source);
            }
        }
        folder.dirs().for_each(|inner| self.embed(inner));
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), (PathBuf, io::Error)> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        for entry in fs::read_dir(folder).map_err(failed(folder))? {
            let path = entry.map_err(failed(folder))?.path();
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.is_dir() && prefix.is_empty() && !file.starts_with('.') {
                self.add_folder(&path, &format!("{file}/"))?;
            } else if is_read(&path) {
                let text = fs::read(&path).and_then(decode_file).map_err(failed(&path))?;
                self.0.insert(format!("{prefix}{file}"), TemplateSource::new(text, path.clone(), true));
            }
        }
        Ok(())
    }

    fn prepare_own(&mut self) -> Result<(), TemplateError> {
        let own = self.0.iter_mut().filter(|(name, source)| source.own && !name.ends_with(SAMPLE));
        for (name, source) in own {
            if is_html(name) {
                source.prepared = inline::mark_styles(&source.text);
            }
            let error_at = |text: &str, at: usize, problem: String| {
                let line = 1 + text[..at].matches('\n').count();
                TemplateError::Template { place: format!("{}:{line}", source.path.display()), problem }
            };
            if let Some((at, problem)) = former_variable(&source.text) {
                return Err(error_at(&source.text, at, problem));
            }
            let text = source.source_text();
            let with_calls = insert_calls(text).map_err(|(at, problem)| error_at(text, at, problem.to_owned()))?;
            source.prepared = Some(with_calls);
        }
        Ok(())
    }

    pub fn has_own(&self) -> bool {
        self.0.values().any(|source| source.own)
    }

    fn missing_part(&self) -> Option<String> {
        let mut wanted = self.names().into_iter().flat_map(|name| PARTS.map(|part| format!("{name}/{part}")));
        wanted.find(|file| !self.0.contains_key(file))
    }
}

fn is_html(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "html")
}

/// The folder `words` is loaded elsewhere.
fn is_read(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["html", "txt", "json"].iter().any(|read| end == *read))
}
