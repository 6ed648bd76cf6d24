//! The faults of templates.

use std::{io, path::PathBuf};

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
