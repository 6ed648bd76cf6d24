//! The limits of the edge and its error. Limits are checked once, when a wire event becomes an [`Event`](crate::Event).

/// Bytes of an encoded workflow id, and of any other id without encoding.
pub const WORKFLOW_ID_BYTES: usize = 255;
/// Bytes of `event_id`, `category`, `entity_type`, `entity_id` and `actor`.
pub const ID_BYTES: usize = 255;
/// Bytes of a payload as compact JSON.
pub const PAYLOAD_BYTES: usize = 16 * 1024;
/// Levels of a payload's objects and lists. `serde_json` reads back 128, and an event travels inside other JSON.
pub const PAYLOAD_DEPTH: usize = 32;
/// Characters of a link that counts clicks, with the gateway's address. Outlook opens no link that is longer than 2,048. A link whose counted
/// form would be longer stays as it is.
pub const COUNTED_LINK_CHARS: usize = 2_048;
/// Names in `counts`.
pub const COUNTS: usize = 32;
/// Bytes of a name in `counts`.
pub const COUNT_NAME_BYTES: usize = 64;
/// The largest count, and its negative the smallest: up to 2^53 each integer is exact in every language.
pub const COUNT: i64 = 1 << 53;
/// Events in one batch.
pub const BATCH_EVENTS: usize = 500;
/// Bytes of one batch as JSON.
pub const BATCH_BYTES: usize = 256 * 1024;

/// A refusal by the edge: the field, the fault and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field as the contract names it.
    pub field: String,
    /// The fault, with the limit where there is one.
    pub problem: String,
}

impl Invalid {
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

/// The refusal of a count over [`COUNT`].
pub(crate) fn over_count() -> String {
    format!("is beyond 2^53 ({COUNT}), up to which each language is exact; send it as a text in payload")
}

/// A required id: not empty, no control characters, at most [`ID_BYTES`].
///
/// # Errors
/// Names the field and the limit.
pub fn id(field: &str, value: &str) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(field, "is required"));
    }
    optional_id(field, value)
}

/// Like [`id`], but may be empty.
pub(crate) fn optional_id(field: &str, value: &str) -> Result<(), Invalid> {
    if let Some(c) = value.chars().find(|c| c.is_control()) {
        return Err(Invalid::new(field, format!("has the control character {c:?}; ids are UTF-8 without any")));
    }
    bytes(field, value.len(), ID_BYTES)
}

/// A required line of text: not blank, no control characters, at most `limit` bytes.
pub(crate) fn line(field: &str, value: &str, limit: usize) -> Result<(), Invalid> {
    if value.trim().is_empty() {
        return Err(Invalid::new(field, "is required"));
    }
    if let Some(c) = value.chars().find(|c| c.is_control()) {
        return Err(Invalid::new(field, format!("has the control character {c:?}; write one line of text")));
    }
    bytes(field, value.len(), limit)
}

/// At most `limit` bytes.
pub(crate) fn bytes(field: &str, size: usize, limit: usize) -> Result<(), Invalid> {
    if size <= limit {
        return Ok(());
    }
    Err(Invalid::new(field, format!("has {size} bytes, the limit is {limit}")))
}
