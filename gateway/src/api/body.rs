//! Reads JSON bodies and names their wrong fields.

use axum::http::{HeaderMap, header::CONTENT_TYPE};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tidings_model::{
    changed_names::{NamePlace, current_name},
    foreign_text::skip_bom,
    nearest_name, wire,
};
use utoipa::ToSchema;

use super::refusal::{ApiRefusal, Fault};
use crate::{problem::Problem, request_body::encoding};

pub(super) const JSON: &str = "application/json";

/// Most wrong fields listed in one problem.
const FAULTS: usize = 16;
/// Field names are cut to this many characters in a problem.
const NAME_CHARS: usize = 64;

/// The body of a command without terms.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    /// The reason, for the audit trail.
    pub why: String,
}

/// Without parameters. JSON if there is none.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let Some(named) = headers.get(CONTENT_TYPE) else { return JSON.to_owned() };
    let named = named.to_str().unwrap_or_default();
    named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

pub(super) fn read_json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, ApiRefusal> {
    if media_type(headers) != JSON {
        return Err(ApiRefusal::media_type(headers, &[JSON]));
    }
    if encoding(headers).is_some() {
        let problem = "is not read by this route; send the body as it is";
        return Err(ApiRefusal::with_fault(Problem::UnsupportedMedia, "Content-Encoding", problem));
    }
    let bytes = skip_bom(bytes);
    let text = utf8_text(bytes)?;
    if text.trim().is_empty() {
        return Err(ApiRefusal::unreadable("is empty; send a JSON object"));
    }
    if let Some(broken) = wire::find_fault(bytes) {
        return Err(ApiRefusal::unreadable(broken.problem));
    }
    parse_json(text).map_err(|faults| match wire::find_unusable(bytes) {
        Some(part) => ApiRefusal::with_fault(Problem::Unreadable, &part.field, part.problem),
        None => ApiRefusal::wrong_fields(faults),
    })
}

pub(super) fn utf8_text(bytes: &[u8]) -> Result<&str, ApiRefusal> {
    str::from_utf8(bytes)
        .map_err(|error| ApiRefusal::unreadable(format!("is not UTF-8 at byte {}", error.valid_up_to() + 1)))
}

pub(super) fn parse_json<T: DeserializeOwned>(json: &str) -> Result<T, Vec<Fault>> {
    serde_json::from_str(json).map_err(|error| match wrong_fields::<T>(json) {
        faults if faults.is_empty() => {
            let said = error.to_string();
            let field = missing_field(&said).unwrap_or_default();
            vec![Fault::new(field, describe_error(field, &said))]
        }
        faults => faults,
    })
}

/// Tries each field alone to find the wrong ones, because serde reports only the first.
fn wrong_fields<T: DeserializeOwned>(json: &str) -> Vec<Fault> {
    let fields: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
    // A field tried alone also lacks the required ones. This error should not count.
    let lacks_others = serde_json::from_str::<T>("{}").is_err();
    let is_wrong = |said: &String| !lacks_others || missing_field(said).is_none();
    let fault = |(field, value): (String, Value)| {
        let alone = Value::Object(Map::from_iter([(field.clone(), value)]));
        let said = serde_json::from_value::<T>(alone).err().map(|error| error.to_string()).filter(is_wrong)?;
        Some(Fault::new(&cut_name(&field), describe_error(&field, &said)))
    };
    fields.into_iter().filter_map(fault).take(FAULTS).collect()
}

fn missing_field(said: &str) -> Option<&str> {
    said.strip_prefix("missing field `")?.split('`').next()
}

fn cut_name(name: &str) -> String {
    name.chars().take(NAME_CHARS).collect()
}

/// Rewrites a serde error. Line and column are dropped, because the field already gives the place.
fn describe_error(field: &str, said: &str) -> String {
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    if let Some(name) = missing_field(said) {
        return if name == field { "is required".to_owned() } else { format!("lacks the field {}", cut_name(name)) };
    }
    let mark = if said.starts_with("invalid ") { ": " } else { " `" };
    let (what, rest) = said.split_once(mark).unwrap_or((said, ""));
    let (found, expected) = rest.split_once(", expected ").unwrap_or((rest, ""));
    match what {
        "unknown field" => {
            let name = found.trim_end_matches('`');
            let is_unknown = if name == field {
                "is an unknown field".to_owned()
            } else {
                format!("has the unknown field {}", cut_name(name))
            };
            with_names(&is_unknown, name, expected)
        }
        "unknown variant" => with_names("is an unknown name", found.trim_end_matches('`'), expected),
        "duplicate field" => "is given twice".to_owned(),
        "invalid type" => format!("is {}, not {}", json_kind(found), expected_kind(expected)),
        "invalid value" => format!("is not {}", expected_kind(expected)),
        _ => said.to_owned(),
    }
}

