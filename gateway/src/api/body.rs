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

/// Reads a body. An empty one counts as an object without fields.
pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    if Kind::of(headers)? != Kind::Json {
        return Err(Problem::UnsupportedMedia.into());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::Unreadable)?;
    let text = if text.is_empty() { "{}" } else { text };
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Err(Problem::Unreadable.into());
    }
    parsed(text).map_err(Refusal::body)
}

/// Reads a value, or names the field that makes it invalid.
pub(super) fn parsed<T: DeserializeOwned>(json: &str) -> Result<T, Fault> {
    serde_json::from_str(json).map_err(|error| {
        let field = wrong_field::<T>(json).unwrap_or_default();
        Fault { field, problem: error.to_string() }
    })
}

/// Finds the field that makes the value invalid, by trying each field alone.
fn wrong_field<T: DeserializeOwned>(json: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(json).ok()?;
    fields.into_iter().find_map(|(name, value)| {
        let alone = Value::Object(Map::from_iter([(name.clone(), value)]));
        serde_json::from_value::<T>(alone).is_err().then_some(name)
    })
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

    fn pair(text: &str) -> Result<Pair, Refusal> {
        read(&HeaderMap::new(), text.as_bytes())
    }

    #[test]
    fn a_wrong_field_is_named_and_other_texts_are_unreadable() {
        assert_eq!(pair("{\"first\": 7}").unwrap(), Pair { first: 7, second: String::new() });
        assert_eq!(pair("").unwrap(), Pair::default());
        for (text, field) in [("{\"second\": \"\", \"first\": \"x\"}", "first"), ("{\"third\": 1}", "third"), ("7", "")]
        {
            let refusal = pair(text).unwrap_err();
            assert_eq!((refusal.problem(), refusal.fields()), (Problem::WrongBody, vec![field]), "{text}");
        }
        for text in ["{", "first=7", "{} {}"] {
            assert_eq!(pair(text).unwrap_err(), Problem::Unreadable.into(), "{text}");
        }
    }
}
