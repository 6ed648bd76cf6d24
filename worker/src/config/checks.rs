//! Checks values one by one and collects the problems.

use std::{collections::BTreeMap, fmt, net::SocketAddr, path::Path, str::FromStr};

use tidings_model::foreign_text::clean_edges;
use toml::Spanned;

use super::{
    door::{self, NetworkEndpoint},
    problem::{ConfigProblem, EnvironmentReader, place_of},
    secret::{EXPOSED, is_exposed, mask_passwords},
};

const NAME_CHARS: usize = 80;
const SENTENCE_CHARS: usize = 300;

/// Each entry has its own place.
pub(super) type SpannedList = Spanned<Vec<Spanned<String>>>;

/// A key that an environment variable can override.
pub(super) struct OverridableKey {
    pub key: &'static str,
    pub variable: &'static str,
    pub default: &'static str,
}

pub(super) struct Checks<'a> {
    place: &'a Path,
    text: &'a str,
    environment: EnvironmentReader<'a>,
    pub problems: Vec<ConfigProblem>,
    pub listeners: Vec<NetworkEndpoint>,
    password: Option<ConfigProblem>,
}

impl<'a> Checks<'a> {
    pub fn new(place: &'a Path, text: &'a str, environment: EnvironmentReader<'a>) -> Self {
        Self { place, text, environment, problems: Vec::new(), listeners: Vec::new(), password: None }
    }

