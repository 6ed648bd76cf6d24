//! Builds dead letters from unusable parts of a body.

use std::collections::BTreeSet;

use serde_json::Value;
use tidings_model::{
    delivery_events::UnusablePart, foreign_text::cut_text, hex_sha256, presentable, without_addresses,
};
use uuid::Uuid;

/// Characters stored per part.
const KEPT_CHARS: usize = 65_536;
/// UUIDs stored per part.
const IDS: usize = 20;
const UUID_CHARS: usize = 36;

pub(super) fn build_letter(reason: &str, bytes: &[u8]) -> UnusablePart {
    let text = String::from_utf8_lossy(bytes);
    let kept = clean_text(&text);
    let head = cut_text(&kept, KEPT_CHARS).to_owned();
    UnusablePart {
        reason: presentable(reason),
        size: bytes.len() as u64,
        sha256: hex_sha256(bytes),
        whole: head.len() == kept.len(),
        head,
        ids: ids(&text),
    }
}

/// Removes email addresses and control characters. JSON stays valid JSON.
fn clean_text(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => mask_json(value).to_string(),
        Err(_) => without_addresses(text),
    }
}

fn mask_json(value: Value) -> Value {
    match value {
        Value::String(text) => masked_text(&text).into(),
        Value::Array(values) => values.into_iter().map(mask_json).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (masked_text(&name), mask_json(value))).collect()
        }
        other => other,
    }
}

/// Keeps our own `Message-ID`, which starts with a UUID, because Resend's events identify a message only by
/// this.
fn masked_text(text: &str) -> String {
    let id = text.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(text);
    let is_ours = id.split_once('@').is_some_and(|(local, domain)| is_uuid(local) && !domain.contains(['@', ' ', '<']));
    let clean = if is_ours || !(text.contains('@') || text.contains("%40")) {
        text.to_owned()
    } else {
        without_addresses(text)
    };
    clean.replace(char::is_control, " ")
}

fn ids(text: &str) -> BTreeSet<Uuid> {
    let words = text.split(|c: char| !c.is_ascii_hexdigit() && c != '-').filter(|word| is_uuid(word));
    words.filter_map(|word| word.parse().ok()).take(IDS).collect()
}

fn is_uuid(word: &str) -> bool {
    word.len() == UUID_CHARS && Uuid::try_parse(word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: &str = "01234567-89ab-5def-8123-456789abcdef";

    #[test]
    fn json_is_kept_as_json_without_addresses() {
        let part = json!({
            "event": "eaten", "email": "ann@example.com", "tidings_message": ID, "smtp-id": format!("<{ID}@acme.example>"),
            "reason": "550 \"ann@example.com\"\n unknown", "ann%40example.com": {"of": ["Ann <ann@example.com>", 1.5, null]},
        });
        let kept = build_letter("unknown event \"ann@example.com\"", part.to_string().as_bytes());
        let expected = json!({
            "event": "eaten", "email": "<address>", "tidings_message": ID, "smtp-id": format!("<{ID}@acme.example>"),
            "reason": "550 \"<address>\" unknown", "<address>": {"of": ["Ann <address>", 1.5, null]},
        });
        assert_eq!(serde_json::from_str::<Value>(&kept.head).unwrap(), expected);
        assert!(kept.whole && kept.ids == [ID.parse().unwrap()].into() && !kept.reason.contains("ann@"), "{kept:?}");
        assert_eq!(kept.size, part.to_string().len() as u64);
    }

    #[test]
    fn a_long_or_malformed_part_is_kept_as_far_as_it_fits() {
        let long = build_letter("long", format!("\"{}\"", "ü".repeat(KEPT_CHARS)).as_bytes());
        assert_eq!((long.whole, long.head.chars().count()), (false, KEPT_CHARS));
        let malformed = build_letter("no JSON", format!("{{ann@example.com {ID}\u{0}").as_bytes());
        assert_eq!((malformed.whole, malformed.head), (true, format!("<address> {ID}")));
    }
}
