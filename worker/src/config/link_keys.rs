//! The keys that sign tokens: in the environment, or in the file that `link_keys_file` names.
//!
//! The configuration names the file and reads it at once, but a file that cannot be read stops only commands that need the keys.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tidings_model::{
    foreign_text::decode_file,
    link_keys::{LinkKeys, VARIABLE, WrongKeys},
};
use toml::Spanned;

use super::{
    problem::{Checks, Problem},
    secret::{EXPOSED, is_exposed},
};

const KEY: &str = "link_keys_file";

/// The keys, or the reason why they cannot be used.
#[derive(Clone, Debug)]
pub struct LinkKeysConfig {
    keys: Result<Option<LinkKeys>, Problem>,
    /// The file with the keys, and the line that names the file.
    file: Option<(PathBuf, String)>,
}

impl LinkKeysConfig {
    /// Returns the keys; `None` if there are none, or if they cannot be read.
    #[must_use]
    pub fn keys(&self) -> Option<&LinkKeys> {
        self.keys.as_ref().ok()?.as_ref()
    }

    /// Replaces the keys.
    pub fn set(&mut self, keys: LinkKeys) {
        *self = Self { keys: Ok(Some(keys)), file: None };
    }

    /// Returns the reason why the keys of the file cannot be used.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        self.keys.as_ref().err().cloned()
    }

    /// Returns the file with the keys, unless the environment holds the keys.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Warns of a file that every user of the machine can read.
    #[must_use]
    pub fn warning(&self) -> Option<Problem> {
        let (path, place) = self.file.as_ref()?;
        is_exposed(path).then(|| problem(place, path, EXPOSED.to_owned()))
    }
}

/// Reads the keys. The environment overrides the file.
pub(super) fn check(file: Option<&Spanned<String>>, checks: &mut Checks<'_>) -> Option<LinkKeysConfig> {
    if let Some(keys) = checks.variable(VARIABLE) {
        let keys = checks.accept(keys.parse().map_err(|wrong: WrongKeys| Problem {
            place: "environment".to_owned(),
            key: VARIABLE.to_owned(),
            value: "***".to_owned(),
            problem: wrong.to_string(),
        }));
        return Some(LinkKeysConfig { keys: Ok(Some(keys?)), file: None });
    }
    let Some(file) = file else { return Some(LinkKeysConfig { keys: Ok(None), file: None }) };
    if holds_keys(file.as_ref()) {
        checks.report(Problem {
            place: checks.place_of(file),
            key: KEY.to_owned(),
            value: "***".to_owned(),
            problem: format!(
                "is a key and not the name of a file; write the key to a file, or set {VARIABLE} to the key"
            ),
        });
        return None;
    }
    let (path, place) = (PathBuf::from(file.as_ref()), checks.place_of(file));
    let keys = read(&path).map_err(|fault| problem(&place, &path, fault));
    Some(LinkKeysConfig { keys: keys.map(Some), file: Some((path, place)) })
}

fn read(path: &Path) -> Result<LinkKeys, String> {
    let text = fs::read(path)
        .and_then(decode_file)
        .map_err(|error| format!("cannot be read ({error}); name a file with keys that `tidings keys new` printed"))?;
    text.parse().map_err(|wrong: WrongKeys| wrong.to_string())
}

fn holds_keys(text: &str) -> bool {
    text.parse::<LinkKeys>().is_ok()
}

fn problem(place: &str, path: &Path, problem: String) -> Problem {
    Problem { place: place.to_owned(), key: KEY.to_owned(), value: path.display().to_string(), problem }
}