    pub const fn content(&self) -> &'a str {
        self.text
    }

    /// Warns if other users on the machine can read a password in the file.
    pub fn exposed_password(&self) -> Option<ConfigProblem> {
        self.password.clone().filter(|_| is_exposed(self.place))
    }

    /// Returns `None` if the value is missing or wrong.
    pub fn text<T, V: AsRef<str>>(
        &mut self,
        key: &str,
        value: Option<&Spanned<V>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        let text = value.as_ref().as_ref();
        let result =
            parse(clean_edges(text)).map_err(|problem| self.value_problem(value, key, text.to_owned(), problem));
        self.accept(result)
    }

    /// Parses a URL that may contain a password. The environment wins over the file, then comes the default.
    pub fn secret_url<T>(
        &mut self,
        OverridableKey { key, variable, default }: OverridableKey,
        value: Option<&Spanned<String>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match (self.variable(variable), value) {
            (Some(url), _) => self.secret_outside("environment", variable, &url, parse),
            (None, Some(_)) => self.secret(key, value, parse),
            (None, None) => self.secret_outside("default", key, default, parse),
        }
    }

    /// Masks a password in the value.
    pub fn secret<T>(
        &mut self,
        key: &str,
        value: Option<&Spanned<String>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        let text = value.as_ref();
        let shown = mask_passwords(text);
        // A user alone is masked too, because it may be a misplaced token.
        let has_password = shown != *text && [":***", "=***"].iter().any(|masked| shown.contains(masked));
        if has_password && self.password.is_none() {
            let problem = format!("has a password, and the file {EXPOSED}");
            self.password = Some(ConfigProblem::new(self.place_of(value), key, problem).with_value(shown.clone()));
        }
        let result = parse(clean_edges(text)).map_err(|problem| self.value_problem(value, key, shown, problem));
        self.accept(result)
    }

    /// Like [`Checks::secret`], from outside the file.
    pub fn secret_outside<T>(
        &mut self,
        place: &str,
        key: &str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.accept(
            parse(text).map_err(|problem| ConfigProblem::new(place, key, problem).with_value(mask_passwords(text))),
        )
    }

    /// Rejects an address beyond this machine, unless the file explicitly accepts the lack of TLS or a proxy
    /// should be in front.
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
        let (door, refusal) = NetworkEndpoint::listener(place, key, address, (tls_key, is_said), !has_proxy);
        self.listeners.push(door);
        if let Some(refusal) = refusal {
            self.report(refusal);
        }
        Some(address)
    }

    /// Trims line breaks and invisible marks, which come along when a value is copied. Returns `None` if
    /// nothing is left.
    pub fn variable(&self, name: &str) -> Option<String> {
        let value = (self.environment)(name)?;
        Some(clean_edges(&value).to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the variable's name, with its value if set. `None` if the name is invalid.
    pub fn named_variable(
        &mut self,
        key: &str,
        variable: &Spanned<String>,
        right: &str,
    ) -> Option<(String, Option<String>)> {
        let name = variable.as_ref();
        let is_name = variable_name(name, right);
        self.accept(is_name.map_err(|problem| {
            ConfigProblem::new(self.place_of(variable), key, problem).with_value(masked_name(name))
        }))?;
        Some((name.clone(), self.variable(name)))
    }

    /// Like [`Checks::named_variable`], but parses the value. Returns `None` if this fails.
    pub fn secret_of<T>(
        &mut self,
        key: &str,
        variable: &Spanned<String>,
        right: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<(String, Option<T>)> {
        let (name, value) = self.named_variable(key, variable, right)?;
        let secret = value.map(|value| parse(&value)).transpose();
        let secret = self.accept(secret.map_err(|problem| ConfigProblem::of_secret(&name, problem)))?;
        Some((name, secret))
    }

    /// Parses a number, or a flag.
    pub fn number<T, V: ToString>(
        &mut self,
        key: &str,
        value: Option<&Spanned<V>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = value?;
        self.text(key, Some(&Spanned::new(value.span(), value.as_ref().to_string())), parse)
    }

    /// Returns `None` without a list, or if any entry is wrong, and reports each wrong one.
    pub fn each<T>(
        &mut self,
        key: &str,
        list: Option<&SpannedList>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let entries: Vec<_> = list?.as_ref().iter().map(|entry| self.text(key, Some(entry), &parse)).collect();
        entries.into_iter().collect()
    }

    /// For lists that need more than a check per entry.
    pub fn list<T>(
        &mut self,
        key: &str,
        list: Option<&SpannedList>,
        check: impl FnOnce(&str, &SpannedList, &mut Self) -> Option<T>,
    ) -> Option<T> {
        check(key, list?, self)
    }

    /// `instead` is the advice if someone writes `*`.
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

    /// An entry `*` looks like a wildcard, but would only be a name.
    pub fn report_star(&mut self, table: &str, name: &str, place: String, instead: &str) {
        if name == "*" {
            let problem = format!("is not a wildcard; {instead}");
            self.report(ConfigProblem::new(place, format!("{table}.\"*\""), problem));
        }
    }

    pub fn accept<T>(&mut self, result: Result<T, ConfigProblem>) -> Option<T> {
        result.map_err(|problem| self.report(problem)).ok()
    }

    pub fn report_at<T>(&mut self, raw: &Spanned<T>, key: impl Into<String>, problem: impl Into<String>) {
        self.report(ConfigProblem::new(self.place_of(raw), key, problem));
    }

    /// Skips a problem that another key reported: a tenant inherits a digest type's keys and so their
    /// problems.
    pub fn report(&mut self, problem: ConfigProblem) {
        let problem = if problem.value.contains('\n') { problem.without_value() } else { problem };
        let same =
            |p: &ConfigProblem| (&p.place, &p.value, &p.problem) == (&problem.place, &problem.value, &problem.problem);
        if !self.problems.iter().any(same) {
            self.problems.push(problem);
        }
    }

    /// Returns `true` if the value spans several lines in the file. The parsed text may lack the line break,
    /// because TOML drops one right after the opening quotes.
    pub fn spans_lines<T>(&self, value: &Spanned<T>) -> bool {
        let raw = self.text.get(value.span()).unwrap_or_default();
        ["\"\"\"", "'''"].iter().any(|quotes| raw.starts_with(quotes)) && raw.contains('\n')
    }

    pub fn place_of<T>(&self, value: &Spanned<T>) -> String {
        place_of(self.place, self.text, Some(value.span()))
    }

    fn value_problem<T>(&self, value: &Spanned<T>, key: &str, shown: String, problem: String) -> ConfigProblem {
        let problem = ConfigProblem::new(self.place_of(value), key, problem).with_value(shown);
        if self.spans_lines(value) { problem.without_value() } else { problem }
    }
}

/// Masks anything except capitals with an underscore, because it may be a misplaced token.
pub(super) fn masked_name(variable: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = variable.contains('_') && variable.bytes().all(fits);
    if is_name { variable.to_owned() } else { "***".to_owned() }
}

/// Accepts the names that Kubernetes accepts. This rejects URLs, because a value is easily mixed up with its
/// variable.
fn variable_name(text: &str, right: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !text.is_empty() && text.bytes().all(fits) {
        return Ok(());
    }
    Err(format!("is not the name of a variable; write for example {right}"))
}

/// From 1 to `most`.
pub(super) fn whole<T: FromStr + PartialOrd + From<u8> + fmt::Display + Copy>(
    most: T,
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let count = text.parse().ok().filter(|count| (T::from(1)..=most).contains(count));
        count.ok_or_else(|| format!("write a whole number from 1 to {most}"))
    }
}

/// Recipients will read this.
pub(super) fn name(text: &str) -> Result<String, String> {
    parse_line(text, NAME_CHARS)
}

/// Recipients will read this.
pub(super) fn sentence(text: &str) -> Result<String, String> {
    parse_line(text, SENTENCE_CHARS)
}

fn parse_line(text: &str, limit: usize) -> Result<String, String> {
    let chars = text.chars().count();
    if text.trim().is_empty() {
        return Err("is empty; leave the key out".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("has a line break or another control character; write one line of text".to_owned());
    }
    if chars > limit {
        return Err(format!("has {chars} characters, the limit is {limit}"));
    }
    Ok(text.to_owned())
}
