//! The JSON of the contract `tidings.v1`, as every door reads it: signals, HTTP and files. docs/events.md is the contract.
//!
//! Each refusal has the path of its field, e.g. `payload.rows[0].id`, and never quotes a value, because it may be personal data.

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

/// Says at which byte a text stops being JSON. `None`: it is JSON.
#[must_use]
pub fn fault(json: &[u8]) -> Option<Invalid> {
    let error = serde_json::from_slice::<IgnoredAny>(json).err()?;
    Some(Invalid::new("", broken::not_json(json, &error)))
}

/// Names the part of a JSON text that no value can have: half of a surrogate pair, `1e400`, or too many levels.
#[must_use]
pub fn unusable(json: &[u8]) -> Option<Invalid> {
    serde_json::from_slice::<Value>(json).is_err().then(|| broken::fault("", json))
}

#[cfg(test)]
mod tests;
