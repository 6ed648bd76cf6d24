//! Finds the invalid part in broken JSON, and explains its likely cause in the producer's language.

use std::borrow::Cow;

use serde_json::Value;

use super::split;
use crate::foreign_text::printable_name;
use crate::{
    foreign_text::skip_bom,
    limits::{self, InvalidField},
};

const LEVELS: usize = 64;

pub(super) fn locate_fault(path: &str, value: &[u8]) -> InvalidField {
    let (mut path, mut value) = (path.to_owned(), value);
    for _ in 0..LEVELS {
        let below = match value.first() {
            Some(b'{') => split::split_members(value).and_then(|members| {
                let (name, value) = members.into_iter().find(|(_, value)| !is_json(value))?;
                Some((format!(".{}", printable_name(&name)), value))
            }),
            Some(b'[') => split::split_parts(value).and_then(|parts| {
                let (index, value) = parts.into_iter().enumerate().find(|(_, value)| !is_json(value))?;
                Some((format!("[{index}]"), value))
            }),
            _ => None,
        };
        let Some((name, part)) = below else {
            return InvalidField::new(path.trim_start_matches('.'), describe_problem(value));
        };
        path.push_str(&name);
        value = part;
    }
    let field = path.split(['.', '[']).next().unwrap_or_default();
    InvalidField::new(field, format!("nests deeper than {} levels", limits::PAYLOAD_DEPTH))
}

fn is_json(value: &[u8]) -> bool {
    serde_json::from_slice::<Value>(value).is_ok()
}

fn describe_problem(value: &[u8]) -> String {
    if let Some(words) = not_a_number(value) {
        return words.to_owned();
    }
    if str::from_utf8(value).is_err() {
        return "is not UTF-8".to_owned();
    }
    if repair_surrogates(value).is_some_and(|paired| is_json(&paired)) {
        return "has half of a surrogate pair such as \\ud83d; the text was cut within a character".to_owned();
    }
    match serde_json::from_slice::<Value>(value) {
        Err(error) if error.to_string().starts_with("number out of range") => {
            "is a number beyond the doubles".to_owned()
        }
        Err(error) => not_json(value, &error),
        Ok(_) => "is not JSON".to_owned(),
    }
}

pub(super) fn not_json(data: &[u8], error: &serde_json::Error) -> String {
    let before: usize =
        data.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let byte = before + error.column();
    let words = error.to_string();
    let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
    let near = &data[byte.saturating_sub(2).min(data.len())..];
    let hint = (0..near.len().min(3)).find_map(|at| not_a_number(&near[at..]));
    format!("is not JSON at byte {byte}: {}", hint.unwrap_or(words))
}

fn not_a_number(text: &[u8]) -> Option<&'static str> {
    let names: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    names.iter().any(|name| text.starts_with(name)).then_some(
        "NaN and Infinity are not JSON; Python's json.dumps writes them for float(\"nan\") and float(\"inf\"); send null",
    )
}

/// Repairs foreign JSON that parsers reject for a single character: drops a byte order mark, and replaces
/// invalid UTF-8 and half surrogate pairs by U+FFFD.
#[must_use]
pub fn repair_json(json: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(skip_bom(json)) {
        Cow::Borrowed(text) => repair_surrogates(text.as_bytes()).unwrap_or(Cow::Borrowed(text.as_bytes())),
        Cow::Owned(text) => match repair_surrogates(text.as_bytes()) {
            Some(paired) => Cow::Owned(paired.into_owned()),
            None => Cow::Owned(text.into_bytes()),
        },
    }
}

/// Replaces half surrogate pairs by U+FFFD; languages with UTF-16 strings write these when they cut an emoji.
/// `None` if all pairs are complete.
pub(super) fn repair_surrogates(json: &[u8]) -> Option<Cow<'_, [u8]>> {
    let unit = |at: usize| {
        let hex = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(str::from_utf8(hex).ok()?, 16).ok()
    };
    let (mut mended, mut at) = (Cow::Borrowed(json), 0);
    while at < json.len() {
        at += match (json[at], unit(at)) {
            (b'\\', Some(0xd800..0xdc00)) if matches!(unit(at + 6), Some(0xdc00..0xe000)) => 12,
            (b'\\', Some(0xd800..0xe000)) => {
                mended.to_mut()[at..at + 6].copy_from_slice(b"\\ufffd");
                6
            }
            (b'\\', _) => 2,
            _ => 1,
        };
    }
    matches!(mended, Cow::Owned(_)).then_some(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broken_part_is_named_by_its_path() {
        for (value, expected) in [
            (r#"{"rows":[{"a":1},{"score":NaN}]}"#, "payload.rows[1].score: NaN and Infinity are not JSON"),
            (r#"{"a":[-Infinity]}"#, "payload.a[0]: NaN and Infinity"),
            (r#"{"a":"\ud83d"}"#, "payload.a: has half of a surrogate pair"),
            (r#"{"a":1e400}"#, "payload.a: is a number beyond the doubles"),
            (r#"{"a":undefined}"#, "payload.a: is not JSON at byte 1: expected value"),
            (r#"{"ann@example.com":undefined}"#, "payload.?: is not JSON"),
            ("{a:1}", "payload: is not JSON at byte 2: key must be a string"),
            ("", "payload: is not JSON at byte 0: EOF"),
        ] {
            let said = locate_fault("payload", value.as_bytes()).to_string();
            assert!(said.starts_with(expected), "{value}: {said}");
        }
        assert_eq!(locate_fault("payload", b"{\"a\":\"\xfc\"}").to_string(), "payload.a: is not UTF-8");
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(locate_fault("payload", deep.as_bytes()).to_string(), "payload: nests deeper than 32 levels");
    }

    #[test]
    fn the_byte_is_counted_over_lines() {
        let data = b"[1,\n 2,\n NaN]";
        let error = serde_json::from_slice::<Value>(data).unwrap_err();
        assert!(
            not_json(data, &error).starts_with("is not JSON at byte 10: NaN and Infinity"),
            "{}",
            not_json(data, &error)
        );
    }

    #[test]
    fn json_of_a_stranger_is_mended() {
        for (json, expected) in [
            (&br#"{"a":"\ud83d\ude00"}"#[..], r#"{"a":"\ud83d\ude00"}"#),
            (b"\xef\xbb\xbf{\"a\":\"f\xfcr \\ud83d\"}", "{\"a\":\"f\u{fffd}r \\ufffd\"}"),
            (br#"["\ud83d"]"#, r#"["\ufffd"]"#),
            (b"[\"\xff\"]", "[\"\u{fffd}\"]"),
        ] {
            let mended = repair_json(json);
            assert_eq!(str::from_utf8(&mended).unwrap(), expected);
            assert!(is_json(&mended), "{expected}");
        }
    }

    #[test]
    fn only_halves_of_pairs_are_replaced() {
        for (json, expected) in [
            (r#""a""#, None),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (r#""\ude00 \uD83D""#, Some(r#""\ufffd \ufffd""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ud8""#, None),
        ] {
            let paired = repair_surrogates(json.as_bytes());
            assert_eq!(paired.as_deref().map(|json| str::from_utf8(json).unwrap()), expected, "{json}");
        }
    }
}
