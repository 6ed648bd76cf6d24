//! What is wrong with a configuration, in a form that a person can act on, and the place where that is collected.

use std::{fmt, ops::Range, path::Path};

use toml::Spanned;

use super::{Environment, secret::masked};

/// One thing that is wrong: where, which key, which value, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `tidings.toml:12`, or `environment`.
    pub place: String,
    /// The key with its table, or the variable's name.
    pub key: String,
    /// What it says there, without passwords; empty when the key itself is the problem.
    pub value: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, key, value, problem } = self;
        match (key.is_empty(), value.is_empty()) {
            (true, _) => write!(f, "{place}: {problem}"),
            (false, true) => write!(f, "{place}: {key}: {problem}"),
            (false, false) => write!(f, "{place}: {key} = {value:?}: {problem}"),
        }
    }
}

impl Problem {
    /// Quotes that are closed too late take in what follows, passwords, too: nothing of it is shown.
    fn without_value(self) -> Self {
        let problem = "is in quotes that go on in the next line: write it in one, between \" and \"".to_owned();
        Self { value: String::new(), problem, ..self }
    }
}

pub(super) fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// `{file}:{line}` of a byte range in `text`.
pub(super) fn place_of(place: &Path, text: &str, span: Option<Range<usize>>) -> String {
    let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("{}:{}", place.display(), before.matches('\n').count() + 1)
}

/// A key of the file that an environment variable overrides.
pub(super) struct Overridable {
    pub key: &'static str,
    pub variable: &'static str,
    pub default: &'static str,
}

/// Checks values one by one and keeps what was wrong.
pub(super) struct Checks<'a> {
    place: &'a Path,
    text: &'a str,
    environment: Environment<'a>,
    pub problems: Vec<Problem>,
}

impl<'a> Checks<'a> {
    pub fn new(place: &'a Path, text: &'a str, environment: Environment<'a>) -> Self {
        Self { place, text, environment, problems: Vec::new() }
    }

    /// The value of `key` as `read` understands it; `None` where there is none or it was wrong.
    pub fn value<T, V: AsRef<str>>(
        &mut self,
        key: &str,
        value: Option<&Spanned<V>>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        let text = value.as_ref().as_ref();
        let result = read(text).map_err(|problem| self.wrong(value, key, text.to_owned(), problem));
        self.keep(result)
    }

    /// What a URL that may hold a password stands for: the environment variable's, else the file's, else the default.
    pub fn secret_url<T>(
        &mut self,
        Overridable { key, variable, default }: Overridable,
        value: Option<&Spanned<String>>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match ((self.environment)(variable), value) {
            (Some(url), _) => self.secret_outside("environment", variable, &url, read),
            (None, Some(url)) => self.secret(key, url, read),
            (None, None) => self.secret_outside("default", key, default, read),
        }
    }

    /// What a value that may hold a password stands for.
    pub fn secret<T>(
        &mut self,
        key: &str,
        value: &Spanned<String>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = value.as_ref();
        let result = read(text).map_err(|problem| self.wrong(value, key, masked(text), problem));
        self.keep(result)
    }

    /// The same of one that is not in the file.
    pub fn secret_outside<T>(
        &mut self,
        place: &str,
        key: &str,
        text: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let wrong = |problem| Problem { place: place.to_owned(), key: key.to_owned(), value: masked(text), problem };
        let result = read(text).map_err(wrong);
        self.keep(result)
    }

    /// An environment variable.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }

    /// A whole number, at least one.
    pub fn count(&mut self, key: &str, value: Option<&Spanned<i64>>) -> Option<u32> {
        let value = value?;
        let read = |text: &str| match text.parse() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(format!("write a whole number from 1 to {}", u32::MAX)),
        };
        self.value(key, Some(&Spanned::new(value.span(), value.as_ref().to_string())), read)
    }

    /// The value, unless it is a problem. What a tenant takes over from a digest type is wrong once, in its own place.
    pub fn keep<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.complain(problem)).ok()
    }

    /// One more problem, unless it is known by another key.
    pub fn complain(&mut self, problem: Problem) {
        let problem = if problem.value.contains('\n') { problem.without_value() } else { problem };
        let said = |p: &Problem| (&p.place, &p.value, &p.problem) == (&problem.place, &problem.value, &problem.problem);
        if !self.problems.iter().any(said) {
            self.problems.push(problem);
        }
    }

    /// Whether the text goes on in the next line of the file. What it stands for may have no line break then: TOML leaves out
    /// one right behind the quotes.
    pub fn goes_on<T>(&self, value: &Spanned<T>) -> bool {
        let written = self.text.get(value.span()).unwrap_or_default();
        ["\"\"\"", "'''"].iter().any(|quotes| written.starts_with(quotes)) && written.contains('\n')
    }

    pub fn place_of<T>(&self, value: &Spanned<T>) -> String {
        place_of(self.place, self.text, Some(value.span()))
    }

    fn wrong<T>(&self, value: &Spanned<T>, key: &str, shown: String, problem: String) -> Problem {
        let problem = Problem { place: self.place_of(value), key: key.to_owned(), value: shown, problem };
        if self.goes_on(value) { problem.without_value() } else { problem }
    }
}
