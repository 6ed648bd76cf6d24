//! Problems of a configuration, each with its place and its remedy, and the checks that collect them.

use std::{collections::BTreeMap, fmt, ops::Range, path::Path};

use tidings_model::foreign_text::clean_edges;
use toml::Spanned;

use super::secret::{EXPOSED, is_exposed, masked};

/// Reads an environment variable. Tests pass a function of their own, because they must not change the process.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `tidings.toml:12`, or `environment`.
    pub place: String,
    /// The key with its table, or the name of the variable.
    pub key: String,
    /// The value without passwords; empty if the key itself is the problem.
    pub value: String,
    /// The fault and the remedy.
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
    /// Removes the value. Quotes that close too late include the lines that follow, and those may hold passwords.
    fn without_value(self) -> Self {
        let problem = "has quotes that continue on the next line: write the value on one line, between \" and \"";
        Self { value: String::new(), problem: problem.to_owned(), ..self }
    }
}

/// Returns each problem once. Streams share keys, and tenants inherit settings with their problems.
pub(super) fn distinct(problems: impl IntoIterator<Item = Problem>) -> Vec<Problem> {
    problems.into_iter().fold(Vec::new(), |mut distinct, problem| {
        if !distinct.contains(&problem) {
            distinct.push(problem);
        }
        distinct
    })
}

/// Formats the problems, one a line.
pub(super) fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Returns `{file}:{line}` of a byte range in `text`.
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

/// Checks values one by one and collects the problems.
pub(super) struct Checks<'a> {
    place: &'a Path,
    text: &'a str,
    environment: Environment<'a>,
    pub problems: Vec<Problem>,
    /// The first password of the file.
    password: Option<Problem>,
}

impl<'a> Checks<'a> {
    pub fn new(place: &'a Path, text: &'a str, environment: Environment<'a>) -> Self {
        Self { place, text, environment, problems: Vec::new(), password: None }
    }

    /// The content of the file.
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the warning of a file with a password that every user of the machine can read.
    pub fn exposed_password(&self) -> Option<Problem> {
        self.password.clone().filter(|_| is_exposed(self.place))
    }

    /// Parses the value of `key`; `None` without a value, or if the value is wrong.
    pub fn value<T, V: AsRef<str>>(
        &mut self,
        key: &str,
        value: Option<&Spanned<V>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        let text = value.as_ref().as_ref();
        let result = parse(clean_edges(text)).map_err(|problem| self.wrong(value, key, text.to_owned(), problem));
        self.accept(result)
    }

    /// Parses a URL that may hold a password: the environment variable's, else the file's, else the default.
    pub fn secret_url<T>(
        &mut self,
        Overridable { key, variable, default }: Overridable,
        value: Option<&Spanned<String>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match (self.variable(variable), value) {
            (Some(url), _) => self.secret_outside("environment", variable, &url, parse),
            (None, Some(url)) => self.secret(key, url, parse),
            (None, None) => self.secret_outside("default", key, default, parse),
        }
    }

    /// Parses a value of the file that may hold a password.
    pub fn secret<T>(
        &mut self,
        key: &str,
        value: &Spanned<String>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = value.as_ref();
        let shown = masked(text);
        // A user alone is masked, too: it may be a token in the wrong place.
        let has_password = shown != *text && [":***", "=***"].iter().any(|masked| shown.contains(masked));
        if has_password && self.password.is_none() {
            let (place, problem) = (self.place_of(value), format!("has a password, and the file {EXPOSED}"));
            self.password = Some(Problem { place, key: key.to_owned(), value: shown.clone(), problem });
        }
        let result = parse(clean_edges(text)).map_err(|problem| self.wrong(value, key, shown, problem));
        self.accept(result)
    }

    /// Parses a value from outside the file that may hold a password.
    pub fn secret_outside<T>(
        &mut self,
        place: &str,
        key: &str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let wrong = |problem| Problem { place: place.to_owned(), key: key.to_owned(), value: masked(text), problem };
        let result = parse(text).map_err(wrong);
        self.accept(result)
    }

    /// Reads an environment variable, without the line end of the file or the mark of the page that its value came from. `None` if nothing is
    /// left.
    pub fn variable(&self, name: &str) -> Option<String> {
        let value = (self.environment)(name)?;
        Some(clean_edges(&value).to_owned()).filter(|value| !value.is_empty())
    }

    /// Parses a whole number of at least one.
    pub fn count(&mut self, key: &str, value: Option<&Spanned<i64>>) -> Option<u32> {
        self.count_to(u32::MAX, key, value)
    }

    /// Parses a whole number from one to `most`.
    pub fn count_to(&mut self, most: u32, key: &str, value: Option<&Spanned<i64>>) -> Option<u32> {
        let value = value?;
        let parse = |text: &str| match text.parse() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(format!("write a whole number from 1 to {most}")),
        };
        self.value(key, Some(&Spanned::new(value.span(), value.as_ref().to_string())), parse)
    }

    /// Parses each entry of a table; `instead` is what to write in the place of `*`.
    pub fn entries<T>(
        &mut self,
        table: &str,
        entries: &BTreeMap<String, Spanned<String>>,
        parse: impl Fn(&str) -> Result<T, String>,
        instead: &str,
    ) -> BTreeMap<String, T> {
        let mut parsed = BTreeMap::new();
        for (name, value) in entries {
            self.report_star(table, name, self.place_of(value), instead);
            parsed
                .extend(self.value(&format!("{table}.{name}"), Some(value), &parse).map(|value| (name.clone(), value)));
        }
        parsed
    }

    /// Reports an entry `*` of `table`: it looks like all entries, and would be the one of this name.
    pub fn report_star(&mut self, table: &str, name: &str, place: String, instead: &str) {
        if name == "*" {
            let (key, problem) = (format!("{table}.\"*\""), format!("does not stand for all of them; {instead}"));
            self.report(Problem { place, key, value: String::new(), problem });
        }
    }

    /// Returns the value, or reports its problem.
    pub fn accept<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.report(problem)).ok()
    }

    /// Adds a problem, unless another key reported the same one. A tenant inherits the keys of a digest type, and with
    /// them their problems.
    pub fn report(&mut self, problem: Problem) {
        let problem = if problem.value.contains('\n') { problem.without_value() } else { problem };
        let same = |p: &Problem| (&p.place, &p.value, &p.problem) == (&problem.place, &problem.value, &problem.problem);
        if !self.problems.iter().any(same) {
            self.problems.push(problem);
        }
    }

    /// Reports if the value spans several lines of the file. The parsed text may lack the line break, because TOML drops
    /// one right after the opening quotes.
    pub fn spans_lines<T>(&self, value: &Spanned<T>) -> bool {
        let raw = self.text.get(value.span()).unwrap_or_default();
        ["\"\"\"", "'''"].iter().any(|quotes| raw.starts_with(quotes)) && raw.contains('\n')
    }

    /// Returns the place of the value.
    pub fn place_of<T>(&self, value: &Spanned<T>) -> String {
        place_of(self.place, self.text, Some(value.span()))
    }

    fn wrong<T>(&self, value: &Spanned<T>, key: &str, shown: String, problem: String) -> Problem {
        let problem = Problem { place: self.place_of(value), key: key.to_owned(), value: shown, problem };
        if self.spans_lines(value) { problem.without_value() } else { problem }
    }
}
