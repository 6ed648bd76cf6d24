//! Escapes values for HTML (rule 22).

use std::io::{self, Write};

use super::meter;
use crate::bidi;

/// Escapes each character that could end a text or an attribute with either quote. Drops an isolate around the
/// whole value, because `dir="auto"` of HTML ignores isolated text. Plain text is written as it is; it passes here to be counted.
pub(super) fn escape(value: &str, out: &mut dyn Write) -> io::Result<()> {
    if meter::written(value)? {
        return out.write_all(value.as_bytes());
    }
    let value = bidi::whole_isolate(value).unwrap_or(value);
    // Most values have nothing to escape. The fold has no early exit, so that the compiler vectorises it.
    let special = |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'' | b'`');
    if !value.bytes().fold(false, |found, byte| found | special(byte)) {
        return out.write_all(value.as_bytes());
    }
    let mut start = 0;
    for (at, byte) in value.bytes().enumerate() {
        let escaped: &[u8] = match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'\'' => b"&#39;",
            b'`' => b"&#96;",
            _ => continue,
        };
        out.write_all(&value.as_bytes()[start..at])?;
        out.write_all(escaped)?;
        start = at + 1;
    }
    out.write_all(&value.as_bytes()[start..])
}
