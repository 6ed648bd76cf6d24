//! A signal's payload before decoding.

use super::dead_letters::printable;

pub const EVENT_BATCH: &str = "tidings.v1.EventBatch";

/// Empty fields are missing ones.
///
/// Any number of payloads, and only Temporal limits their size (2 MiB). Batch limits are rules for producers;
/// here we check each event's limits.
#[derive(Clone, Copy, Debug)]
pub struct SignalPayload<'a> {
    pub encoding: &'a [u8],
    pub message_type: &'a [u8],
    pub data: &'a [u8],
}

impl SignalPayload<'_> {
    pub(super) const NONE: Self = Self { encoding: b"", message_type: b"", data: b"" };

    pub(crate) fn encoding(&self) -> String {
        printable(&String::from_utf8_lossy(self.encoding), 64)
    }

    pub(super) fn message_type(&self) -> String {
        printable(&String::from_utf8_lossy(self.message_type), 64)
    }
}

/// A payload codec needs another remedy than a wrong argument type.
pub(crate) fn wrong_encoding(encoding: &str) -> String {
    match encoding {
        "" => "has no encoding".to_owned(),
        "binary/null" => "encoding is binary/null: the argument is null, nil, None or undefined".to_owned(),
        "binary/plain" => "encoding is binary/plain: the argument is bytes, not an object".to_owned(),
        other => {
            format!("encoding is {other}: a payload codec, which Tidings does not undo, or a converter of your own")
        }
    }
}
