//! Problems of a configuration, each with its place and its remedy, and the checks that collect them: first of the syntax and of unknown
//! keys, then of each value.

use std::{collections::BTreeMap, fmt, net::SocketAddr, ops::Range, path::Path, str::FromStr};

use serde::de::DeserializeOwned;
use tidings_model::{foreign_text::clean_edges, nearest};
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

use super::{
    door::{self, Door},
    keys::SpannedList,
    secret::{EXPOSED, is_exposed, masked},
};

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
    /// A problem of `key` itself.
    pub(crate) fn new(place: impl Into<String>, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), key: key.into(), value: String::new(), problem: problem.into() }
    }

    /// The problem of this value.
    pub(crate) fn of(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    /// The problem of a variable whose value nobody may see.
    pub(super) fn of_secret(variable: &str, problem: impl Into<String>) -> Self {
        Self::new("environment", variable, problem).of("***")
    }

    /// The problem of a variable that is not set.
    pub(super) fn unset(variable: &str, remedy: impl fmt::Display) -> Self {
        Self::new("environment", variable, format!("is not set; set it to {remedy}"))
    }

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
    /// The addresses to listen on.
    pub listeners: Vec<Door>,
    /// The first password of the file.
    password: Option<Problem>,
}

impl<'a> Checks<'a> {
    pub fn new(place: &'a Path, text: &'a str, environment: Environment<'a>) -> Self {
        Self { place, text, environment, problems: Vec::new(), listeners: Vec::new(), password: None }
    }

    /// The content of the file.
    pub const fn content(&self) -> &'a str {
        self.text
    }

    /// Returns the warning of a file with a password that every user of the machine can read.
    pub fn exposed_password(&self) -> Option<Problem> {
        self.password.clone().filter(|_| is_exposed(self.place))
    }

    /// Parses the value of `key`; `None` without a value, or if the value is wrong.
    pub fn text<T, V: AsRef<str>>(
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
            (None, Some(_)) => self.secret(key, value, parse),
            (None, None) => self.secret_outside("default", key, default, parse),
        }
    }

    /// Parses a value of the file that may hold a password.
    pub fn secret<T>(
        &mut self,
        key: &str,
        value: Option<&Spanned<String>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        let text = value.as_ref();
        let shown = masked(text);
        // A user alone is masked, too: it may be a token in the wrong place.
        let has_password = shown != *text && [":***", "=***"].iter().any(|masked| shown.contains(masked));
        if has_password && self.password.is_none() {
            let problem = format!("has a password, and the file {EXPOSED}");
            self.password = Some(Problem::new(self.place_of(value), key, problem).of(shown.clone()));
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
        self.accept(parse(text).map_err(|problem| Problem::new(place, key, problem).of(masked(text))))
    }

    /// Parses the address of a listener, and refuses one beyond this machine without words for its lack of TLS, unless a proxy is expected
    /// in front. Keeps its door.
    pub fn listener(
        &mut self,
        (key, raw): (&str, Option<&Spanned<String>>),
        (tls_key, tls): (&str, Option<&Spanned<String>>),
        has_proxy: bool,
    ) -> Option<SocketAddr> {
        let is_said = self.text(tls_key, tls, door::no_tls).is_some();
        let address = self.text(key, raw, |text| {
            text.parse()
                .map_err(|_| "is not an IP address with a port; write for example \"127.0.0.1:9464\"".to_owned())
        })?;
        let place = raw.map(|raw| self.place_of(raw)).unwrap_or_default();
        let (door, refusal) = Door::listener(place, key, address, (tls_key, is_said), !has_proxy);
        self.listeners.push(door);
        if let Some(refusal) = refusal {
            self.report(refusal);
        }
        Some(address)
    }

    /// Reads an environment variable, without the line end of the file or the mark of the page that its value came from. `None` if nothing is
    /// left.
    pub fn variable(&self, name: &str) -> Option<String> {
        let value = (self.environment)(name)?;
        Some(clean_edges(&value).to_owned()).filter(|value| !value.is_empty())
    }

    /// Reads the variable that `key` names: its name, and its value if it is set. `None`: this is not a name.
    pub fn named_variable(
        &mut self,
        key: &str,
        variable: &Spanned<String>,
        right: &str,
    ) -> Option<(String, Option<String>)> {
        let name = variable.as_ref();
        let is_name = variable_name(name, right);
        self.accept(is_name.map_err(|problem| Problem::new(self.place_of(variable), key, problem).of(shown(name))))?;
        Some((name.clone(), self.variable(name)))
    }

    /// Parses the secret in the variable that `key` names, as [`Checks::named_variable`]. `None`: the secret is wrong.
    pub fn secret_of<T>(
        &mut self,
        key: &str,
        variable: &Spanned<String>,
        right: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<(String, Option<T>)> {
        let (name, value) = self.named_variable(key, variable, right)?;
        let secret = value.map(|value| parse(&value)).transpose();
        let secret = self.accept(secret.map_err(|problem| Problem::of_secret(&name, problem)))?;
        Some((name, secret))
    }

    /// Parses a value that is a number, or a flag.
    pub fn number<T, V: ToString>(
        &mut self,
        key: &str,
        value: Option<&Spanned<V>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        self.text(key, Some(&Spanned::new(value.span(), value.as_ref().to_string())), parse)
    }

    /// Parses every entry of a list and reports each wrong one; `None` without a list, or if any was wrong.
    pub fn each<T>(
        &mut self,
        key: &str,
        list: Option<&SpannedList>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let entries: Vec<_> = list?.as_ref().iter().map(|entry| self.text(key, Some(entry), &parse)).collect();
        entries.into_iter().collect()
    }

    /// Checks a list that is more than its entries.
    pub fn list<T>(
        &mut self,
        key: &str,
        list: Option<&SpannedList>,
        check: impl FnOnce(&str, &SpannedList, &mut Self) -> Option<T>,
    ) -> Option<T> {
        check(key, list?, self)
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
                .extend(self.text(&format!("{table}.{name}"), Some(value), &parse).map(|value| (name.clone(), value)));
        }
        parsed
    }

    /// Reports an entry `*` of `table`: it looks like all entries, and would be the one of this name.
    pub fn report_star(&mut self, table: &str, name: &str, place: String, instead: &str) {
        if name == "*" {
            let problem = format!("does not stand for all of them; {instead}");
            self.report(Problem::new(place, format!("{table}.\"*\""), problem));
        }
    }

    /// Returns the value, or reports its problem.
    pub fn accept<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.report(problem)).ok()
    }

    /// Reports a problem of `key` at the place of `raw`.
    pub fn fault<T>(&mut self, raw: &Spanned<T>, key: impl Into<String>, problem: impl Into<String>) {
        self.report(Problem::new(self.place_of(raw), key, problem));
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
        let problem = Problem::new(self.place_of(value), key, problem).of(shown);
        if self.spans_lines(value) { problem.without_value() } else { problem }
    }
}

