//! The JSON body of a request, and the names of its wrong fields.

use axum::http::HeaderMap;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    events::body::Kind,
    refusal::{Fault, Refusal},
};
use crate::problem::Problem;

/// The body of a command without terms.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    /// The reason, for the audit trail.
    pub why: String,
}

/// Reads a body.
pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    if Kind::of(headers)? != Kind::Json {
        return Err(Problem::UnsupportedMedia.into());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::Unreadable)?;
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Err(Problem::Unreadable.into());
    }
    parsed(text).map_err(Refusal::body)
}

/// Reads a value, or names the field that makes it invalid.
pub(super) fn parsed<T: DeserializeOwned>(json: &str) -> Result<T, Fault> {
    serde_json::from_str(json).map_err(|error| {
        wrong_field::<T>(json).unwrap_or_else(|| {
            let problem = without_place(&error);
            Fault { field: missing(&problem).unwrap_or_default().to_owned(), problem }
        })
    })
}

/// Finds the field that makes the value invalid, by trying each field alone. The words are those about this field: with two wrong
/// fields, serde describes the first one of the text.
fn wrong_field<T: DeserializeOwned>(json: &str) -> Option<Fault> {
    let fields: Map<String, Value> = serde_json::from_str(json).ok()?;
    // A field alone lacks the fields that the type requires.
    let lacks_others = serde_json::from_str::<T>("{}").is_err();
    let is_wrong = |error: &serde_json::Error| !lacks_others || missing(&error.to_string()).is_none();
    fields.into_iter().find_map(|(field, value)| {
        let alone = Value::Object(Map::from_iter([(field.clone(), value)]));
        let error = serde_json::from_value::<T>(alone).err().filter(is_wrong)?;
        Some(Fault { field, problem: without_place(&error) })
    })
}

/// The error without its line and column: the field says the place.
fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words).to_owned()
}

/// The name of the field that serde misses.
fn missing(problem: &str) -> Option<&str> {
    problem.strip_prefix("missing field `")?.split('`').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Pair {
        first: u32,
        second: String,
    }

    #[test]
    fn the_words_are_about_the_field_that_is_named() {
        for (text, field, says) in [
            (r#"{"zzz": 1, "aaa": 2}"#, "aaa", "unknown field `aaa`"),
            (r#"{"second": 1, "first": -1}"#, "first", "integer `-1`"),
            (r#"{"first": 1, "second": 7}"#, "second", "integer `7`"),
        ] {
            let fault = parsed::<Pair>(text).unwrap_err();
            assert_eq!(fault.field, field, "{text}");
            assert!(fault.problem.contains(says) && !fault.problem.contains("line 1"), "{text}: {}", fault.problem);
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the names and types matter")]
    struct Required {
        first: Pair,
        second: String,
        third: Option<String>,
    }

    fn pair(text: &str) -> Result<Pair, Refusal> {
        read(&HeaderMap::new(), text.as_bytes())
    }

    #[test]
    fn a_wrong_or_missing_field_is_named_and_other_texts_are_unreadable() {
        assert_eq!(pair("{\"first\": 7}").unwrap(), Pair { first: 7, second: String::new() });
        assert_eq!(pair("{}").unwrap(), Pair::default());
        for (text, field) in [("{\"second\": \"\", \"first\": \"x\"}", "first"), ("{\"third\": 1}", "third"), ("7", "")]
        {
            let refusal = pair(text).unwrap_err();
            assert_eq!((refusal.problem(), refusal.fields()), (Problem::WrongBody, vec![field]), "{text}");
        }
        for (text, field) in [
            ("{\"third\": \"\"}", "first"),
            ("{\"first\": {}}", "second"),
            ("{\"third\": 7, \"first\": {}}", "third"),
            ("{\"second\": \"\", \"first\": {\"first\": \"\"}}", "first"),
        ] {
            assert_eq!(parsed::<Required>(text).unwrap_err().field, field, "{text}");
        }
        for text in ["", "{", "first=7", "{} {}"] {
            assert_eq!(pair(text).unwrap_err(), Problem::Unreadable.into(), "{text}");
        }
    }
}
