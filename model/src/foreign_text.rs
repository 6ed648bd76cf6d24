//! Text from outside: files, environment, standard input, replies. It may have a byte order mark or invisible
//! characters at its ends, or be too long to show.

use std::io;

use serde_json::Value;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongEncoding {
    /// Windows calls this "Unicode"; `>` in its shell writes it.
    #[error("is UTF-16; save it as UTF-8")]
    Utf16,
    #[error("is not UTF-8 at byte {0}; save it as UTF-8")]
    Other(usize),
}

/// Removes the byte order mark some editors write before UTF-8.
#[must_use]
pub fn skip_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

/// By byte order mark or a NUL in the first character.
#[must_use]
pub fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, b' '..=b'~', ..] | [b' '..=b'~', 0, ..])
}

/// Removes a byte order mark.
///
/// # Errors
/// [`WrongEncoding`].
pub fn read_text(bytes: &[u8]) -> Result<&str, WrongEncoding> {
    if is_utf16(bytes) {
        return Err(WrongEncoding::Utf16);
    }
    let skipped = bytes.len() - skip_bom(bytes).len();
    str::from_utf8(&bytes[skipped..]).map_err(|error| WrongEncoding::Other(skipped + error.valid_up_to() + 1))
}

/// For `fs::read(path).and_then(decode_file)`.
///
/// # Errors
/// [`WrongEncoding`] as [`io::ErrorKind::InvalidData`].
pub fn decode_file(bytes: Vec<u8>) -> io::Result<String> {
    match read_text(&bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(wrong) => Err(io::Error::new(io::ErrorKind::InvalidData, wrong)),
    }
}

/// Trims white space, control characters, and marks which slip in when copying from a page or document.
#[must_use]
pub fn clean_edges(text: &str) -> &str {
    text.trim_matches(is_unseen)
}

/// Excludes the joiners U+200C and U+200D, which change the letter before them.
fn is_unseen(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Never splits a flag, a family emoji or a letter with its marks (UAX #29), unless the first is too long by
/// itself.
#[must_use]
pub fn cut_text(text: &str, max_chars: usize) -> &str {
    if text.len() <= max_chars {
        return text;
    }
    text.char_indices().nth(max_chars).map_or(text, |(limit, _)| cut_before(text, limit))
}

/// Like [`cut_text`], but limits bytes.
#[must_use]
pub fn cut_bytes(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes { text } else { cut_before(text, text.floor_char_boundary(max_bytes)) }
}

fn cut_before(text: &str, limit: usize) -> &str {
    let mut cursor = GraphemeCursor::new(limit, text.len(), true);
    let whole = match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
        Ok(true) | Err(_) => limit,
    };
    if whole == 0 { &text[..limit] } else { &text[..whole] }
}

#[must_use]
pub fn first_grapheme(text: &str) -> &str {
    text.graphemes(true).next().unwrap_or_default()
}

pub(crate) const fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Anything else, e.g. an address, becomes `?`.
pub(crate) fn printable_name(name: &str) -> String {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '$');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) { "?".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_as_readers_see_them() {
        for (text, max, cut) in [
            ("abc", 2, "ab"),
            ("abc", 3, "abc"),
            ("a👩‍👩‍👧‍👦b", 8, "a👩‍👩‍👧‍👦"),
            ("a👩‍👩‍👧‍👦b", 7, "a"),
            ("🇩🇪🇫🇷", 3, "🇩🇪"),
            ("x👍🏽", 2, "x"),
            ("xक्षि", 3, "x"),
            ("ae\u{301}", 2, "a"),
            ("\r\n", 1, "\r"),
            ("👍🏽", 1, "👍"),
        ] {
            assert_eq!(cut_text(text, max), cut, "{text:?} {max}");
        }
        assert_eq!(cut_bytes("aüb", 2), "a");
        assert_eq!(cut_bytes("aüb", 3), "aü");
        assert_eq!(cut_bytes("🇩🇪🇫🇷", 12), "🇩🇪");
        assert_eq!(first_grapheme("e\u{301}a"), "e\u{301}");
    }

    #[test]
    fn what_nobody_sees_at_the_edges_goes() {
        for text in ["ann\r\n", "\u{feff}ann", "\u{a0}ann\u{200b}", "\0ann\0", "\u{202a}ann\u{202c}", "\u{2028}ann\t"] {
            assert_eq!(clean_edges(text), "ann", "{text:?}");
        }
        assert_eq!(clean_edges("a\u{200b}\u{a0}b"), "a\u{200b}\u{a0}b");
        assert_eq!(clean_edges("نامه\u{200c}"), "نامه\u{200c}");
    }

    #[test]
    fn a_byte_order_mark_is_skipped_and_other_encodings_are_named() {
        assert_eq!(read_text(b"\xef\xbb\xbfa = 1"), Ok("a = 1"));
        assert_eq!(read_text(b""), Ok(""));
        for utf16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"a\0b\0", b"\0a\0b"] {
            assert_eq!(read_text(utf16), Err(WrongEncoding::Utf16), "{utf16:?}");
        }
        assert_eq!(read_text(b"\xef\xbb\xbfa\xfc"), Err(WrongEncoding::Other(5)));
    }

    proptest! {
        #[test]
        fn a_cut_is_a_beginning_within_the_limit(text in "\\PC{0,40}", max in 1_usize..40) {
            let cut = cut_text(&text, max);
            prop_assert!(text.starts_with(cut) && cut.chars().count() <= max);
            prop_assert!(cut.len() == text.len() || !cut.is_empty());
            prop_assert!(text.starts_with(cut_bytes(&text, max)) && cut_bytes(&text, max).len() <= max);
        }
    }
}
