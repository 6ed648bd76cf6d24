//! Escapes values for HTML (rule 22).

use std::io::{self, Write};

use super::clean;

/// The first byte of either isolate in UTF-8.
const ISOLATE_START: u8 = 0xe2;

/// Escapes each character that could end a text or an attribute with either quote. Drops the isolates around right-to-left
/// text, because `dir="auto"` of HTML ignores isolated text.
pub(super) fn escape(value: &str, out: &mut dyn Write) -> io::Result<()> {
    // Most values have nothing to escape. The fold has no early exit, so that the compiler vectorises it.
    let special = |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'' | b'`' | ISOLATE_START);
    if !value.bytes().fold(false, |found, byte| found | special(byte)) {
        return out.write_all(value.as_bytes());
    }
    let mut start = 0;
    for (at, byte) in value.bytes().enumerate() {
        let (escaped, length): (&[u8], _) = match byte {
            b'&' => (b"&amp;", 1),
            b'<' => (b"&lt;", 1),
            b'>' => (b"&gt;", 1),
            b'"' => (b"&quot;", 1),
            b'\'' => (b"&#39;", 1),
            b'`' => (b"&#96;", 1),
            ISOLATE_START if value[at..].starts_with([clean::ISOLATE.0, clean::ISOLATE.1]) => (b"", 3),
            _ => continue,
        };
        out.write_all(&value.as_bytes()[start..at])?;
        out.write_all(escaped)?;
        start = at + length;
    }
    out.write_all(&value.as_bytes()[start..])
}
