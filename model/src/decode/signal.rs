//! A payload of a signal, before anything of it is read.

use super::dead_letters::printable;

/// Message type of a batch of events and retracts.
pub const EVENT_BATCH: &str = "tidings.v1.EventBatch";

/// One payload of a signal: its metadata `encoding` and `messageType`, empty where they are missing, and its bytes.
///
/// Any number of payloads is fine, of any size that Temporal lets through (2 MiB); the limits of a batch bind producers, those
/// of an event are checked here.
#[derive(Clone, Copy, Debug)]
pub struct SignalPayload<'a> {
    pub encoding: &'a [u8],
    pub message_type: &'a [u8],
    pub data: &'a [u8],
}

impl SignalPayload<'_> {
    /// Stands for what a signal does not have.
    pub(super) const NONE: Self = Self { encoding: b"", message_type: b"", data: b"" };

    pub(crate) fn encoding(&self) -> String {
        printable(&String::from_utf8_lossy(self.encoding), 64)
    }

    pub(super) fn message_type(&self) -> String {
        printable(&String::from_utf8_lossy(self.message_type), 64)
    }
}

/// Says how a payload came to an encoding that is not read. A payload codec needs another remedy than an argument of another type.
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
