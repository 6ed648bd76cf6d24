//! The source of templates: files embedded in the binary, and a folder whose files override them or add to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use include_dir::{Dir, include_dir};
use tidings_model::foreign_text::decode_file;

use super::{inline, meter::metered, support};
use crate::words;

/// A template that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder of templates cannot be read.
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The words cannot be used.
    #[error("words: {0}")]
    Words(#[from] words::Error),
    /// A digest type lacks a part.
    #[error("there is no {file}: a digest type needs subject.txt, body.html and body.txt")]
    Missing { file: String },
    /// A template has a fault, or cannot show a value.
    #[error("{place}: {problem}")]
    Template {
        /// The file, and the line if known.
        place: String,
        problem: String,
    },
    /// There is no template of that name.
    #[error("there is no template {name:?}; there are: {}", names.join(", "))]
    Unknown { name: String, names: Vec<String> },
}

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates");

/// The parts of a message. A digest type has all three.
pub(super) const PARTS: [&str; 3] = ["subject.txt", "body.html", "body.txt"];
/// The sample of a digest type, with which its templates are checked.
pub(super) const SAMPLE: &str = "sample.json";

/// One file.
pub(super) struct Source {
    pub text: String,
    /// The path that errors name.
    pub path: PathBuf,
    /// The file comes from the team's folder.
    own: bool,
    /// The text with marks at its styles and with calls of the meter, if it differs.
    prepared: Option<String>,
}

impl Source {
    fn new(text: String, path: PathBuf, own: bool) -> Self {
        Self { text, path, own, prepared: None }
    }

    /// The text that templates are made of. Its lines are those of the file.
    pub fn loaded(&self) -> &str {
        self.prepared.as_deref().unwrap_or(&self.text)
    }
}

/// Every file by its name, for example `layout.html` or `activity/body.html`.
pub(super) struct Sources(BTreeMap<String, Source>);

impl Sources {
    /// Reads the embedded files, and then those of `folder` and its folders that end in `.html`, `.txt` or `.json`.
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

    /// The digest types that have templates, in order.
    pub fn names(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|name| Some(name.split_once('/')?.0)).collect()
    }

    /// Returns whether the digest type has templates. One that does has all of [`PARTS`].
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(&format!("{name}/{}", PARTS[0]))
    }

    /// The files that hold templates.
    pub fn templates(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter(|(name, _)| !name.ends_with(SAMPLE)).map(|(name, source)| (name.as_str(), source.loaded()))
    }

    /// Finds the features of the team's own files that large email clients do not support, and the styles that stay or are too weak,
    /// each with its path and line.
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

    /// Marks the styles of the team's own files, and puts calls of the meter into them.
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

    /// Reports if a file comes from the team's folder.
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

/// Reports if a file is of a template. The folder `words` has other files.
fn is_read(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["html", "txt", "json"].iter().any(|read| end == *read))
}
