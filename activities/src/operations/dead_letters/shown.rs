use serde::Serialize;
use tidings_model::{
    decode::decode_again,
    records::{DeadLetterRecord, KeptLetter},
    without_addresses,
};

/// A letter without its payload, and what an emission would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShownLetter {
    #[serde(flatten)]
    pub record: DeadLetterRecord,
    /// Bytes of the payload that are kept.
    pub kept: usize,
    /// The keys that would get events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// The reason why the letter cannot be emitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The letter without its payload, and what an emission would do.
#[must_use]
pub fn shown(letter: &KeptLetter) -> ShownLetter {
    let (keys, refused) = match decode_again(letter) {
        Ok(again) => (Some(again.keys.iter().map(ToString::to_string).collect()), None),
        Err(why) => (None, Some(without_addresses(&why))),
    };
    ShownLetter { record: letter.record.clone(), kept: letter.head.len(), keys, refused }
}
