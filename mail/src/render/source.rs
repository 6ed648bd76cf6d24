//! Loads template sources: embedded files, and a folder to override or extend them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use include_dir::{Dir, include_dir};
use tidings_model::foreign_text::decode_file;

use super::{inline, meter::metered, support};
use crate::words;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("words: {0}")]
    Words(#[from] words::Error),
    #[error("there is no {file}: a digest type needs subject.txt, body.html and body.txt")]
    Missing { file: String },
    /// The template is invalid, or failed on a value.
    #[error("{place}: {problem}")]
    Template {
        /// With line, if known.
        place: String,
        problem: String,
    },
    #[error("there is no template {name:?}; there are: {}", names.join(", "))]
    Unknown { name: String, names: Vec<String> },
}

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates");

/// Parts of a message. A digest type needs all three.
pub(super) const PARTS: [&str; 3] = ["subject.txt", "body.html", "body.txt"];
pub(super) const SAMPLE: &str = "sample.json";

pub(super) struct Source {
    pub text: String,
    pub path: PathBuf,
    /// From the team's folder.
    own: bool,
    prepared: Option<String>,
}

impl Source {
    fn new(text: String, path: PathBuf, own: bool) -> Self {
        Self { text, path, own, prepared: None }
    }

    /// Source to compile. Lines match those in the file.
    pub fn loaded(&self) -> &str {
        self.prepared.as_deref().unwrap_or(&self.text)
    }
}

/// Files by name, e.g. `layout.html` or `activity/body.html`.
pub(super) struct Sources(BTreeMap<String, Source>);

impl Sources {
    /// Also reads `.html`, `.txt` and `.json` files in `folder` and its subfolders.
    pub fn read(folder: Option<&Path>) -> Result<Self, Error> {
        let mut sources = Self(BTreeMap::new());
        sources.embed(&EMBEDDED);
        if let Some(folder) = folder {
            sources.add_folder(folder, "").map_err(|(path, source)| Error::Read { path, source })?;
        }
        if let Some(file) = sources.incomplete() {
            return Err(Error::Missing { file });
        }
        sources.prepare()?;
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
        self.0.iter().filter(|(name, _)| !name.ends_with(SAMPLE)).map(|(name, source)| (name.as_str(), source.loaded()))
    }

    /// Style and feature warnings for the team's own files, each with its path and line.
    pub fn remarks(&self, weak: &inline::Weak) -> Vec<(String, String)> {
        let own = self.0.iter().filter(|(name, source)| source.own && is_html(name));
        own.flat_map(|(_, Source { text, path, .. })| {
            let mut remarks: Vec<_> =
                support::unsupported(text).into_iter().chain(inline::remarks(text, weak)).collect();
            remarks.sort_by_key(|remark| remark.at);
            remarks.into_iter().map(move |remark| {
                let line = 1 + text[..remark.at].matches('\n').count();
                (format!("{}:{line}", path.display()), remark.text)
            })
        })
        .collect()
    }

    pub fn get(&self, name: &str) -> Option<&Source> {
        self.0.get(name)
    }

    fn embed(&mut self, folder: &Dir<'_>) {
        for file in folder.files().filter(|file| is_read(file.path())) {
            if let (Some(name), Some(text)) = (file.path().to_str(), file.contents_utf8()) {
                let source = Source::new(text.to_owned(), Path::new("embedded").join(name), false);
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
                self.0.insert(format!("{prefix}{file}"), Source::new(text, path.clone(), true));
            }
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), Error> {
        let own = self.0.iter_mut().filter(|(name, source)| source.own && !name.ends_with(SAMPLE));
        for (name, source) in own {
            if is_html(name) {
                source.prepared = inline::marked(&source.text);
            }
            let with_calls = metered(source.loaded()).map_err(|(at, problem)| {
                let line = 1 + source.loaded()[..at].matches('\n').count();
                Error::Template { place: format!("{}:{line}", source.path.display()), problem: problem.to_owned() }
            })?;
            source.prepared = Some(with_calls);
        }
        Ok(())
    }

    pub fn has_own(&self) -> bool {
        self.0.values().any(|source| source.own)
    }

    fn incomplete(&self) -> Option<String> {
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
