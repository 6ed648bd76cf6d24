//! Problems in a configuration, each with its place and remedy. TOML syntax and unknown keys are also checked
//! here.

use std::{fmt, ops::Range, path::Path};

use serde::de::DeserializeOwned;
use tidings_model::{
    changed_names::{NamePlace, current_name},
    nearest_name,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

/// Reads an environment variable. Tests pass their own function, as they must not change the process.
pub type EnvironmentReader<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub place: String,
    pub key: String,
    /// Without passwords. Empty if the key itself is wrong.
    pub value: String,
    pub problem: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, key, value, problem } = self;
        match (key.is_empty(), value.is_empty()) {
            (true, _) => write!(f, "{place}: {problem}"),
            (false, true) => write!(f, "{place}: {key}: {problem}"),
            (false, false) => write!(f, "{place}: {key} = {value:?}: {problem}"),
        }
    }
}

impl ConfigProblem {
    pub(crate) fn new(place: impl Into<String>, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), key: key.into(), value: String::new(), problem: problem.into() }
    }

    pub(crate) fn with_value(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    /// Masks the value as `***`.
    pub(super) fn of_secret(variable: &str, problem: impl Into<String>) -> Self {
        Self::new("environment", variable, problem).with_value("***")
    }

    pub(super) fn unset(variable: &str, remedy: impl fmt::Display) -> Self {
        Self::new("environment", variable, format!("is not set; set it to {remedy}"))
    }

    /// Removes the value. If a quote closes too late, it includes the following lines, which may hold
    /// passwords.
    pub(super) fn without_value(self) -> Self {
        let problem = "has quotes that continue on the next line: write the value on one line, between \" and \"";
        Self { value: String::new(), problem: problem.to_owned(), ..self }
    }
}

/// Removes duplicates, e.g. because streams share keys and tenants inherit settings.
pub(super) fn distinct(problems: impl IntoIterator<Item = ConfigProblem>) -> Vec<ConfigProblem> {
    problems.into_iter().fold(Vec::new(), |mut distinct, problem| {
        if !distinct.contains(&problem) {
            distinct.push(problem);
        }
        distinct
    })
}

pub(super) fn format_lines(problems: &[ConfigProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

pub(super) fn place_of(place: &Path, text: &str, span: Option<Range<usize>>) -> String {
    let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("{}:{}", place.display(), before.matches('\n').count() + 1)
}

pub(super) fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest_name(word, names).map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// Parses the file. Reports every unknown key, not only the first. Returns `None` if this is not TOML or a
/// value has the wrong type.
pub(super) fn parse_file<T: DeserializeOwned>(
    place: &Path,
    text: &str,
    problems: &mut Vec<ConfigProblem>,
) -> Option<T> {
    let problem = |error: &toml::de::Error| {
        ConfigProblem::new(
            place_of(place, text, error.span()),
            key_at(text, error.span()),
            reword_message(error.message()),
        )
    };
    let mut table = DeTable::parse(text).map_err(|error| problems.push(problem(&error))).ok()?;
    loop {
        match T::deserialize(Deserializer::from(table.clone())) {
            Ok(file) => return Some(file),
            Err(error) => {
                problems.push(problem(&error));
                let is_unknown = error.message().starts_with("unknown field");
                if !(is_unknown && error.span().is_some_and(|span| remove_key(table.get_mut(), &span))) {
                    return None;
                }
            }
        }
    }
}

fn remove_key(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let found = table.keys().find(|key| key.span() == *span).map(|key| key.get_ref().to_string());
    match found {
        Some(key) => table.remove(key.as_str()).is_some(),
        None => table.iter_mut().any(|(_, value)| remove_below(value, span)),
    }
}

fn remove_below(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => remove_key(table, span),
        DeValue::Array(values) => values.iter_mut().any(|value| remove_below(value, span)),
        _ => false,
    }
}

/// Returns the key or table header on this line, but never a value.
fn key_at(text: &str, span: Option<Range<usize>>) -> &str {
    let Some((before, after)) = span.and_then(|span| text.split_at_checked(span.start)) else { return "" };
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = after.find('\n').map_or(text.len(), |end| before.len() + end);
    let line = &text[start..end];
    // Inside a list or a long text, a line may begin like a table or contain `=`.
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let header = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')).filter(is_name);
    let key = line.split_once('=').map(|(key, _)| key.trim()).filter(is_name);
    header.map(|_| line.trim()).or(key).unwrap_or("")
}

/// Rewords a serde message, which is only available as text.
///
/// Suggests the nearest name for "unknown field `x`, expected one of `a`, `b`". Drops an unexpected string,
/// because it may be a password or private key under the wrong name.
fn reword_message(message: &str) -> String {
    if let Some((wrong, _)) = message.split_once(" string \"") {
        let expected = message.rsplit_once("\", expected ").map_or("", |(_, expected)| expected);
        return format!("{wrong} string, expected {expected}");
    }
    let mut names = message.split('`').skip(1).step_by(2);
    match names.next() {
        Some(unknown) if message.starts_with("unknown field") => {
            let known: Vec<_> = names.collect();
            let meant = match current_name(NamePlace::Key, unknown).filter(|name| known.contains(name)) {
                Some(name) => format!("it is called {name:?} now. "),
                None => nearest_name(unknown, known.iter().copied())
                    .map(|name| format!("did you mean {name:?}? "))
                    .unwrap_or_default(),
            };
            format!("no such key; {meant}There are: {}", known.join(", "))
        }
        _ => message.to_owned(),
    }
}
