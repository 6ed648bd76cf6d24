//! Words of refusals: for the kind of a value, and for a name.

use serde_json::Value;

/// The kind of a value in words.
pub(crate) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A name as a refusal shows it. A name that is none, such as an address, is left out.
pub(crate) fn shown(name: &str) -> String {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '$');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) { "?".to_owned() } else { name.to_owned() }
}
