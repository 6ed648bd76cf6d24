//! Limits, checked once when a wire event becomes an [`Event`](crate::Event).

pub const WORKFLOW_ID_BYTES: usize = 255;
/// For `event_id`, `category`, `entity_type`, `entity_id` and `actor`.
pub const ID_BYTES: usize = 255;
/// As compact JSON.
pub const PAYLOAD_BYTES: usize = 16 * 1024;
/// Nested objects and lists. `serde_json` reads up to 128 levels, and an event travels inside other JSON.
pub const PAYLOAD_DEPTH: usize = 32;
/// Maximum length of a click-counting link, including the gateway's address: Outlook does not open links over
/// 2,048. Longer links are not counted.
pub const COUNTED_LINK_CHARS: usize = 2_048;
pub const COUNTS: usize = 32;
pub const COUNT_NAME_BYTES: usize = 64;
/// The largest absolute value: up to 2^53, integers are exact in every language.
pub const COUNT: i64 = 1 << 53;
pub const BATCH_EVENTS: usize = 500;
/// As JSON.
pub const BATCH_BYTES: usize = 256 * 1024;

/// Field, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidField {
    /// As in the contract.
    pub field: String,
    pub problem: String,
}

impl InvalidField {
    pub(crate) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }

    pub(crate) fn workflow_id(id: &str) -> Self {
        Self::new("workflow id", format!("{id:?} is not digest/TENANT/TYPE/USER with each part percent-encoded"))
    }

    pub(crate) fn key(text: &str) -> Self {
        Self::new("key", format!("{text:?} is not TENANT/TYPE/USER with each part percent-encoded"))
    }
}

pub(crate) fn over_count() -> String {
    format!("is beyond 2^53 ({COUNT}), up to which each language is exact; send it as a text in payload")
}

/// A required id: no control characters, at most [`ID_BYTES`].
///
/// # Errors
/// Names the field and the limit.
pub fn check_id(field: &str, value: &str) -> Result<(), InvalidField> {
    if value.is_empty() {
        return Err(InvalidField::new(field, "is required"));
    }
    optional_id(field, value)
}

/// Like [`check_id`], but may be empty.
pub(crate) fn optional_id(field: &str, value: &str) -> Result<(), InvalidField> {
    if let Some(c) = value.chars().find(|c| c.is_control()) {
        return Err(InvalidField::new(field, format!("has the control character {c:?}; ids are UTF-8 without any")));
    }
    check_bytes(field, value.len(), ID_BYTES)
}

/// Neither blank nor with control characters.
pub(crate) fn check_line(field: &str, value: &str, limit: usize) -> Result<(), InvalidField> {
    if value.trim().is_empty() {
        return Err(InvalidField::new(field, "is required"));
    }
    if let Some(c) = value.chars().find(|c| c.is_control()) {
        return Err(InvalidField::new(field, format!("has the control character {c:?}; write one line of text")));
    }
    check_bytes(field, value.len(), limit)
}

pub(crate) fn check_bytes(field: &str, size: usize, limit: usize) -> Result<(), InvalidField> {
    if size <= limit {
        return Ok(());
    }
    Err(InvalidField::new(field, format!("has {size} bytes, the limit is {limit}")))
}
