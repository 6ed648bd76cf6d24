//! The JSON of the contract `tidings.v1`, as every door reads it: signals, HTTP and files. docs/events.md is the contract.
//!
//! Each refusal has the path of its field, e.g. `payload.rows[0].id`, and never quotes a value, because it may be personal data.

use serde_json::Value;
use tidings_proto::v1;

use crate::limits::Invalid;

mod broken;
mod items;
mod reader;
mod split;

pub use items::{Items, items};
pub(crate) use reader::Reader;

/// The edition of the contract. A workflow that refused an event must refuse it in a replay, too (docs/upgrades.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edition {
    /// Before the patch `json`: no integer of 2^53 or more in a payload, no `2.0` in counts, a payload of a signal is JSON as a whole.
    Former,
    Today,
}

/// Reads an event.
///
/// # Errors
/// Names the field that cannot be read.
pub fn event(json: &[u8]) -> Result<v1::Event, Invalid> {
    Reader::new(Edition::Today).event(json)
}

/// Reads a retract.
///
/// # Errors
/// Names the field that cannot be read.
pub fn retract(json: &[u8]) -> Result<v1::Retract, Invalid> {
    Reader::new(Edition::Today).retract(json)
}

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

#[cfg(test)]
mod tests;
