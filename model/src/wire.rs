//! Parses JSON of the contract `tidings.v1` from signals, HTTP and files. See docs/events.md.
//!
//! Each error has the path of its field, e.g. `payload.rows[0].id`. It must never quote a value, because this
//! may be personal data.

use serde::de::IgnoredAny;
use serde_json::Value;
use tidings_proto::v1;

use crate::limits::Invalid;

mod broken;
mod items;
mod reader;
mod split;

pub use broken::mended;
pub use items::{Items, items};
pub(crate) use reader::Reader;

/// The edition of the contract. If a workflow rejected an event, it must reject it in a replay too
/// (docs/upgrades.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edition {
    /// Before the patch `json`: integers in payloads must be below 2^53, counts may not be `2.0`, and a
    /// signal's payload must be valid JSON as a whole.
    Former,
    Today,
}

/// Parses an event.
///
/// # Errors
/// Names the unreadable field.
pub fn event(json: &[u8]) -> Result<v1::Event, Invalid> {
    Reader::new(Edition::Today).event(json)
}

/// Parses a retract.
///
/// # Errors
/// Names the unreadable field.
pub fn retract(json: &[u8]) -> Result<v1::Retract, Invalid> {
    Reader::new(Edition::Today).retract(json)
}

/// Finds the byte at which a text stops being JSON. `None` if it is valid.
#[must_use]
pub fn fault(json: &[u8]) -> Option<Invalid> {
    let error = serde_json::from_slice::<IgnoredAny>(json).err()?;
    Some(Invalid::new("", broken::not_json(json, &error)))
}

/// Finds the part of valid JSON that we cannot represent: half of a surrogate pair, `1e400`, or too deep
/// nesting.
#[must_use]
pub fn unusable(json: &[u8]) -> Option<Invalid> {
    serde_json::from_slice::<Value>(json).is_err().then(|| broken::fault("", json))
}

#[cfg(test)]
mod tests;