/// Returns `; did you mean "..."?` for the nearest name, or an empty string.
pub(super) fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(word, names).map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// The name as a problem shows it. A token instead of a name is not shown: only words in capital letters with an underscore are
/// certain to be a name.
pub(super) fn shown(variable: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = variable.contains('_') && variable.bytes().all(fits);
    if is_name { variable.to_owned() } else { "***".to_owned() }
}

/// Accepts the names that Kubernetes accepts. A URL or a secret fails, because a value is easily mixed up with its variable.
fn variable_name(text: &str, right: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !text.is_empty() && text.bytes().all(fits) {
        return Ok(());
    }
    Err(format!("is not the name of a variable; write for example {right}"))
}

/// Parses a whole number from one to `most`.
pub(super) fn whole<T: FromStr + PartialOrd + From<u8> + fmt::Display + Copy>(
    most: T,
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let count = text.parse().ok().filter(|count| (T::from(1)..=most).contains(count));
        count.ok_or_else(|| format!("write a whole number from 1 to {most}"))
    }
}

/// Parses the file. Each unknown key is a problem and hides nothing else. `None`: the text is not TOML, or a value has another type.
pub(super) fn parse<T: DeserializeOwned>(place: &Path, text: &str, problems: &mut Vec<Problem>) -> Option<T> {
    let problem = |error: &toml::de::Error| {
        Problem::new(place_of(place, text, error.span()), key_at(text, error.span()), reworded(error.message()))
    };
    let mut table = DeTable::parse(text).map_err(|error| problems.push(problem(&error))).ok()?;
    loop {
        match T::deserialize(Deserializer::from(table.clone())) {
            Ok(file) => return Some(file),
            Err(error) => {
                problems.push(problem(&error));
                let is_unknown = error.message().starts_with("unknown field");
                if !(is_unknown && error.span().is_some_and(|span| remove(table.get_mut(), &span))) {
                    return None;
                }
            }
        }
    }
}

/// Removes the key at this place, and reports if there was one.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let found = table.keys().find(|key| key.span() == *span).map(|key| key.get_ref().to_string());
    match found {
        Some(key) => table.remove(key.as_str()).is_some(),
        None => table.iter_mut().any(|(_, value)| remove_below(value, span)),
    }
}

fn remove_below(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => remove(table, span),
        DeValue::Array(values) => values.iter_mut().any(|value| remove_below(value, span)),
        _ => false,
    }
}

/// Returns the key, or the header of the table, on the line that the range starts in; never a value.
fn key_at(text: &str, span: Option<Range<usize>>) -> &str {
    let Some((before, after)) = span.and_then(|span| text.split_at_checked(span.start)) else { return "" };
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = after.find('\n').map_or(text.len(), |end| before.len() + end);
    let line = &text[start..end];
    // A line of a list, or of a long text, may begin like a table or hold an `=`.
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let header = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')).filter(is_name);
    let key = line.split_once('=').map(|(key, _)| key.trim()).filter(is_name);
    header.map(|_| line.trim()).or(key).unwrap_or("")
}

/// Rewords a message of serde, which has no other form than text.
///
/// "unknown field `x`, expected one of `a`, `b`" gets the nearest name. An unexpected string is left out, because it may
/// be a password or a private key under the wrong name.
fn reworded(message: &str) -> String {
    if let Some((wrong, _)) = message.split_once(" string \"") {
        let expected = message.rsplit_once("\", expected ").map_or("", |(_, expected)| expected);
        return format!("{wrong} string, expected {expected}");
    }
    let mut names = message.split('`').skip(1).step_by(2);
    match names.next() {
        Some(unknown) if message.starts_with("unknown field") => {
            let known: Vec<_> = names.collect();
            let nearest = nearest(unknown, known.iter().copied());
            let meant = nearest.map(|name| format!("did you mean {name:?}? ")).unwrap_or_default();
            format!("no such key; {meant}There are: {}", known.join(", "))
        }
        _ => message.to_owned(),
    }
}
