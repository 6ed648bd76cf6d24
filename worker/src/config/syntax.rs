//! Syntax errors and unknown keys of `tidings.toml` as problems with a line and a key.

use std::{ops::Range, path::Path};

use serde::de::DeserializeOwned;
use tidings_model::nearest;
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

use super::problem::{Problem, place_of};

/// Parses the file. Each unknown key is a problem and hides nothing else. `None`: the text is not TOML, or a value has another type.
pub(super) fn parse<T: DeserializeOwned>(place: &Path, text: &str, problems: &mut Vec<Problem>) -> Option<T> {
    let problem = |error: &toml::de::Error| Problem {
        place: place_of(place, text, error.span()),
        key: key_at(text, error.span()).to_owned(),
        value: String::new(),
        problem: reworded(error.message()),
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