fn with_names(problem: &str, name: &str, expected: &str) -> String {
    let known: Vec<_> = expected.split('`').skip(1).step_by(2).collect();
    if let Some(current) = current_name(NamePlace::Field, name).filter(|current| known.contains(current)) {
        return format!("{problem}; it is called {current} now");
    }
    match nearest_name(name, known.iter().copied()) {
        Some(meant) => format!("{problem}; did you mean {meant}?"),
        None if known.is_empty() => problem.to_owned(),
        None => format!("{problem}; known are {}", known.join(", ")),
    }
}

fn json_kind(found: &str) -> &'static str {
    match found.split([' ', '`']).next().unwrap_or_default() {
        "boolean" => "true or false",
        "integer" | "floating" => "a number",
        "string" => "a text",
        "sequence" => "a list",
        "map" => "an object",
        "null" => "null",
        _ => "another value",
    }
}

fn expected_kind(expected: &str) -> &str {
    match expected {
        "a string" | "string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        expected if expected.starts_with("struct ") => "an object",
        expected if expected.is_empty() || expected.contains("enum") => "a value of this field",
        expected => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Problem;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Pair {
        first: u32,
        second: String,
        third: Third,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Third {
        #[default]
        Weekly,
        Monthly,
    }

    fn faults(text: &str) -> Vec<String> {
        let faults = parse_json::<Pair>(text).unwrap_err().into_iter();
        faults.map(|Fault { field, problem }| format!("{field} {problem}")).collect()
    }

    #[test]
    fn each_wrong_field_is_named_in_our_words() {
        for (text, expected) in [
            (
                r#"{"zzz": 1, "frist": 2}"#,
                &[
                    "frist is an unknown field; did you mean first?",
                    "zzz is an unknown field; known are first, second, third",
                ][..],
            ),
            (
                r#"{"second": 1, "first": -1}"#,
                &["first is not a whole number from 0 on", "second is a number, not a text"],
            ),
            (
                r#"{"first": "x", "third": "wekly"}"#,
                &["first is a text, not a whole number from 0 on", "third is an unknown name; did you mean weekly?"],
            ),
            (
                r#"{"first": null, "second": {}}"#,
                &["first is null, not a whole number from 0 on", "second is an object, not a text"],
            ),
            ("7", &[" is a number, not an object"]),
        ] {
            assert_eq!(faults(text), expected, "{text}");
        }
        let many = (0..99).map(|n| format!("\"x{n}\":1")).collect::<Vec<_>>().join(",");
        assert_eq!(faults(&format!("{{{many}}}")).len(), FAULTS);
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the names and types matter")]
    struct Required {
        first: Pair,
        second: String,
        third: Option<String>,
    }

    fn pair(text: &str) -> Result<Pair, ApiRefusal> {
        read_json(&HeaderMap::new(), text.as_bytes())
    }

    #[test]
    fn a_wrong_or_missing_field_is_named_and_other_texts_are_unreadable() {
        assert_eq!(pair("{\"first\": 7}").unwrap(), Pair { first: 7, ..Pair::default() });
        assert_eq!(pair("{}").unwrap(), Pair::default());
        for (text, field) in
            [("{\"second\": \"\", \"first\": \"x\"}", "first"), ("{\"fourth\": 1}", "fourth"), ("7", "")]
        {
            let refusal = pair(text).unwrap_err();
            assert_eq!((refusal.problem(), refusal.fields()), (Problem::WrongBody, vec![field]), "{text}");
        }
        for (text, expected) in [
            ("{\"third\": \"\"}", Fault::new("first", "is required")),
            ("{\"first\": {}}", Fault::new("second", "is required")),
            ("{\"third\": 7, \"first\": {}}", Fault::new("third", "is a number, not a text")),
            (
                "{\"second\": \"\", \"first\": {\"frist\": 1}}",
                Fault::new("first", "has the unknown field frist; did you mean first?"),
            ),
        ] {
            assert_eq!(parse_json::<Required>(text).unwrap_err(), [expected], "{text}");
        }
        for (text, says) in [
            ("", "is empty; send a JSON object"),
            ("{", "is not JSON at byte 1: EOF while parsing an object"),
            ("first=7", "is not JSON at byte 2: expected ident"),
            ("{} {}", "is not JSON at byte 4: trailing characters"),
        ] {
            assert_eq!(pair(text).unwrap_err(), ApiRefusal::unreadable(says), "{text}");
        }
        for (text, field, says) in [
            ("{\"first\": 1e400}", "first", "is a number beyond the doubles"),
            (
                "{\"second\": \"\\ud83d\"}",
                "second",
                "has half of a surrogate pair such as \\ud83d; the text was cut within a character",
            ),
        ] {
            assert_eq!(pair(text).unwrap_err(), ApiRefusal::with_fault(Problem::Unreadable, field, says), "{text}");
        }
    }
}
