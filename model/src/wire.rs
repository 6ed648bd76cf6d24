//! Parses JSON of the contract `tidings.v1` from signals, HTTP and files. See docs/events.md.
//!
//! Each error has its field's path, e.g. `payload.rows[0].id`. It must never quote a value, which may be
//! personal data.

use serde::de::IgnoredAny;
use serde_json::Value;
use tidings_proto::v1;

use crate::limits::InvalidField;

mod broken;
mod items;
mod reader;
mod split;

pub use broken::repair_json;
pub use items::{WireItems, split_items};
pub(crate) use reader::WireReader;

/// The edition of the contract. If a workflow rejected an event, it must reject it in a replay too
/// (docs/upgrades.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContractEdition {
    /// Before the patch `json`: integers in payloads must be below 2^53, counts may not be `2.0`, and a
    /// signal's payload must be valid JSON as a whole.
    Former,
    Today,
}

/// # Errors
/// Names the unreadable field.
pub fn parse_event(json: &[u8]) -> Result<v1::Event, InvalidField> {
    WireReader::new(ContractEdition::Today).event(json)
}

/// # Errors
/// Names the unreadable field.
pub fn parse_retract(json: &[u8]) -> Result<v1::Retract, InvalidField> {
    WireReader::new(ContractEdition::Today).retract(json)
}

/// The byte at which a text stops being JSON. `None` if it is valid.
#[must_use]
pub fn find_fault(json: &[u8]) -> Option<InvalidField> {
    let error = serde_json::from_slice::<IgnoredAny>(json).err()?;
    Some(InvalidField::new("", broken::not_json(json, &error)))
}

/// The part of valid JSON that we cannot represent: half of a surrogate pair, `1e400`, or too deep nesting.
#[must_use]
pub fn find_unusable(json: &[u8]) -> Option<InvalidField> {
    serde_json::from_slice::<Value>(json).is_err().then(|| broken::locate_fault("", json))
}

#[cfg(test)]
mod tests;
